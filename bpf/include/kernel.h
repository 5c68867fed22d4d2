/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * What the program needs of the kernel's and the compiler's interface, and no more: fixed-width
 * types, the TC context, the map types and flags used, protocol numbers. Every value here is a
 * fact of a stable interface. Stands in for <linux/bpf.h>, so that the object does not depend on
 * the build machine's headers (-nostdinc).
 */
#ifndef TRICOLOR_KERNEL_H
#define TRICOLOR_KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u64 __be64;
typedef __u16 __sum16;
typedef __u32 __wsum;

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s64 s64;

#ifndef NULL
#define NULL ((void *)0)
#endif

#define U32_MAX ((u32)~0U)
#define U64_MAX ((u64)~0ULL)

/* Map types and flags (enum bpf_map_type). */
enum {
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERF_EVENT_ARRAY = 4,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LPM_TRIE = 11,
};
enum {
	BPF_ANY = 0,
	BPF_F_NO_PREALLOC = 1U << 0,
	BPF_F_MMAPABLE = 1U << 10,
};

#define BPF_F_CURRENT_CPU 0xffffffffULL /* bpf_perf_event_output */

#define ENOENT 2

/* TC verdicts. UNSPEC lets the packet go on to the next program on the hook; OK would end the chain. */
enum {
	TC_ACT_UNSPEC = -1,
	TC_ACT_SHOT = 2,
};

enum {
	ETH_P_IP = 0x0800,
	ETH_P_8021Q = 0x8100,
	ETH_P_IPV6 = 0x86dd,
	ETH_P_PPP_SES = 0x8864,
	ETH_P_8021AD = 0x88a8,
	PPP_IP = 0x0021,
	PPP_IPV6 = 0x0057,
};

enum {
	IPPROTO_HOPOPTS = 0,
	IPPROTO_TCP = 6,
	IPPROTO_UDP = 17,
	IPPROTO_DCCP = 33,
	IPPROTO_ROUTING = 43,
	IPPROTO_FRAGMENT = 44,
	IPPROTO_AH = 51,
	IPPROTO_DSTOPTS = 60,
	IPPROTO_SCTP = 132,
	IPPROTO_UDPLITE = 136,
};

/* The context of a TC program (struct __sk_buff of the stable interface). */
struct __sk_buff {
	__u32 len;
	__u32 pkt_type;
	__u32 mark;
	__u32 queue_mapping;
	__u32 protocol;
	__u32 vlan_present;
	__u32 vlan_tci;
	__u32 vlan_proto;
	__u32 priority;
	__u32 ingress_ifindex;
	__u32 ifindex;
	__u32 tc_index;
	__u32 cb[5];
	__u32 hash;
	__u32 tc_classid;
	__u32 data;
	__u32 data_end;
	__u32 napi_id;
	__u32 family;
	__u32 remote_ip4;
	__u32 local_ip4;
	__u32 remote_ip6[4];
	__u32 local_ip6[4];
	__u32 remote_port;
	__u32 local_port;
	__u32 data_meta;
	__u64 flow_keys;
	__u64 tstamp;
	__u32 wire_len;
	__u32 gso_segs;
	__u64 sk;
	__u32 gso_size;
	__u8 tstamp_type;
	__u8 padding[3];
	__u64 hwtstamp;
};

#endif
