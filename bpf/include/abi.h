/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Everything that user space sees of the kernel program: the structs in its maps, the enums in
 * their fields, the words of a replay. Sizes and offsets are asserted here and, on Go's side, in
 * package maps.
 *
 * Units: rates in bytes per second, tokens and bursts in nanobytes (10^-9 byte), times in
 * nanoseconds. Under `count: packets` a byte reads "packet" throughout.
 */
#ifndef TRICOLOR_ABI_H
#define TRICOLOR_ABI_H

#include "kernel.h"

/* Of every struct below; pinned with the table. */
enum layout {
	LAYOUT_VERSION = 3,
};

#define MAX_CLASSES 64
#define MAX_CHAIN 3		    /* meters in a class's chain */
#define MAX_STATS (2 * MAX_CLASSES) /* counters: a change keeps the old ones and gives new ones */
#define MAX_RULES 256
#define SET_SLOTS 4
#define HASH_SEEDS 11
#define COST_MAX (1U << 24) /* a packet's cost is clamped to this */
#define NO_SET U32_MAX	    /* no set of buckets */
#define NO_CLASS 0xffff	    /* no class matched */

enum color {
	GREEN = 0,
	YELLOW = 1,
	RED = 2,
	COLORS = 3,
};

enum meter_type {
	METER_TOKEN = 0,
	METER_SRTCM = 1,
	METER_TRTCM = 2,
	METER_RFC4115 = 3,
};

/* Who shares a bucket. From PER_CLASS on a bucket has a reserved set and no hash. */
enum per {
	PER_FLOW = 0,
	PER_SRC = 1,
	PER_DST = 2,
	PER_VLAN = 3,
	PER_DSCP = 4,
	PER_CLASS = 5,
	PER_INTERFACE = 6,
};

/* What a packet costs. */
enum count {
	COUNT_L3 = 0,
	COUNT_L2 = 1,
	COUNT_L1 = 2,
	COUNT_PACKETS = 3,
};

/* What is done to a packet, by its colour. Bits of struct action.verbs; none is `pass`. */
enum verb {
	VERB_DROP = 1,
	VERB_DSCP = 2,	    /* with VERB_CE: where the packet is not ECN-capable */
	VERB_CE = 4,	    /* congestion experienced, if the packet is ECN-capable */
	VERB_MARK = 8,	    /* the skb's mark */
	VERB_PRIORITY = 16, /* the skb's priority */
};

/* Families that a rule takes: a set of bits. */
enum family {
	FAMILY_IPV4 = 1,
	FAMILY_IPV6 = 2,
	FAMILY_NONE = 4, /* what is not IP */
};

/* What became of a packet before any meter saw it. */
enum kind {
	KIND_METERED = 0,
	KIND_UNMATCHED = 1, /* IP, but of no class */
	KIND_NOT_IP = 2,
	KIND_MALFORMED = 3,
};

/*
 * A bucket's key: class, meter position and family (in kind), and the fields of `per`; the rest is
 * zero. An IPv4 address takes the first 4 bytes of its 16. Ports in network order.
 */
struct key {
	u64 word[5];
};
struct key_fields {
	u8 src[16];
	u8 dst[16];
	u16 sport;
	u16 dport;
	u8 proto;
	u8 kind; /* per | position << 4 | IPv6 << 7 */
	u16 class;
};
#define KIND_POSITION_SHIFT 4
#define KIND_IPV6 0x80

/* A meter's state. */
struct bucket {
	u64 last; /* when the tokens were counted; never moves back */
	u64 tc;
	u64 tx; /* Te or Tp */
};

/* A bucket and, in slots 0 and 1, what its set needs. Two neighbouring cache lines. */
struct slot {
	struct key key;
	u32 lock; /* slot 0, of the whole set: a sequence; odd: held */
	u32 tags; /* slot 0, of the whole set: one byte a slot, of its key's hash; 0: empty */
		  /* slot 1, both words: the latest time at which this set forgot a bucket */
	struct bucket bucket;
	u64 packets[COLORS]; /* by the packets' final colour */
	u64 bytes[COLORS];
	u32 profile;	/* index in its generation's profiles */
	u32 generation; /* of the policy that wrote the tokens */
};

struct set {
	struct slot slots[SET_SLOTS];
};

/* A meter's parameters, compiled. `x` is the second bucket: E (srtcm, rfc4115) or P (trtcm). */
struct profile {
	u64 cir;
	u64 xir;
	u64 cbs;      /* nanobytes */
	u64 xbs;      /* nanobytes */
	u64 c_fill;   /* ns after which C is full without multiplying (with E: srtcm, coupled) */
	u64 x_fill;   /* ns after which the second bucket is */
	u64 id;	      /* word[4] of the overflow bucket's key */
	u32 overflow; /* reserved set of the overflow bucket */
	u32 moved;    /* of one that is gone: 1 + the profile its buckets go on with; 0 none */
	u8 meter;     /* enum meter_type */
	u8 aware;     /* 1: looks at the arrival colour */
	u8 coupling;  /* 1: E also gets what C cannot hold (rfc4115) */
	u8 gone;      /* 1: no packet will ask for its buckets again */
	u8 keyed;     /* 1: its buckets are keyed, and have an overflow bucket */
	u8 name[31];  /* for people */
};

/* One meter of a class's chain: whose bucket, by which profile. */
struct meter {
	struct key mask[2]; /* parts of the packet's key that make the bucket's: IPv4, IPv6 */
	u64 id[2];	    /* kind and class, in place for word[4]: IPv4, IPv6 */
	u32 profile;
	u32 reserved; /* reserved set of the bucket, from PER_CLASS on */
	u16 family;   /* the number in id */
	u8 per;	      /* enum per */
	u8 position;  /* in the chain */
	u8 prefix[2]; /* leading bits of an IPv4 and an IPv6 address that count, for people */
	u8 pad[2];
};

struct action {
	u8 verbs; /* enum verb */
	u8 dscp;
	u8 pad[2];
	u32 mark;
	u32 priority;
	u32 pad2;
};

struct class {
	struct meter meters[MAX_CHAIN];
	struct action actions[COLORS];
	u64 arrival[2]; /* bit d: DSCP d arrives yellow [0], red [1]; else green */
	s64 overhead;	/* added to each packet's cost */
	u8 chain;	/* meters used */
	u8 count;	/* enum count */
	u8 stats;	/* index of its counters */
	u8 order[MAX_CHAIN]; /* positions of the meters with a reserved set, by ascending set; else 0xff */
	u8 pad[2];
	u8 name[64];
};

/* A prefix, as the two words of a key's address. */
struct address_match {
	u64 want[2]; /* address & mask == want */
	u64 mask[2];
};

/* One way to match a class: all of it must hold. The first rule that matches decides. */
struct rule {
	struct address_match src;
	struct address_match dst;
	u64 proto[4]; /* bit p: protocol p is taken */
	u64 dscp;     /* bit d: DSCP d is taken */
	u32 mark;
	u32 mark_mask; /* 0: any */
	u32 src_set;   /* prefix set that must hold the address; 0 none */
	u32 dst_set;
	u16 sport[2]; /* from, to */
	u16 dport[2];
	u16 vlan[2]; /* an untagged packet is of VLAN 0 */
	u16 class;
	u8 families; /* enum family */
	u8 fragment; /* bit 0: what is no fragment; bit 1: fragments */
	u8 ports;    /* 1: a packet without ports does not match */
	u8 any;	     /* 1: takes every IP packet, whatever the fields above say */
	u8 pad[6];
};

/* A prefix of a set; the longest that holds an address is its answer. */
struct prefix_key {
	u32 length; /* 32 for the set, and the prefix's bits */
	u32 set;
	u8 address[16];
};

#define NO_PROFILE U32_MAX /* the prefix brings no profile of its own */

/* The whole policy. Never edited in place: a fresh copy is written, then control.active switched. */
struct policy {
	u32 generation; /* its parity is the copy's index */
	u16 classes;
	u16 rules;
	u64 since;    /* when it took over */
	u8 malformed; /* enum verb: VERB_DROP, or 0: let through */
	u8 pad;
	u16 next_family; /* the first meter.family that was never used */
	u32 pad2;
	struct class class[MAX_CLASSES];
	struct rule rule[MAX_RULES];
};

/*
 * Which copy is in force; past the deadline, if there is one, the other is, as the next generation. One
 * word, so that both change at once: deadline (ns; 0 none) << 1 | copy.
 */
struct control {
	u64 word;
};

/* Where a chain position's buckets stand among the sets. */
struct stage {
	u32 base;
	u32 mask; /* sets - 1 */
};

/* The table's constants. Written once, before the first packet; they outlive an upgrade. */
struct table {
	enum layout layout;
	u32 reserved; /* index of the first reserved set */
	u32 sets;     /* all of them */
	u32 profiles; /* room for profiles in one copy of the policy */
	struct stage stages[MAX_CHAIN];
	u64 seeds[HASH_SEEDS];
};

/* What an attachment is, for `show`. Written by the loader, not read by the program. */
struct about {
	u8 device[16];
	u64 since; /* seconds since 1970 */
	u64 netns; /* inode of the network namespace */
	u32 ifindex;
	u32 handle; /* clsact filter's handle and priority; 0 with TCX */
	u16 priority;
	u8 egress;
	u8 own_qdisc; /* 1: the clsact qdisc was added by us */
	u8 pad[4];
	u8 version[32];
	u8 object[32]; /* SHA-256 of the object whose program polices */
};

/* Counters of one class, per CPU. Packets are wire packets; bytes are what they cost. */
struct class_stats {
	u64 packets[COLORS];
	u64 bytes[COLORS];
	u64 overflow;	/* packets metered in an overflow bucket: the table was full */
	u64 contended;	/* packets red because a bucket could not be locked in time */
	u64 clock_back; /* buckets that saw a time before their last */
};

/* Counters of what no class saw, per CPU. */
struct port_stats {
	u64 unmatched; /* wire packets */
	u64 not_ip;
	u64 malformed;
	u64 long_chain; /* IPv6 with more extension headers than are walked; still policed */
	u64 unread; /* headers that could not be pulled within reach, for want of memory: dropped */
};

/* What became of one bucket of a decision, as it was under its lock. */
struct judged {
	struct bucket bucket; /* brought to now, after spending */
	u32 profile;
	u32 generation; /* of the policy that counted its tokens; newer than the packet's in a change */
};

/* What is told of one metered packet, to whoever watches. */
struct decision {
	u64 now;
	struct key key; /* of the packet's flow */
	u32 cost;
	u32 packets;
	u32 generation; /* of the policy that it met */
	u16 class;
	u16 vlan;
	u8 dscp;
	u8 family;
	u8 arrival;
	u8 color;
	u8 chain;	      /* meters that judged; 0: contended */
	u8 overflow;	      /* bit i: meter i's bucket is the overflow one */
	u8 colors[MAX_CHAIN]; /* by each meter */
	u8 pad[7];
	struct judged judged[MAX_CHAIN]; /* as many as meters judged */
};
#define DECISION_HEAD __builtin_offsetof(struct decision, judged)

/* Who may watch at one time. */
enum watcher_kind {
	WATCHER_RECORD = 0,
	WATCHER_MONITOR = 1,
	WATCHERS = 2,
};

/* What a watcher wants to be told. Written by user space; wanted is set last. */
struct watcher {
	u32 colors; /* bit c: decisions of colour c */
	u32 sample; /* one in so many, of each CPU; 0 and 1: all */
	u64 budget; /* decisions a second, of each CPU; 0: any */
};
struct watchers {
	u32 wanted; /* bit w: watcher w is there. The program clears it of one that is gone */
	u32 pad;
	struct watcher watcher[WATCHERS];
};

/* Counters of a watcher's decisions, per CPU. They go on from one watcher to the next. */
struct watcher_stats {
	u64 decided;  /* packets of its colours that were metered */
	u64 written;  /* of them, those told */
	u64 lost;     /* for which there was no room */
	u64 left_out; /* by sampling, or beyond the budget */
	u64 second;   /* that the budget is of */
	u64 used;     /* of the budget in that second */
};

/*
 * Replay (a test run of the very program; see docs/ARCHITECTURE.md): what a test run
 * cannot set in the context comes in cb[], what it cannot return goes out in it.
 */
enum replay_in {
	REPLAY_LINK = 0,     /* enum replay_link */
	REPLAY_CAPTURED = 1, /* bytes of the frame that count; the rest is padding */
	REPLAY_LENGTH = 2,   /* the frame's true length */
	REPLAY_VLAN = 3,     /* offloaded tag: 1 << 16 | TCI; 0 none */
};

/* What the settling program is told, in cb[]: the sets to settle. */
enum settle_in {
	SETTLE_FROM = 0,
	SETTLE_COUNT = 1,
	SETTLE_PREPARE =
		2, /* 1: the next policy, of which nothing is in force yet; see prepare_set */
};
enum replay_link {
	LINK_ETHERNET = 0,
	LINK_L3_OTHER = 1, /* no link header, not IP */
	LINK_L3_IPV4 = 4,
	LINK_L3_IPV6 = 6,
};
enum replay_out {
	REPLAY_RESULT = 0, /* kind | color << 8 | arrival color << 12 | class << 16 */
	REPLAY_COST = 1,
	REPLAY_SLOT = 2, /* MAX_CHAIN words: set × SET_SLOTS + slot, or NO_SET */
};

/* Names that nothing else keeps in the object's BTF, for Go. */
#define TO_GO(type, name) type *to_go_##name __attribute__((unused))
TO_GO(enum color, color);
TO_GO(enum meter_type, meter_type);
TO_GO(enum per, per);
TO_GO(enum count, count);
TO_GO(enum verb, verb);
TO_GO(enum kind, kind);
TO_GO(enum family, family);
TO_GO(enum replay_in, replay_in);
TO_GO(enum settle_in, settle_in);
TO_GO(enum replay_link, replay_link);
TO_GO(enum replay_out, replay_out);
TO_GO(struct key_fields, key_fields);
TO_GO(struct decision, decision);
TO_GO(enum watcher_kind, watcher_kind);

_Static_assert(sizeof(struct key) == 40 && sizeof(struct key_fields) == 40, "key");
_Static_assert(sizeof(struct slot) == 128, "slot: two cache lines");
_Static_assert(__builtin_offsetof(struct slot, bucket) == 48, "slot.bucket");
_Static_assert(__builtin_offsetof(struct slot, profile) == 120, "slot.profile");
_Static_assert(sizeof(struct set) == 512, "set");
_Static_assert(sizeof(struct profile) == 104, "profile");
_Static_assert(sizeof(struct meter) == 112, "meter");
_Static_assert(sizeof(struct action) == 16, "action");
_Static_assert(sizeof(struct class) == 480, "class");
_Static_assert(sizeof(struct rule) == 144, "rule");
_Static_assert(sizeof(struct prefix_key) == 24, "prefix_key");
_Static_assert(sizeof(struct policy) == 24 + 64 * 480 + 256 * 144, "policy");
_Static_assert(sizeof(struct table) == 128, "table");
_Static_assert(sizeof(struct about) == 112, "about");
_Static_assert(sizeof(struct class_stats) == 72, "class_stats");
_Static_assert(sizeof(struct judged) == 32, "judged");
_Static_assert(sizeof(struct decision) == 80 + MAX_CHAIN * 32, "decision");

#endif
