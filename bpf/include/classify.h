/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Which class a packet is of: that of the first rule that matches, or NO_CLASS. Twin:
 * marker/classify.go.
 */
#ifndef TRICOLOR_CLASSIFY_H
#define TRICOLOR_CLASSIFY_H

#include "parse.h"

/* A slot of the cache for an address. Whose it is is checked: any spread will do. */
static always_inline u32 prefix_slot(const u64 *address, u32 set)
{
	u64 h = (address[0] ^ address[1] * 3 ^ set) * 0x9e3779b97f4a7c15ULL;

	return h >> 52; /* PREFIX_CACHE = 2^12 */
}

/*
 * Looks an address up in a prefix set. Returns 1 if it is there, with its profile or NO_PROFILE. The
 * trie is slow; the cache keeps its answer alone, for this generation of the policy, never a class.
 */
__noinline int prefix_find(const struct address_match *address, u32 set, u32 generation,
			   u32 *profile)
{
	struct prefix_key key = {};
	struct prefix_answer *cached;
	u32 index, *found;

	if (!address || !profile)
		return 0;
	index = prefix_slot(address->want, set);
	cached = bpf_map_lookup_elem(&prefix_cache, &index);
	if (!cached)
		return 0;
	if (cached->set == set && cached->generation == generation &&
	    cached->address[0] == address->want[0] && cached->address[1] == address->want[1]) {
		*profile = cached->profile;
		return cached->found;
	}
	key.length = set & 1 ? 32 + 128 : 32 + 32;
	key.set = set;
	__builtin_memcpy(key.address, address->want, sizeof(key.address));
	found = bpf_map_lookup_elem(&prefixes, &key);
	cached->address[0] = address->want[0];
	cached->address[1] = address->want[1];
	cached->set = set;
	cached->generation = generation;
	cached->profile = found ? *found : NO_PROFILE;
	cached->found = !!found;
	*profile = cached->profile;
	return cached->found;
}

/* A set's number in the maps: of this copy of the policy, and of the packet's family. */
static always_inline u32 prefix_set(u32 set, u32 generation, u8 family)
{
	return (generation & 1) << 31 | set << 1 | family == FAMILY_IPV6;
}

static always_inline int address_matches(const struct address_match *m, const u64 *address)
{
	return !(((address[0] & m->mask[0]) ^ m->want[0]) |
		 ((address[1] & m->mask[1]) ^ m->want[1]));
}

static always_inline int in_range(const u16 *range, u16 v)
{
	return range[0] <= v && v <= range[1];
}

/*
 * Whether all of a rule holds but its prefix sets. A function of its own, so that the verifier walks it
 * once, not once for each rule.
 */
__noinline int rule_matches(const struct rule *r, const struct packet *p, u32 mark)
{
	const struct key_fields *k;

	if (!r || !p)
		return 0;
	k = (const struct key_fields *)&p->key;
	if (!(r->families & p->family) || !in_range(r->vlan, p->vlan) ||
	    (mark ^ r->mark) & r->mark_mask)
		return 0;
	if (p->family == FAMILY_NONE)
		return 1;
	if (!address_matches(&r->src, &p->key.word[0]) ||
	    !address_matches(&r->dst, &p->key.word[2]) ||
	    !(r->proto[k->proto >> 6 & 3] >> (k->proto & 63) & 1) ||
	    !(r->dscp >> (p->dscp & 63) & 1) || !(r->fragment & (p->fragment ? 2 : 1)))
		return 0;
	return !r->ports || (p->ports && in_range(r->sport, bpf_ntohs(k->sport)) &&
			     in_range(r->dport, bpf_ntohs(k->dport)));
}

/* Whether the rule's prefix sets hold the packet's addresses; p->profile is what they bring. */
__noinline int sets_match(const struct rule *r, struct packet *p, u32 generation)
{
	struct address_match address = {};
	u32 profile;

	if (!r || !p)
		return 0;
	if (r->dst_set) {
		address.want[0] = p->key.word[2];
		address.want[1] = p->key.word[3];
		if (!prefix_find(&address, prefix_set(r->dst_set, generation, p->family),
				 generation, &p->profile))
			return 0;
	}
	if (r->src_set) {
		address.want[0] = p->key.word[0];
		address.want[1] = p->key.word[1];
		profile = NO_PROFILE;
		if (!prefix_find(&address, prefix_set(r->src_set, generation, p->family),
				 generation, &profile))
			return 0;
		if (profile != NO_PROFILE)
			p->profile = profile;
	}
	return 1;
}

/* Goes through the rules. */
__noinline int classify_rules(u32 copy, struct packet *p, u32 mark)
{
	struct policy *policy = bpf_map_lookup_elem(&policies, &copy);

	if (!policy || !p)
		return NO_CLASS;
	for (u32 i = 0; i < MAX_RULES && i < policy->rules; i++) {
		const struct rule *r = &policy->rule[i];

		if (!rule_matches(r, p, mark))
			continue;
		p->profile = NO_PROFILE;
		if ((r->src_set | r->dst_set) && !sets_match(r, p, policy->generation))
			continue;
		return r->class;
	}
	return NO_CLASS;
}

/*
 * Returns the class; where a prefix of the rule's sets brings a profile, it is p->profile, else that
 * is NO_PROFILE. A policy of one class needs no walk.
 */
static always_inline u32 classify(const struct policy *policy, u32 copy, struct packet *p, u32 mark)
{
	p->profile = NO_PROFILE;
	if (policy->rule[0].any && p->family != FAMILY_NONE)
		return policy->rule[0].class;
	return classify_rules(copy, p, mark);
}

/* The packet's arrival colour: its DSCP in the class's table. */
static always_inline enum color arrival_color(const struct class *c, u8 dscp)
{
	if (c->arrival[1] >> (dscp & 63) & 1)
		return RED;
	return c->arrival[0] >> (dscp & 63) & 1;
}

#endif
