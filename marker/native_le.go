//go:build 386 || amd64 || arm || arm64 || loong64 || mips64le || mipsle || ppc64le || riscv64 || wasm

package marker

import "math/bits"

// half is a word whose first four bytes in memory are those of v, the rest zero.
func half(v uint32) uint64 { return uint64(v) }

// transport is a key's last word: the four bytes of the ports as they stand in memory, the protocol.
func transport(ports uint32, proto uint8) uint64 { return uint64(ports) | uint64(proto)<<32 }

// networkOrder is a word whose first two bytes in memory are those of v in network order.
func networkOrder(v uint16) uint32 { return uint32(bits.ReverseBytes16(v)) }
