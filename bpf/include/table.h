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
 * Locks: one word a set, taken by compare-and-exchange, given back by exchange (full barriers; where
 * the CPU keeps its stores in order, by a store), always in ascending order of sets. The two
 * candidates stay locked while a packet is metered in the overflow bucket: so the key cannot be
 * inserted meanwhile with credit that is being spent.
 * User space never takes a lock: it reads the sequence, the slot, and the sequence again.
 */
#ifndef TRICOLOR_TABLE_H
#define TRICOLOR_TABLE_H

#include "hash.h"
#include "meter.h"
#include "parse.h"
#include "settle.h"

/*
 * A wait for a lock is about 40 µs long; then the packet is red and counted as contended. In between it
 * is looked at 32 times only: each look takes the cache line away from the holder, and a holder that
 * keeps it polices several packets meanwhile. Two CPUs on one bucket then do over 0.7 of what one does
 * alone; looking as often as possible, 0.3.
 */
#define SPIN_ROUNDS 16384
#define SPIN_EVERY 512

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
	/* Only the holder changes a held lock. */
	u32 held = *(volatile u32 *)&s->slots[0].lock;

	if (ordered_stores) {
		barrier();
		*(volatile u32 *)&s->slots[0].lock = held + 1;
		return;
	}
	/* The result is used, so this is an exchange with full barriers; a fetch-and-add whose
	 * result is unused would be relaxed on arm64. */
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
	struct set *s;

	if (round % SPIN_EVERY)
		return 0;
	s = set_at(spin->index);
	if (!s)
		return 1;
	spin->locked = set_try_lock(s);
	return spin->locked;
}

/* The long wait for a lock, out of line. Returns 1 once locked, 0 where the bound is reached. */
__noinline int set_spin(u32 index)
{
	struct spin spin = { .index = index };

	bpf_loop(SPIN_ROUNDS, spin_once, &spin, 0);
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

/* A profile of a generation's plan. Its copy is the generation's parity. */
static always_inline struct profile *profile_at(const struct table *t, u32 profile, u32 generation)
{
	u32 index = profile + (generation & 1) * t->profiles;

	return bpf_map_lookup_elem(&profiles, &index);
}

static always_inline struct table *table_get(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&table_map, &zero);
}

/*
 * A set's room at now: bit i, slot i is empty; bit 4 + i, it is taken but forgettable: brought to this
 * generation and refilled to now, it holds every one of its bursts in full; or its profile is gone, and
 * no deadline can bring it back. A function of its own, so that the verifier walks its paths once.
 */
__noinline u32 set_room(const struct set *s, u64 now, u32 generation)
{
	struct control *control;
	struct table *t = table_get();
	u32 room = 0, zero = 0, profile;
	const struct slot *slot;
	struct profile *p;
	struct bucket b;

	control = bpf_map_lookup_elem(&control_map, &zero);
	if (!s || !t || !control)
		return 0;
	for (u32 i = 0; i < SET_SLOTS; i++) {
		slot = &s->slots[i];
		if (!(u8)(s->slots[0].tags >> 8 * i)) {
			room |= 1 << i;
			continue;
		}
		b = slot->bucket;
		profile = bucket_bring(&b, slot->profile, slot->generation, generation);
		p = profile_at(t, profile, newer(slot->generation, generation));
		if (!p)
			continue;
		if (!p->gone)
			meter_refill(p, &b, now);
		if (p->gone ? !(control->word >> 1) : meter_full(p, &b))
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

/*
 * The bucket of a reserved set, which is locked. On its first use, or where it was another class's that
 * is gone, it is full as of now.
 */
static always_inline struct slot *reserved_slot(struct set *s, const struct profile *p, u64 id,
						u32 profile, u32 generation, u64 now)
{
	struct slot *slot = &s->slots[0];
	struct key key = { .word[4] = id };

	if (!slot->tags || slot->key.word[4] != id) {
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

/* One meter's bucket of a packet, locked. */
struct held {
	u32 set;
	u32 slot;
	u32 profile;
	u32 left; /* overflow: the key's candidates, locked too; else NO_SET */
	u32 right;
	u32 pad;
	u64 forgot; /* overflow: when one of them last forgot a bucket */
};

/*
 * Finds or makes the bucket of a key that was not seen without a lock. Both candidates are locked
 * meanwhile, so that a key never has two slots. Without room they stay locked, until the packet is paid
 * for in the overflow bucket: the key cannot be inserted meanwhile with tokens that are being spent.
 * Returns 1, or 0 where a lock could not be had in time: then none is held.
 */
static always_inline int table_insert(const struct table *t, const struct key *k, u8 tag, u64 id,
				      u64 now, u32 generation, struct held *h)
{
	struct profile *p = profile_at(t, h->profile, generation);
	u32 left_at = h->left, right_at = h->right, room, right_room, at;
	struct set *left = set_at(left_at), *right = set_at(right_at), *s, *overflow;
	struct slot *slot;
	struct bucket b;
	u64 forgot;
	int i;

	h->left = NO_SET;
	if (!p || !left || !right)
		return 0;
	overflow = set_at(p->overflow);
	if (!overflow)
		return 0;
	if (!set_lock(left, left_at)) /* the left one is the lower */
		return 0;
	if (!set_lock(right, right_at)) {
		set_unlock(left);
		return 0;
	}

	/* Somebody may have inserted it meanwhile. */
	i = set_find(left, k, tag);
	if (i >= 0) {
		set_unlock(right);
		h->set = left_at;
		h->slot = i;
		return 1;
	}
	i = set_find(right, k, tag);
	if (i >= 0) {
		set_unlock(left);
		h->set = right_at;
		h->slot = i;
		return 1;
	}

	/* The key itself may have been forgotten at a time that this packet's clock has not
	 * reached: nothing it gets now earns before that. */
	forgot = later(*set_forgot(left), *set_forgot(right));
	room = set_room(left, now, generation);
	right_room = set_room(right, now, generation);
	h->set = left_at;
	if (room_size(right_room) > room_size(room)) {
		room = right_room;
		h->set = right_at;
	}

	if (!room) {
		h->set = p->overflow;
		h->slot = 0;
		h->left = left_at;
		h->right = right_at;
		h->forgot = forgot;
		return 1;
	}

	/* A new bucket holds what its overflow bucket does, since the key may have spent there. */
	meter_init(p, &b, now);
	slot = &overflow->slots[0];
	if (*(volatile u32 *)&slot->tags && slot->key.word[4] == id) {
		if (!set_lock(overflow, p->overflow)) {
			set_unlock(left);
			set_unlock(right);
			return 0;
		}
		b = slot->bucket;
		i = slot->generation;
		set_unlock(overflow);
		bucket_bring(&b, h->profile, i, generation);
		meter_refill(p, &b, now);
	}
	b.last = later(b.last, forgot);
	at = room_slot(room);
	s = h->set == left_at ? left : right;
	slot = set_slot(s, at);
	if (!(room & 0x0f))
		*set_forgot(s) = later(*set_forgot(s), later(now, slot->bucket.last));
	slot_init(slot, k, h->profile, generation);
	slot->bucket = b;
	s->slots[0].tags = (s->slots[0].tags & ~(0xffU << 8 * at)) | (u32)tag << 8 * at;
	set_unlock(s == left ? right : left);
	h->slot = at;
	return 1;
}

/*
 * Locks the bucket of a key of the table, and makes it where there is none; h->profile is the packet's.
 * Where there is no room h->left is not NO_SET: the bucket is the overflow one, and is not locked yet.
 * Returns 1, or 0 where a lock could not be had in time: then none is held.
 */
__noinline int table_hold(const struct packet *p, const struct meter *m, u64 now, u32 generation,
			  struct held *h)
{
	struct table *t = table_get();
	const struct stage *stage;
	struct set *s;
	struct key k;
	u64 hash;
	u32 ipv6;
	u8 tag;
	int i;

	if (!p || !m || !h || !t)
		return 0;
	ipv6 = p->family == FAMILY_IPV6;
	for (i = 0; i < 5; i++)
		k.word[i] = p->key.word[i] & m->mask[ipv6].word[i];
	k.word[4] |= m->id[ipv6];
	if (m->per == PER_VLAN)
		((struct key_fields *)&k)->sport = bpf_htons(p->vlan);
	if (m->per == PER_DSCP)
		((struct key_fields *)&k)->sport = bpf_htons(p->dscp);
	hash = hash_key(&k, t->seeds);
	stage = &t->stages[m->position < MAX_CHAIN ? m->position : 0];
	h->left = stage->base + hash_left(hash, stage->mask);
	h->right = stage->base + hash_right(hash, stage->mask);
	tag = hash_tag(hash);

	h->set = h->left;
	s = set_at(h->left);
	if (!s)
		return 0;
	i = set_find(s, &k, tag);
	if (i < 0) {
		h->set = h->right;
		s = set_at(h->right);
		if (!s)
			return 0;
		i = set_find(s, &k, tag);
	}
	if (i >= 0) {
		if (!set_lock(s, h->set))
			return 0;
		h->slot = i;
		if ((u8)(s->slots[0].tags >> 8 * (i & 3)) == tag &&
		    key_equal(&set_slot(s, i)->key, &k)) {
			h->left = NO_SET;
			return 1;
		}
		set_unlock(s); /* it was forgotten meanwhile */
	}
	return table_insert(t, &k, tag, m->id[0], now, generation, h);
}

#endif
