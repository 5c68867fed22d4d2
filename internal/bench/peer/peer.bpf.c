//go:build ignore
// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * What people write: a srTCM policer of one bucket a flow in a map of the kernel's own. Once a hash map with
 * bpf_spin_lock, once an LRU hash map, which refuses that lock, with a lock word. It knows Ethernet, IPv4 and UDP
 * alone, has no classes and one counter a colour; its figures flatter it by that.
 */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))
#define always_inline inline __attribute__((always_inline))
#define __uint(name, value) int(*name)[value]
#define __type(name, value) typeof(value) *name

/* Map types, flags and helpers, by number: facts of the kernel's interface. */
#define MAP_HASH 1
#define MAP_LRU_HASH 9
#define ANY 0
#define NOEXIST 1
static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static long (*const map_update)(void *map, const void *key, const void *value,
				u64 flags) = (void *)2;
static u64 (*const clock)(void) = (void *)5;
static long (*const spin_lock)(void *lock) = (void *)93;
static long (*const spin_unlock)(void *lock) = (void *)94;

struct __sk_buff {
	u32 unused[19];
	u32 data;
	u32 data_end;
};

struct bpf_spin_lock {
	u32 value;
};

struct key {
	u8 src[16];
	u8 dst[16];
	u32 ports;
	u32 proto;
};

struct locked {
	struct bpf_spin_lock lock;
	u64 last, tc, te, packets[3];
};

struct worded {
	u32 lock;
	u64 last, tc, te, packets[3];
};

struct {
	__uint(type, MAP_HASH);
	__uint(max_entries, 1);
	__type(key, struct key);
	__type(value, struct locked);
} hash SEC(".maps");

struct {
	__uint(type, MAP_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, struct key);
	__type(value, struct worded);
} lru SEC(".maps");

char _license[] SEC("license") = "Dual BSD/GPL";

volatile const u64 cir, cbs, ebs; /* bytes a second, nanobytes, nanobytes */

static always_inline int read_key(const struct __sk_buff *skb, struct key *k, u64 *cost)
{
	u8 *data = (u8 *)(long)skb->data, *end = (u8 *)(long)skb->data_end;

	if (data + 42 > end || *(u16 *)(data + 12) != 8 || data[14] != 0x45 || data[23] != 17)
		return 0;
	*(u32 *)k->src = *(u32 *)(data + 26);
	*(u32 *)k->dst = *(u32 *)(data + 30);
	k->ports = *(u32 *)(data + 34);
	k->proto = data[23];
	*cost = (u64)(data[16] << 8 | data[17]) * 1000000000;
	return 1;
}

#define JUDGE(b, now, cost, color)                                                        \
	do {                                                                              \
		u64 elapsed = now > b->last ? now - b->last : 0;                          \
		u64 tc = elapsed < (cbs + ebs) / cir ? b->tc + elapsed * cir : cbs + ebs; \
		b->last += elapsed;                                                       \
		b->tc = tc < cbs ? tc : cbs;                                              \
		b->te += tc - b->tc;                                                      \
		if (b->te > ebs)                                                          \
			b->te = ebs;                                                      \
		color = 2;                                                                \
		if (b->tc >= cost) {                                                      \
			b->tc -= cost;                                                    \
			color = 0;                                                        \
		} else if (b->te >= cost) {                                               \
			b->te -= cost;                                                    \
			color = 1;                                                        \
		}                                                                         \
		if (color == 0)                                                           \
			b->packets[0]++;                                                  \
		else if (color == 1)                                                      \
			b->packets[1]++;                                                  \
		else                                                                      \
			b->packets[2]++;                                                  \
	} while (0)

SEC("tc")
int peer_hash(struct __sk_buff *skb)
{
	struct key k = {};
	u64 cost, now = clock();
	struct locked *b;
	u32 color;

	if (!read_key(skb, &k, &cost))
		return -1;
	b = map_lookup(&hash, &k);
	if (!b) {
		struct locked fresh = { .last = now, .tc = cbs, .te = ebs };

		map_update(&hash, &k, &fresh, NOEXIST);
		b = map_lookup(&hash, &k);
		if (!b)
			return 2;
	}
	spin_lock(&b->lock);
	JUDGE(b, now, cost, color);
	spin_unlock(&b->lock);
	return color == 2 ? 2 : -1;
}

SEC("tc")
int peer_lru(struct __sk_buff *skb)
{
	struct key k = {};
	u64 cost, now = clock();
	struct worded *b;
	u32 color;

	if (!read_key(skb, &k, &cost))
		return -1;
	b = map_lookup(&lru, &k);
	if (!b) {
		struct worded fresh = { .last = now, .tc = cbs, .te = ebs };

		map_update(&lru, &k, &fresh, NOEXIST);
		b = map_lookup(&lru, &k);
		if (!b)
			return 2;
	}
	if (__sync_val_compare_and_swap(&b->lock, 0, 1)) /* one CPU is timed: nobody waits */
		return 2;
	JUDGE(b, now, cost, color);
	__sync_lock_test_and_set(&b->lock, 0);
	return color == 2 ? 2 : -1;
}
