//go:build ignore
// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * The policer: clock, parse, classify, meter, act. Its twin is marker/mirror.go.
 *
 * A packet that is let through goes on to the next program on the hook.
 */
#include "abi.h"
#include "maps.h"

#include "chain.h"
#include "classify.h"
#include "clock.h"
#include "cost.h"
#include "meter.h"
#include "parse.h"
#include "remark.h"
#include "stats.h"
#include "table.h"
#include "tell.h"

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

#define PULL_FIRST 256 /* bytes */

/* What a replay wants to know of a packet. */
static always_inline void replay_result(struct __sk_buff *skb, u32 kind, u32 class, u32 arrival,
					u32 color, u32 cost, const struct chain *ch)
{
	if (!replay)
		return;
	skb->cb[REPLAY_RESULT] = kind | color << 8 | arrival << 12 | class << 16;
	skb->cb[REPLAY_COST] = cost;
	skb->cb[REPLAY_SLOT] = ch ? ch->slots[0] : NO_SET;
	skb->cb[REPLAY_SLOT + 1] = ch ? ch->slots[1] : NO_SET;
	skb->cb[REPLAY_SLOT + 2] = ch ? ch->slots[2] : NO_SET;
}

/* The policy in force at now: the active one; past the deadline the other, as the next generation. */
static always_inline struct policy *policy_in_force(u64 now, u32 *copy, u32 *generation)
{
	u32 zero = 0;
	struct control *control = bpf_map_lookup_elem(&control_map, &zero);
	struct policy *policy;
	u64 word;

	if (!control)
		return NULL;
	word = *(volatile u64 *)&control->word;
	*copy = word & 1;
	policy = bpf_map_lookup_elem(&policies, copy);
	if (!policy)
		return NULL;
	*generation = policy->generation;
	if (word >> 1 && now >= word >> 1) {
		*copy ^= 1;
		*generation += 1;
		policy = bpf_map_lookup_elem(&policies, copy);
	}
	return policy;
}

static always_inline int act(struct __sk_buff *skb, const struct packet *p, const struct action *a)
{
	if (a->verbs & VERB_DROP)
		return TC_ACT_SHOT;
	if (a->verbs & VERB_MARK)
		skb->mark = a->mark;
	if (a->verbs & VERB_PRIORITY)
		skb->priority = a->priority;
	if (a->verbs & (VERB_DSCP | VERB_CE) && p->family != FAMILY_NONE &&
	    remark(skb, p, action_tos(a, p->tos)))
		return TC_ACT_SHOT; /* a packet that cannot be marked is not let through unmarked */
	return TC_ACT_UNSPEC;
}

SEC("tc")
int policer(struct __sk_buff *skb)
{
	u32 zero = 0, copy = 0, generation = 0, class, color = RED;
	struct scratch *w = bpf_map_lookup_elem(&scratch_map, &zero);
	struct port_stats *port = port_counters();
	struct class_stats *counters;
	struct policy *policy;
	enum color arrival;
	struct class *c;
	int parsed;
	u64 now;

	now = clock_now(skb);
	policy = policy_in_force(now, &copy, &generation);
	if (!w || !port || !policy)
		return TC_ACT_SHOT;

	frame_of(skb, &w->frame);
	__builtin_memset(&w->packet, 0, sizeof(w->packet));
	parsed = parse_frame(skb, &w->frame, &w->packet);
	/* Headers in the skb's fragments are pulled in, and looked at again: a few, then all there are. */
	for (u32 pull = PULL_FIRST; parsed == PARSED_BEYOND && pull <= MAX_OFFSET;
	     pull += MAX_OFFSET - PULL_FIRST) {
		if (bpf_skb_pull_data(skb, skb->len < pull ? skb->len : pull))
			break;
		frame_of(skb, &w->frame);
		__builtin_memset(&w->packet, 0, sizeof(w->packet));
		parsed = parse_frame(skb, &w->frame, &w->packet);
	}
	if (parsed == PARSED_BEYOND) {
		port->unread++;
		return TC_ACT_SHOT;
	}
	if (parsed == PARSED_NOT_IP) {
		w->packet.family = FAMILY_NONE;
	} else if (parsed != PARSED_IP) {
		port->malformed++;
		replay_result(skb, KIND_MALFORMED, NO_CLASS, 0, 0, 0, NULL);
		return policy->malformed & VERB_DROP ? TC_ACT_SHOT : TC_ACT_UNSPEC;
	}
	port->long_chain += w->packet.long_chain;

	class = classify(policy, copy, &w->packet, skb->mark);
	if (class >= MAX_CLASSES) {
		if (parsed == PARSED_NOT_IP)
			port->not_ip++;
		else
			port->unmatched += wire_packets(&w->frame, &w->packet);
		replay_result(skb, parsed == PARSED_NOT_IP ? KIND_NOT_IP : KIND_UNMATCHED, NO_CLASS,
			      0, 0, 0, NULL);
		return TC_ACT_UNSPEC;
	}
	c = &policy->class[class];
	counters = class_counters(c->stats);
	if (!counters)
		return TC_ACT_SHOT;

	cost_of(c, &w->frame, &w->packet, &w->cost);
	arrival = parsed == PARSED_NOT_IP ? GREEN : arrival_color(c, w->packet.dscp);
	chain_begin(&w->chain, &w->cost, now, generation, arrival);
	if (chain_meter(c, &w->packet, &w->chain)) {
		color = w->chain.color;
		counters->clock_back += w->chain.clock_back;
		if (w->chain.overflow)
			counters->overflow += w->cost.packets;
	} else {
		counters->contended += w->cost.packets;
	}
	barrier_var(color);
	if (color >= COLORS)
		return TC_ACT_SHOT;
	counters->packets[color] += w->cost.packets;
	counters->bytes[color] += w->cost.bytes;
	if (__builtin_expect(watching.wanted, 0))
		tell(skb, class | arrival << 16 | color << 24);
	replay_result(skb, KIND_METERED, class, arrival, color, w->cost.cost, &w->chain);
	return act(skb, &w->packet, &c->actions[color]);
}

/*
 * Settles buckets after a change of policy: brings every bucket of the sets that cb[] names to the
 * generation in force, under its lock. Run by the loader, until none is left: cb[SETTLE_COUNT] returns
 * how many sets could not be locked in time.
 */
struct settling {
	u32 from;
	u32 generation;
	u64 now;
	u32 busy;
	u32 pad;
};

static long settle_set(u64 i, void *ctx)
{
	struct settling *settling = ctx;
	u32 index = settling->from + i;
	struct set *s = set_at(index);

	if (!s)
		return 1;
	if (!*(volatile u32 *)&s->slots[0].tags)
		return 0;
	if (!set_lock(s, index)) {
		settling->busy++;
		return 0;
	}
	for (u32 at = 0; at < SET_SLOTS; at++)
		if ((u8)(s->slots[0].tags >> 8 * at))
			slot_settle(&s->slots[at], NO_PROFILE, settling->generation);
	set_unlock(s);
	return 0;
}

/*
 * Before a change: makes the overflow bucket, full by the policy in force, of a profile whose bursts change.
 * A new key then starts with what it would have if it had been forgotten, full, before the change.
 */
static long prepare_set(u64 i, void *ctx)
{
	struct settling *settling = ctx;
	u32 index = settling->from + i, profile;
	struct table *t = table_get();
	struct set *s = set_at(index);
	struct profile *old, *new;

	if (!s || !t || !t->profiles || index < t->reserved)
		return 1;
	profile = (index - t->reserved) % t->profiles;
	old = profile_at(t, profile, settling->generation);
	new = profile_at(t, profile, settling->generation + 1);
	if (!old || !new || old->gone || new->gone || old->overflow != index || !old->keyed ||
	    !new->keyed || old->id != new->id || (old->cbs == new->cbs && old->xbs == new->xbs))
		return 0;
	if (!set_lock(s, index)) {
		settling->busy++;
		return 0;
	}
	reserved_slot(s, old, old->id, profile, settling->generation, settling->now);
	set_unlock(s);
	return 0;
}

SEC("tc")
int settle(struct __sk_buff *skb)
{
	struct settling settling = { .from = skb->cb[SETTLE_FROM], .now = clock_now(skb) };
	u32 copy;

	if (!policy_in_force(settling.now, &copy, &settling.generation))
		return TC_ACT_SHOT;
	if (skb->cb[SETTLE_PREPARE])
		bpf_loop(skb->cb[SETTLE_COUNT], prepare_set, &settling, 0);
	else
		bpf_loop(skb->cb[SETTLE_COUNT], settle_set, &settling, 0);
	skb->cb[SETTLE_COUNT] = settling.busy;
	return TC_ACT_UNSPEC;
}
