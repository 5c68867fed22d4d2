/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* The maps, and the program's load-time settings. Sizes marked "loader" are set when it is loaded. */
#ifndef TRICOLOR_MAPS_H
#define TRICOLOR_MAPS_H

#include "abi.h"
#include "bpf_helpers.h"

#define always_inline inline __attribute__((always_inline))

/* Settings. What they switch off the verifier really removes. */
volatile const u8 replay = 0;	      /* clock from tstamp, cb[] in and out: for test runs only */
volatile const u8 link_header = 1;    /* 0: an L3 device, packets start at the IP header */
volatile const u8 ordered_stores = 0; /* 1: stores pass no earlier load or store: x86 */

/* Who watches; see tell.h. Written by user space. */
volatile struct watchers watching SEC(".data.watch");

/* The buckets: the sets of each chain position, then the reserved sets. User space may map it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 32); /* loader */
	__type(key, u32);
	__type(value, struct set);
} buckets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct table);
} table_map SEC(".maps");

/* Two copies: the one in force, and the one before or to come. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, struct policy);
} policies SEC(".maps");

/* The profiles of both copies, table.profiles each. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2); /* loader */
	__type(key, u32);
	__type(value, struct profile);
} profiles SEC(".maps");

/* Prefix sets of both copies. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1 << 22);
	__type(key, struct prefix_key);
	__type(value, u32); /* profile, or NO_PROFILE */
} prefixes SEC(".maps");

/* Answers of prefix sets, lossy: one that is not here, or is another's, costs time alone. */
struct prefix_answer {
	u64 address[2];
	u32 set;
	u32 generation;
	u32 profile;
	u32 found;
};
#define PREFIX_CACHE 4096
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, PREFIX_CACHE);
	__type(key, u32);
	__type(value, struct prefix_answer);
} prefix_cache SEC(".maps");

/* Written by user space in memory, in one go. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct control);
} control_map SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_STATS);
	__type(key, u32);
	__type(value, struct class_stats);
} class_stats_map SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct port_stats);
} port_stats_map SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct about);
} about_map SEC(".maps");

#endif
