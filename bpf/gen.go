// Package bpf holds the kernel program: its C source, and the object and Go bindings that bpf2go
// makes of it. Generated names stop at package maps.
package bpf

//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel,bpfeb -cflags "-O2 -g -Wall -Wextra -Werror -Wno-unused-parameter -mcpu=v3 -nostdinc -fno-stack-protector -ffile-prefix-map=${PWD}=." -type layout -type color -type meter_type -type per -type count -type verb -type kind -type replay_in -type settle_in -type family -type rule -type prefix_key -type replay_link -type replay_out -type key_fields -type slot -type set -type profile -type policy -type control -type table -type about -type class_stats -type decision -type watcher_stats -type watcher_kind -type port_stats -output-stem policer Policer policer.bpf.c -- -Iinclude -Iheaders
