/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * A class's chain of meters, narrow to wide. Twin: marker/chain.go.
 *
 * All buckets are locked, then judged in chain order, then paid together or not at all: an aware meter
 * takes the worst colour so far (the first one the packet's own); the packet's colour is the worst. If
 * that is red nothing is spent anywhere, else each bucket spends by its own meter's colour.
 */
#ifndef TRICOLOR_CHAIN_H
#define TRICOLOR_CHAIN_H

#include "cost.h"
#include "table.h"

struct chain {
	u64 now;
	u64 nanobytes;
	u64 bytes;
	u32 packets;
	u32 generation;
	struct held held[MAX_CHAIN];
	u32 colors[MAX_CHAIN]; /* by each meter */
	u32 slots[MAX_CHAIN];  /* set × SET_SLOTS + slot, or NO_SET */
	u32 in;		       /* the worst colour so far; at first the packet's own */
	u32 color;	       /* of the packet: the worst */
	u32 overflow;	       /* 1: an overflow bucket is among them */
	u32 clock_back;	       /* buckets that saw a time before their last */
	u64 kept; /* now of the packet that judged is of: it is written while somebody watches */
	struct judged judged[MAX_CHAIN];
};

static always_inline void chain_begin(struct chain *ch, const struct cost *cost, u64 now,
				      u32 generation, enum color arrival)
{
	ch->now = now;
	ch->nanobytes = cost->cost * 1000000000ULL;
	ch->bytes = cost->bytes;
	ch->packets = cost->packets;
	ch->generation = generation;
	for (int i = 0; i < MAX_CHAIN; i++)
		ch->slots[i] = NO_SET;
	ch->in = arrival;
	ch->color = GREEN;
	ch->overflow = 0;
	ch->clock_back = 0;
}

/* Lets go of the first n meters' buckets in the table, or of the sets locked for them. */
static always_inline void chain_unlock_keyed(const struct class *c, const struct chain *ch, u32 n)
{
	for (u32 i = 0; i < MAX_CHAIN && i < n; i++) {
		if (c->meters[i].per >= PER_CLASS)
			continue;
		if (ch->held[i].left == NO_SET) {
			unlock_at(ch->held[i].set);
		} else {
			unlock_at(ch->held[i].left);
			unlock_at(ch->held[i].right);
		}
	}
}

/* Lets go of the first n reserved sets. */
static always_inline void chain_unlock_reserved(const struct class *c, u32 n)
{
	for (u32 k = 0; k < MAX_CHAIN && k < n; k++)
		if (c->order[k] < MAX_CHAIN)
			unlock_at(c->meters[c->order[k]].reserved);
}

/* Locks the sets of the chain's meters with a reserved one, by ascending set. */
__noinline int chain_lock_reserved(const struct class *c)
{
	u32 position;

	if (!c)
		return 0;
	for (u32 k = 0; k < MAX_CHAIN; k++) {
		position = c->order[k];
		if (position >= MAX_CHAIN)
			break;
		if (!lock_at(c->meters[position].reserved)) {
			chain_unlock_reserved(c, k);
			return 0;
		}
	}
	return 1;
}

/* Locks the overflow buckets that the chain needs, by ascending set, which is chain order. */
__noinline int chain_lock_overflow(struct chain *ch)
{
	if (!ch)
		return 0;
	for (u32 i = 0; i < MAX_CHAIN; i++) {
		if (ch->held[i].left == NO_SET)
			continue;
		if (lock_at(ch->held[i].set))
			continue;
		for (u32 j = 0; j < i; j++)
			if (ch->held[j].left != NO_SET)
				unlock_at(ch->held[j].set);
		return 0;
	}
	return 1;
}

/*
 * Locks the buckets of all meters of the class: those of the table, position by position; then the
 * reserved ones; then overflow buckets, which stand last. Returns 0 where one could not be had in time:
 * then none is held.
 */
static always_inline int chain_lock(const struct class *c, const struct packet *p, struct chain *ch)
{
	const struct meter *m;
	struct held *h;

	for (u32 i = 0; i < MAX_CHAIN; i++) {
		m = &c->meters[i];
		h = &ch->held[i];
		h->left = NO_SET;
		if (i >= c->chain)
			continue;
		h->profile = !i && p->profile != NO_PROFILE ? p->profile : m->profile;
		if (m->per >= PER_CLASS) {
			h->set = m->reserved;
			h->slot = 0;
		} else if (!table_hold(p, m, ch->now, ch->generation, h)) {
			chain_unlock_keyed(c, ch, i);
			return 0;
		} else if (h->left != NO_SET) {
			ch->overflow = 1;
		}
	}
	if (c->order[0] >= MAX_CHAIN || chain_lock_reserved(c)) {
		if (!ch->overflow || chain_lock_overflow(ch))
			return 1;
		chain_unlock_reserved(c, MAX_CHAIN);
	}
	chain_unlock_keyed(c, ch, c->chain);
	return 0;
}

/* One meter of the chain: brings its bucket to now. Returns it, with the profile that counts. */
static always_inline struct slot *chain_bring(const struct table *t, const struct meter *m,
					      struct chain *ch, const struct held *h,
					      struct profile **profile)
{
	struct set *s = set_at(h->set);
	struct profile *p = profile_at(t, h->profile, ch->generation);
	struct slot *slot;
	struct bucket b;

	if (!s || !p)
		return NULL;
	slot = set_slot(s, h->slot);
	if (h->left != NO_SET || m->per >= PER_CLASS)
		reserved_slot(s, p, m->id[0], h->profile, ch->generation, ch->now);
	if (slot->generation != ch->generation || slot->profile != h->profile) {
		slot_settle(slot, h->profile, ch->generation);
		p = profile_at(t, slot->profile, slot->generation);
		if (!p)
			return NULL;
	}
	b = slot->bucket;
	ch->clock_back += meter_refill(p, &b, ch->now);
	if (h->left != NO_SET)
		b.last = later(b.last, h->forgot);
	slot->bucket = b;
	*profile = p;
	return slot;
}

/* Counts the packet in a bucket, by its final colour. */
static always_inline void chain_count(struct slot *slot, const struct chain *ch)
{
	u64 color = ch->color;

	barrier_var(color);
	if (color >= COLORS)
		return;
	slot->packets[color] += ch->packets;
	slot->bytes[color] += ch->bytes;
}

/* Lets go of a meter's bucket, and of its key's candidates. */
static always_inline void chain_unlock(const struct held *h)
{
	unlock_at(h->set);
	if (h->left != NO_SET) {
		unlock_at(h->left);
		unlock_at(h->right);
	}
}

/* Keeps, where somebody watches, what became of a meter's bucket, which is still locked. */
static always_inline void chain_keep(struct chain *ch, u32 i, const struct slot *slot)
{
	struct judged *judged = &ch->judged[i];

	if (__builtin_expect(!watching.wanted, 1))
		return;
	if (!i)
		ch->kept = ch->now;
	judged->bucket = slot->bucket;
	judged->profile = slot->profile;
	judged->generation = slot->generation;
}

/* One meter of the chain judges. */
__noinline int chain_judge(const struct meter *m, struct chain *ch, u32 i)
{
	struct table *t = table_get();
	struct profile *p;
	struct slot *slot;
	u32 color;

	if (!m || !ch || !t || i >= MAX_CHAIN)
		return 0;
	slot = chain_bring(t, m, ch, &ch->held[i], &p);
	if (!slot)
		return 0;
	color = meter_color(p, &slot->bucket, ch->nanobytes, ch->in);
	ch->colors[i] = color;
	ch->color = color > ch->color ? color : ch->color;
	ch->in = ch->color;
	ch->slots[i] = ch->held[i].set * SET_SLOTS + ch->held[i].slot;
	return 1;
}

/* One meter of the chain pays and counts, and lets go of its bucket. */
__noinline int chain_pay(struct chain *ch, u32 i)
{
	struct table *t = table_get();
	struct profile *p;
	struct slot *slot;
	struct set *s;
	u64 at = i;

	barrier_var(at); /* or 6.1's verifier loses its bound */
	if (!ch || !t || at >= MAX_CHAIN)
		return 0;
	s = set_at(ch->held[at].set);
	if (!s)
		return 0;
	slot = set_slot(s, ch->held[at].slot);
	p = profile_at(t, slot->profile, slot->generation);
	if (p && ch->color != RED)
		meter_spend(p, &slot->bucket, ch->nanobytes, ch->colors[at]);
	chain_count(slot, ch);
	chain_keep(ch, at, slot);
	chain_unlock(&ch->held[at]);
	return 1;
}

/* The only meter of a chain: judges, pays and counts in one. */
static always_inline int chain_single(const struct meter *m, struct chain *ch)
{
	struct table *t = table_get();
	struct profile *p;
	struct slot *slot;

	if (!t)
		return 0;
	slot = chain_bring(t, m, ch, &ch->held[0], &p);
	if (!slot)
		return 0;
	ch->color = meter_color(p, &slot->bucket, ch->nanobytes, ch->in);
	ch->slots[0] = ch->held[0].set * SET_SLOTS + ch->held[0].slot;
	meter_spend(p, &slot->bucket, ch->nanobytes, ch->color);
	chain_count(slot, ch);
	chain_keep(ch, 0, slot);
	chain_unlock(&ch->held[0]);
	return 1;
}

/* Meters a packet by its class's chain. Returns 0 if it was contended: then nothing was done. */
static always_inline int chain_meter(const struct class *c, const struct packet *p,
				     struct chain *ch)
{
	if (!chain_lock(c, p, ch))
		return 0;
	if (c->chain == 1)
		return chain_single(&c->meters[0], ch);
	for (u32 i = 0; i < MAX_CHAIN && i < c->chain; i++)
		chain_judge(&c->meters[i], ch, i);
	for (u32 i = 0; i < MAX_CHAIN && i < c->chain; i++)
		chain_pay(ch, i);
	return 1;
}

#endif
