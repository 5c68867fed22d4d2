/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * A change of policy, bucket by bucket. Twin: marker/settle.go.
 *
 * Policies are numbered: a bucket knows the generation that counted its tokens. When a newer one
 * touches it, it is settled by its old profile up to the moment of the change, clamped to the new
 * bursts, and from then on earns by the new profile. Two copies of the policy are there: that of a
 * generation is its parity. Past a deadline that nobody confirmed, the copy before is in force again, as
 * a generation of its own.
 */
#ifndef TRICOLOR_SETTLE_H
#define TRICOLOR_SETTLE_H

#include "meter.h"

static always_inline u32 newer(u32 a, u32 b)
{
	return (int)(a - b) > 0 ? a : b;
}

/* When a generation took over from the one before. */
static always_inline u64 generation_since(u32 generation)
{
	u32 zero = 0, copy = generation & 1;
	struct policy *policy = bpf_map_lookup_elem(&policies, &copy);
	struct control *control = bpf_map_lookup_elem(&control_map, &zero);

	if (policy && policy->generation == generation)
		return policy->since;
	return control ? control->word >> 1 : 0;
}

static always_inline void bucket_clamp(struct bucket *b, const struct profile *p)
{
	b->tc = min(b->tc, p->cbs);
	b->tx = min(b->tx, p->xbs);
}

/*
 * Brings a bucket from one generation to a later one, at most two on: apply settles all buckets, so none
 * is further behind. A profile keeps its number as long as its buckets live. One that is gone hands them to
 * another, or earns nothing and leaves them as they were, in case a deadline brings it back. Returns the
 * profile that the bucket has then.
 */
__noinline u32 bucket_bring(struct bucket *b, u32 profile, u32 from, u32 to)
{
	u32 zero = 0, index;
	struct table *t = bpf_map_lookup_elem(&table_map, &zero);
	struct profile *old, *new;

	if (!b || !t)
		return profile;
	for (int i = 0; i < 2 && (int)(to - from) > 0; i++, from++) {
		index = profile + (from & 1) * t->profiles;
		old = bpf_map_lookup_elem(&profiles, &index);
		index = profile + (~from & 1) * t->profiles;
		new = bpf_map_lookup_elem(&profiles, &index);
		if (!old || !new)
			return profile;
		if (!old->gone)
			meter_refill(old, b, generation_since(from + 1));
		if (new->gone &&new->moved) {
			profile = new->moved - 1;
			index = profile + (~from & 1) * t->profiles;
			new = bpf_map_lookup_elem(&profiles, &index);
			if (!new)
				return profile;
		}
		if (!new->gone)
			bucket_clamp(b, new);
	}
	return profile;
}

/*
 * Brings a slot to a generation and a profile: a change may give a key another one (its line in a prefix
 * file says so), by which it earns since the change. NO_PROFILE: the slot's own. What counts afterwards is
 * the slot's profile and generation: they are not the packet's where the slot's generation is newer.
 * Returns 1.
 */
__noinline int slot_settle(struct slot *slot, u32 profile, u32 generation)
{
	u32 zero = 0, index;
	struct table *t = bpf_map_lookup_elem(&table_map, &zero);
	struct profile *new;

	if (!slot || !t)
		return 0;
	if ((int)(generation - slot->generation) > 0) {
		slot->profile =
			bucket_bring(&slot->bucket, slot->profile, slot->generation, generation);
		slot->generation = generation;
	}
	generation = slot->generation;
	if (profile == NO_PROFILE || slot->profile == profile)
		return 1;
	index = profile + (generation & 1) * t->profiles;
	new = bpf_map_lookup_elem(&profiles, &index);
	if (!new || new->gone)
		return 1;
	bucket_clamp(&slot->bucket, new);
	slot->profile = profile;
	return 1;
}

#endif
