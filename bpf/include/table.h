/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * The bucket table. Twin: marker/table.go.
 *
 * A key has two candidate sets of four slots. It is looked for without a lock, as a hint; then the
 * set is locked and the key compared again. A new key takes the lowest empty slot, else the lowest
 * forgettable one, of the candidate with more room. Only a bucket that is full at now may be
 * forgotten: forgetting it changes no answer. With no room the packet is metered in its profile's
 * overflow bucket, so that a full table grants nobody credit.
 *
 * Locks: one word a set, taken by compare-and-exchange, given back by exchange (full barriers),
 * always in ascending order of sets. The two candidates stay locked while a packet is metered in
 * the overflow bucket: so the key cannot be inserted meanwhile with credit that is being spent.
 * User space never takes a lock: it reads the sequence, the slot, and the sequence again.
 */
#ifndef TRICOLOR_TABLE_H
#define TRICOLOR_TABLE_H

#include "hash.h"
#include "meter.h"

#define SPIN_SHORT 16
#define SPIN_LOOP 4096 /* about 40 µs; then the packet is red and counted as contended */

static always_inline struct set *set_at(u32 index)
{
	return bpf_map_lookup_elem(&buckets, &index);
}

/* The latest time at which the set forgot a bucket. It stands in slot 1, for want of room in slot 0. */
static always_inline u64 *set_forgot(struct set *s)
{
	return (u64 *)&s->slots[1].lock;
}

static always_inline int set_try_lock(struct set *s)
{
	u32 seq = *(volatile u32 *)&s->slots[0].lock;

	return !(seq & 1) && __sync_val_compare_and_swap(&s->slots[0].lock, seq, seq + 1) == seq;
}

static always_inline void set_unlock(struct set *s)
{
	/* Only the holder changes a held lock. The result is used, so this is an exchange with
	 * full barriers; a fetch-and-add whose result is unused would be relaxed on arm64. */
	u32 held = *(volatile u32 *)&s->slots[0].lock;

	held = __sync_lock_test_and_set(&s->slots[0].lock, held + 1);
	barrier_var(held);
}

struct spin {
	u32 index;
	u32 locked;
};

static long spin_once(u64 round, void *ctx)
{
	struct spin *spin = ctx;
	struct set *s = set_at(spin->index);

	if (!s)
		return 1;
	spin->locked = set_try_lock(s);
	return spin->locked;
}

/* The long wait for a lock, out of line. Returns 1 once locked, 0 where the bound is reached. */
__noinline int set_spin(u32 index)
{
	struct spin spin = { .index = index };

	for (int i = 0; i < SPIN_SHORT; i++)
		if (spin_once(i, &spin))
			return spin.locked;
	bpf_loop(SPIN_LOOP, spin_once, &spin, 0);
	return spin.locked;
}

static always_inline int set_lock(struct set *s, u32 index)
{
	return set_try_lock(s) || set_spin(index);
}

static always_inline int key_equal(const struct key *a, const struct key *b)
{
	return !((a->word[0] ^ b->word[0]) | (a->word[1] ^ b->word[1]) | (a->word[2] ^ b->word[2]) |
		 (a->word[3] ^ b->word[3]) | (a->word[4] ^ b->word[4]));
}

/* The slot that holds the key, or -1. */
static always_inline int set_find(const struct set *s, const struct key *k, u8 tag)
{
	u32 tags = *(volatile u32 *)&s->slots[0].tags;

#pragma unroll
	for (int i = 0; i < SET_SLOTS; i++)
		if ((u8)(tags >> 8 * i) == tag && key_equal(&s->slots[i].key, k))
			return i;
	return -1;
}

/* A slot by a number that the verifier can bound on any kernel. */
static always_inline struct slot *set_slot(struct set *s, u64 i)
{
	barrier_var(i);
	i &= SET_SLOTS - 1;
	return &s->slots[i];
}

/* The profile by which a slot's tokens were last counted. */
static always_inline struct profile *slot_profile(const struct slot *slot, const struct table *t)
{
	u32 index = slot->profile + (slot->generation & 1) * t->profiles;

	return bpf_map_lookup_elem(&profiles, &index);
}

/*
 * Whether a slot may be forgotten: refilled to now, it holds every one of its bursts in full. A
 * function of its own, as is set_room, so that the verifier walks its paths once.
 */
__noinline int slot_forgettable(const struct slot *slot, u64 now)
{
	struct profile *p;
	struct bucket b;
	struct table *t;
	u32 zero = 0;

	t = bpf_map_lookup_elem(&table_map, &zero);
	if (!slot || !t)
		return 0;
	p = slot_profile(slot, t);
	if (!p)
		return 0;
	b = slot->bucket;
	meter_refill(p, &b, now);
	return meter_full(p, &b);
}

/* A set's room at now: bit i, slot i is empty; bit 4 + i, it is taken but forgettable. */
__noinline u32 set_room(const struct set *s, u64 now)
{
	u32 room = 0;

	if (!s)
		return 0;
	for (u32 i = 0; i < SET_SLOTS; i++) {
		if (!(u8)(s->slots[0].tags >> 8 * i))
			room |= 1 << i;
		else if (slot_forgettable(&s->slots[i], now))
			room |= 1 << (SET_SLOTS + i);
	}
	return room;
}

static always_inline u32 room_size(u32 room)
{
	room = (room & 0x55) + (room >> 1 & 0x55);
	room = (room & 0x33) + (room >> 2 & 0x33);
	return (room & 0x0f) + (room >> 4);
}

/* The lowest empty slot, else the lowest forgettable one. There is room. */
static always_inline u32 room_slot(u32 room)
{
	u32 bits = room & 0x0f ? room : room >> SET_SLOTS;

	return bits & 1 ? 0 : bits & 2 ? 1 : bits & 4 ? 2 : 3;
}

/* What a packet asks the table for where its key was not seen, and what it got. */
struct request {
	struct key key;
	u64 id; /* word[4] of the reserved buckets' keys: kind and class alone */
	u64 now;
	u32 left; /* candidate sets */
	u32 right;
	u32 profile;
	u32 generation;
	u32 tag;
	/* The answer. */
	u32 overflow; /* 1: it is the overflow bucket */
	u32 set;      /* the bucket's set, locked */
	u32 slot;     /* and its slot there */
};

static always_inline int lock_at(u32 index)
{
	struct set *s = set_at(index);

	return s && set_lock(s, index);
}

static always_inline void unlock_at(u32 index)
{
	struct set *s = set_at(index);

	if (s)
		set_unlock(s);
}

static always_inline void slot_init(struct slot *slot, const struct key *k, u32 profile,
				    u32 generation)
{
	slot->key = *k;
#pragma unroll
	for (int i = 0; i < COLORS; i++) {
		slot->packets[i] = 0;
		slot->bytes[i] = 0;
	}
	slot->profile = profile;
	slot->generation = generation;
}

/* The bucket of a reserved set, which is locked: on its first use it is full as of now. */
static always_inline struct slot *reserved_slot(struct set *s, const struct profile *p, u64 id,
						u32 profile, u32 generation, u64 now)
{
	struct slot *slot = &s->slots[0];
	struct key key = { .word[4] = id };

	if (!slot->tags) {
		slot_init(slot, &key, profile, generation);
		meter_init(p, &slot->bucket, now);
		slot->tags = 1;
	}
	return slot;
}

/* The later of two times. */
static always_inline u64 later(u64 a, u64 b)
{
	return a > b ? a : b;
}

/*
 * Finds or makes the bucket of a key that was not seen without a lock. Both candidates are locked
 * meanwhile, so that a key never has two slots; with overflow they still are when it returns.
 * Returns 1, or 0 where a lock could not be had in time: then none is held.
 */
__noinline int table_insert(struct request *r)
{
	u32 zero = 0, index, room, right_room, low, high, at;
	struct set *left, *right, *s, *overflow;
	struct profile *p;
	struct bucket b;
	struct slot *slot;
	struct table *t;
	u64 forgot;
	int i;

	if (!r)
		return 0;
	r->overflow = 0;
	t = bpf_map_lookup_elem(&table_map, &zero);
	if (!t)
		return 0;
	index = r->profile + (r->generation & 1) * t->profiles;
	p = bpf_map_lookup_elem(&profiles, &index);
	left = set_at(r->left);
	right = set_at(r->right);
	if (!p || !left || !right)
		return 0;
	overflow = set_at(p->overflow);
	if (!overflow)
		return 0;

	low = r->left < r->right ? r->left : r->right;
	high = r->left < r->right ? r->right : r->left;
	if (!lock_at(low))
		return 0;
	if (!lock_at(high)) {
		unlock_at(low);
		return 0;
	}

	/* Somebody may have inserted it meanwhile. */
	i = set_find(left, &r->key, r->tag);
	if (i >= 0) {
		set_unlock(right);
		r->set = r->left;
		r->slot = i;
		return 1;
	}
	i = set_find(right, &r->key, r->tag);
	if (i >= 0) {
		set_unlock(left);
		r->set = r->right;
		r->slot = i;
		return 1;
	}

	/* The key itself may have been forgotten at a time that this packet's clock has not
	 * reached: nothing it gets now earns before that. */
	forgot = later(*set_forgot(left), *set_forgot(right));
	room = set_room(left, r->now);
	right_room = set_room(right, r->now);
	r->set = r->left;
	if (room_size(right_room) > room_size(room)) {
		room = right_room;
		r->set = r->right;
	}

	if (!room) {
		/* The candidates stay locked until the packet is paid for: the key cannot be
		 * inserted meanwhile with tokens that are being spent. */
		if (!set_lock(overflow, p->overflow))
			goto contended;
		slot = reserved_slot(overflow, p, r->id, r->profile, r->generation, r->now);
		if (slot->bucket.last < forgot) {
			meter_refill(p, &slot->bucket, r->now);
			slot->bucket.last = later(slot->bucket.last, forgot);
		}
		r->overflow = 1;
		r->set = p->overflow;
		r->slot = 0;
		return 1;
	}

	/* A new bucket holds what its overflow bucket does, since the key may have spent there. */
	meter_init(p, &b, r->now);
	if (*(volatile u32 *)&overflow->slots[0].tags) {
		if (!set_lock(overflow, p->overflow))
			goto contended;
		b = overflow->slots[0].bucket;
		set_unlock(overflow);
		meter_refill(p, &b, r->now);
	}
	b.last = later(b.last, forgot);
	at = room_slot(room);
	s = r->set == r->left ? left : right;
	if (!(room & 0x0f))
		*set_forgot(s) = later(*set_forgot(s), r->now);
	slot = set_slot(s, at);
	slot_init(slot, &r->key, r->profile, r->generation);
	slot->bucket = b;
	s->slots[0].tags = (s->slots[0].tags & ~(0xffU << 8 * at)) | r->tag << 8 * at;
	set_unlock(s == left ? right : left);
	r->slot = at;
	return 1;

contended:
	set_unlock(left);
	set_unlock(right);
	return 0;
}

#endif
