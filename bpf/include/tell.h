/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Tells who watches (loader/watch.go) of each decision.
 *
 * A watcher's ring is its process's own: the kernel takes it off a perf event array as the process ends,
 * however it does. The program finds that out by itself, and stops telling. While nobody watches, a packet
 * pays for reading one word.
 */
#ifndef TRICOLOR_TELL_H
#define TRICOLOR_TELL_H

#include "chain.h"

/*
 * What a packet needs while it is policed. Per CPU, since it is more than a program's stack takes: packets
 * are policed with bottom halves off, so no other comes between.
 */
struct scratch {
	struct frame frame;
	struct packet packet;
	struct cost cost;
	struct chain chain;
	struct decision decision;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct scratch);
} scratch_map SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, WATCHERS);
	__type(key, u32);
	__type(value, struct watcher_stats);
} watcher_stats_map SEC(".maps");

/* The rings, by CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__type(key, u32);
	__type(value, u32);
} record_rings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__type(key, u32);
	__type(value, u32);
} monitor_rings SEC(".maps");

/* Whether this decision is within the budget of its second. */
static always_inline int affordable(const volatile struct watcher *w, struct watcher_stats *s,
				    u64 now)
{
	u64 second = now / 1000000000;

	if (!w->budget)
		return 1;
	if (s->second != second) {
		s->second = second;
		s->used = 0;
	}
	if (s->used >= w->budget)
		return 0;
	s->used++;
	return 1;
}

/* Makes the decision of what the packet left in scratch. */
static always_inline void decision_make(struct scratch *w, u32 class, u32 arrival, u32 color)
{
	const struct chain *ch = &w->chain;
	struct decision *d = &w->decision;

	d->now = ch->now;
	d->key = w->packet.key;
	d->cost = w->cost.cost;
	d->packets = w->cost.packets;
	d->generation = ch->generation;
	d->class = class;
	d->vlan = w->packet.vlan;
	d->dscp = w->packet.dscp;
	d->family = w->packet.family;
	d->arrival = arrival;
	d->color = color;
	d->chain = 0;
	d->overflow = 0;
	for (int i = 0; i < MAX_CHAIN; i++) {
		if (ch->slots[i] == NO_SET)
			continue;
		d->chain = i + 1;
		d->colors[i] = ch->colors[i];
		d->judged[i] = ch->judged[i];
		if (ch->held[i].left != NO_SET)
			d->overflow |= 1 << i;
	}
	if (d->chain == 1)
		d->colors[0] = color;
}

/* Tells one watcher. */
__noinline int tell_watcher(struct __sk_buff *skb, u32 kind)
{
	u32 zero = 0, meters;
	struct scratch *w = bpf_map_lookup_elem(&scratch_map, &zero);
	struct watcher_stats *stats = bpf_map_lookup_elem(&watcher_stats_map, &kind);
	const volatile struct watcher *watcher;
	struct decision *d;
	u64 size, at = kind;
	long err;

	barrier_var(at);
	if (!w || !stats || at >= WATCHERS)
		return 0;
	watcher = &watching.watcher[at];
	d = &w->decision;
	if (!(watcher->colors >> (d->color & 3) & 1))
		return 0;
	stats->decided++;
	if ((watcher->sample > 1 && stats->decided % watcher->sample) ||
	    !affordable(watcher, stats, d->now)) {
		stats->left_out++;
		return 0;
	}
	meters = d->chain;
	if (meters > MAX_CHAIN)
		return 0;
	size = DECISION_HEAD + meters * sizeof(struct judged);
	if (kind == WATCHER_RECORD)
		err = bpf_perf_event_output(skb, &record_rings, BPF_F_CURRENT_CPU, d, size);
	else
		err = bpf_perf_event_output(skb, &monitor_rings, BPF_F_CURRENT_CPU, d, size);
	if (err)
		stats->lost++;
	else
		stats->written++;
	if (err == -ENOENT) /* it is gone */
		__sync_fetch_and_and(&watching.wanted, ~(1U << kind));
	return 1;
}

/* Tells all who watch: of is class | arrival colour << 16 | colour << 24. */
__noinline int tell(struct __sk_buff *skb, u32 of)
{
	u32 zero = 0, wanted = watching.wanted;
	struct scratch *w = bpf_map_lookup_elem(&scratch_map, &zero);

	/* One that came while the packet was judged gets the next. */
	if (!w || (w->chain.slots[0] != NO_SET && w->chain.kept != w->chain.now))
		return 0;
	decision_make(w, of & 0xffff, of >> 16 & 0xff, of >> 24);
	for (u32 kind = 0; kind < WATCHERS; kind++)
		if (wanted >> kind & 1)
			tell_watcher(skb, kind);
	return 1;
}

#endif
