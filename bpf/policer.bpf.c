//go:build ignore
// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * The policer: clock, parse, classify, meter, act. Its twin is marker/mirror.go.
 *
 * A packet that is let through goes on to the next program on the hook.
 */
#include "abi.h"
#include "maps.h"

#include "classify.h"
#include "clock.h"
#include "cost.h"
#include "meter.h"
#include "parse.h"
#include "remark.h"
#include "stats.h"
#include "table.h"

char _license[] SEC("license") = "Dual BSD/GPL";

/* The frame as this hook sees it. */
static always_inline void frame_of(struct __sk_buff *skb, struct frame *f)
{
	f->gso_size = skb->gso_size;
	f->gso_segs = skb->gso_segs;
	if (replay) {
		f->link = skb->cb[REPLAY_LINK];
		f->captured = skb->cb[REPLAY_CAPTURED];
		f->length = skb->cb[REPLAY_LENGTH];
		f->vlan = skb->cb[REPLAY_VLAN];
		return;
	}
	f->captured = skb->len;
	f->length = skb->len;
	if (link_header) {
		f->link = LINK_ETHERNET;
		f->vlan = skb->vlan_present ? 1 << 16 | skb->vlan_tci : 0;
	} else {
		f->link = skb->protocol == bpf_htons(ETH_P_IP)	 ? LINK_L3_IPV4 :
			  skb->protocol == bpf_htons(ETH_P_IPV6) ? LINK_L3_IPV6 :
								   LINK_L3_OTHER;
		f->vlan = 0;
	}
}

/* What a replay wants to know of a packet. */
static always_inline void replay_result(struct __sk_buff *skb, u32 kind, u32 class, u32 arrival,
					u32 color, u32 cost, u32 slot)
{
	if (!replay)
		return;
	skb->cb[REPLAY_RESULT] = kind | color << 8 | arrival << 12 | class << 16;
	skb->cb[REPLAY_COST] = cost;
	skb->cb[REPLAY_SLOT] = slot;
	skb->cb[REPLAY_SLOT + 1] = NO_SET;
	skb->cb[REPLAY_SLOT + 2] = NO_SET;
}

/* A packet's bucket, locked. */
struct held {
	u32 set;
	u32 slot;
	u32 also[2]; /* more sets that are locked, or NO_SET */
};

/* The bucket of a class, or of the whole interface: it has a reserved set. */
static always_inline int hold_reserved(const struct meter *m, const struct profile *p,
				       u32 generation, u64 now, struct held *held)
{
	struct set *s = set_at(m->reserved);

	if (!s || !set_lock(s, m->reserved))
		return 0;
	reserved_slot(s, p, m->id[0], m->profile, generation, now);
	held->set = m->reserved;
	held->slot = 0;
	return 1;
}

/* The bucket of a key, in the table. */
static always_inline int hold_keyed(const struct table *t, const struct meter *m,
				    const struct packet *packet, u32 generation, u64 now,
				    struct held *held)
{
	const u32 ipv6 = packet->ipv6 & 1;
	const struct stage *stage = &t->stages[0];
	struct request r = {};
	struct set *s;
	u64 hash;
	int i;

	for (i = 0; i < 5; i++)
		r.key.word[i] = packet->key.word[i] & m->mask[ipv6].word[i];
	r.key.word[4] |= m->id[ipv6];
	hash = hash_key(&r.key, t->seeds);
	r.left = stage->base + hash_left(hash, stage->mask);
	r.right = stage->base + hash_right(hash, stage->mask);
	r.tag = hash_tag(hash);

	held->set = r.left;
	s = set_at(r.left);
	if (!s)
		return 0;
	i = set_find(s, &r.key, r.tag);
	if (i < 0) {
		held->set = r.right;
		s = set_at(r.right);
		if (!s)
			return 0;
		i = set_find(s, &r.key, r.tag);
	}
	if (i >= 0) {
		if (!set_lock(s, held->set))
			return 0;
		held->slot = i;
		if ((u8)(s->slots[0].tags >> 8 * (i & 3)) == r.tag &&
		    key_equal(&set_slot(s, i)->key, &r.key))
			return 1;
		set_unlock(s); /* it was forgotten meanwhile */
	}

	r.id = m->id[0];
	r.now = now;
	r.profile = m->profile;
	r.generation = generation;
	if (!table_insert(&r))
		return 0;
	held->set = r.set;
	held->slot = r.slot;
	if (r.overflow) {
		held->also[0] = r.left;
		held->also[1] = r.right;
	}
	return 1;
}

/* Judges and pays in the bucket held, and lets go of it. Returns 1 where now is before its last. */
static always_inline int judge(const struct held *held, const struct profile *p, u64 now,
			       const struct cost *cost, enum color arrival, u32 *color)
{
	u64 nanobytes = cost->cost * 1000000000ULL;
	struct set *s = set_at(held->set);
	struct slot *slot;
	struct bucket b;
	int clock_back;
	u64 c;

	if (!s)
		return 0;
	slot = set_slot(s, held->slot);
	b = slot->bucket;
	clock_back = meter_refill(p, &b, now);
	c = meter_color(p, &b, nanobytes, arrival);
	meter_spend(p, &b, nanobytes, c);
	slot->bucket = b;
	barrier_var(c);
	if (c < COLORS) {
		slot->packets[c] += cost->packets;
		slot->bytes[c] += cost->bytes;
	}
	set_unlock(s);
	if (held->also[0] != NO_SET) {
		unlock_at(held->also[0]);
		unlock_at(held->also[1]);
	}
	*color = c;
	return clock_back;
}

static always_inline int act(struct __sk_buff *skb, const struct packet *p, const struct action *a)
{
	if (a->verbs & VERB_DROP)
		return TC_ACT_SHOT;
	if (a->verbs & VERB_DSCP && remark(skb, p, a->dscp))
		return TC_ACT_SHOT; /* a packet that cannot be marked is not let through unmarked */
	return TC_ACT_UNSPEC;
}

SEC("tc")
int policer(struct __sk_buff *skb)
{
	u32 zero = 0, index, class, color = RED, slot = NO_SET;
	struct held held = { .also = { NO_SET, NO_SET } };
	struct class_stats *counters;
	struct port_stats *port;
	struct control *active;
	struct policy *policy;
	struct packet p = {};
	enum color arrival;
	struct profile *pr;
	struct meter *m;
	struct class *c;
	struct table *t;
	struct frame f = {};
	int parsed;
	struct cost cost;
	u64 now;

	port = port_counters();
	active = bpf_map_lookup_elem(&control_map, &zero);
	t = bpf_map_lookup_elem(&table_map, &zero);
	if (!port || !active || !t)
		return TC_ACT_SHOT;
	index = *(volatile u32 *)&active->active;
	policy = bpf_map_lookup_elem(&policies, &index);
	if (!policy)
		return TC_ACT_SHOT;

	frame_of(skb, &f);
	parsed = parse_frame(skb, &f, &p);
	if (parsed == PARSED_BEYOND) {
		/* The headers are in the skb's fragments: pull them in and look again. */
		parsed = PARSED_MALFORMED;
		if (!bpf_skb_pull_data(skb, f.captured < MAX_OFFSET ? f.captured : MAX_OFFSET)) {
			frame_of(skb, &f);
			__builtin_memset(&p, 0, sizeof(p));
			parsed = parse_frame(skb, &f, &p);
		}
	}
	if (parsed == PARSED_NOT_IP) {
		port->not_ip++;
		replay_result(skb, KIND_NOT_IP, NO_CLASS, 0, 0, 0, NO_SET);
		return TC_ACT_UNSPEC;
	}
	if (parsed != PARSED_IP) {
		port->malformed++;
		replay_result(skb, KIND_MALFORMED, NO_CLASS, 0, 0, 0, NO_SET);
		return policy->malformed & VERB_DROP ? TC_ACT_SHOT : TC_ACT_UNSPEC;
	}
	port->long_chain += p.long_chain;

	class = classify(policy, &p);
	if (class >= MAX_CLASSES) {
		port->unmatched += f.gso_size && f.gso_segs ? f.gso_segs : 1;
		replay_result(skb, KIND_UNMATCHED, NO_CLASS, 0, 0, 0, NO_SET);
		return TC_ACT_UNSPEC;
	}
	c = &policy->class[class];
	counters = class_counters(class);
	m = &c->meters[0];
	index = policy->profiles + m->profile;
	pr = bpf_map_lookup_elem(&profiles, &index);
	if (!counters || !pr)
		return TC_ACT_SHOT;

	cost_of(c, &f, &p, &cost);
	arrival = arrival_color(c, p.dscp);
	now = clock_now(skb);
	if (m->per >= PER_CLASS ? hold_reserved(m, pr, policy->generation, now, &held) :
				  hold_keyed(t, m, &p, policy->generation, now, &held)) {
		slot = held.set * SET_SLOTS + held.slot;
		counters->clock_back += judge(&held, pr, now, &cost, arrival, &color);
		if (held.also[0] != NO_SET)
			counters->overflow += cost.packets;
	} else {
		counters->contended += cost.packets;
	}
	if (color >= COLORS)
		return TC_ACT_SHOT;
	counters->packets[color] += cost.packets;
	counters->bytes[color] += cost.bytes;
	replay_result(skb, KIND_METERED, class, arrival, color, cost.cost, slot);
	return act(skb, &p, &c->actions[color]);
}
