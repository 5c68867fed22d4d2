/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * What a packet costs: what was, or will be, on the wire. Twin: marker/cost.go.
 *
 * A super-packet (GSO, GRO) costs what its segments do, headers and all, each rounded up and
 * adjusted by itself.
 */
#ifndef TRICOLOR_COST_H
#define TRICOLOR_COST_H

#include "parse.h"

#define ETHERNET_MIN 60 /* without FCS */
#define ETHERNET_L1 24	/* preamble, start delimiter, FCS, gap */
#define VLAN_TAG 4
#define GSO_BY_FRAGS 0xffff /* gso_size that says: segments of any size, as SCTP's */

struct cost {
	u64 cost;    /* in the class's unit, at most COST_MAX */
	u64 bytes;   /* for the counters: the cost, or the IP bytes where packets are counted */
	u32 packets; /* on the wire */
};

/* One wire packet: ip bytes from its IP header on, frame bytes from its link header on. */
static always_inline u64 wire_cost(const struct class *c, s64 ip, s64 frame)
{
	s64 cost;

	switch (c->count) {
	case COUNT_L3:
		cost = ip;
		break;
	case COUNT_L2:
		cost = frame;
		break;
	case COUNT_L1:
		cost = frame + ETHERNET_L1;
		break;
	default:
		cost = 1;
		break;
	}
	cost += c->overhead;
	return cost < 0 ? 0 : cost;
}

/* The frame's length on the wire, offloaded tag included. */
static always_inline u32 frame_bytes(const struct frame *f, u32 length)
{
	if (f->vlan)
		length += VLAN_TAG;
	return length < ETHERNET_MIN ? ETHERNET_MIN : length;
}

/* How a super-packet is cut. */
struct segments {
	u32 header;  /* IP bytes that each carries */
	u32 payload; /* that they share */
	u32 size;    /* payload of each but the last */
	u32 count;
};

/* Not for what is not IP, or no super-packet. */
static always_inline struct segments segments_of(const struct frame *f, const struct packet *p)
{
	struct segments s;

	s.header = p->l4 - p->l3 + p->l4_header;
	s.payload = f->length - p->l3;
	s.payload = s.payload > s.header ? s.payload - s.header : 0;
	s.header -= p->jumbo;
	s.size = f->gso_size;
	s.count = f->gso_segs;
	if (!s.count)
		s.count = (s.payload + s.size - 1) / s.size;
	if (!s.count)
		s.count = 1;
	/* What is known is their number and their sum: as if all were as large. */
	if (s.size == GSO_BY_FRAGS)
		s.size = (s.payload + s.count - 1) / s.count;
	return s;
}

/* How many packets an IP frame is on the wire. */
static always_inline u32 wire_packets(const struct frame *f, const struct packet *p)
{
	return f->gso_size ? segments_of(f, p).count : 1;
}

static always_inline u64 segment_cost(const struct class *c, const struct frame *f,
				      const struct packet *p, u32 ip)
{
	return wire_cost(c, ip, f->link == LINK_ETHERNET ? frame_bytes(f, p->l3 + ip) : ip);
}

static always_inline void cost_of(const struct class *c, const struct frame *f,
				  const struct packet *p, struct cost *cost)
{
	struct segments s;
	u32 full, rest;

	if (p->family == FAMILY_NONE) {
		cost->packets = 1;
		cost->bytes = f->length;
		cost->cost =
			wire_cost(c, f->length,
				  f->link == LINK_ETHERNET ? frame_bytes(f, f->length) : f->length);
	} else if (!f->gso_size) {
		cost->packets = 1;
		cost->bytes = p->ip_length;
		cost->cost = wire_cost(c, p->ip_length,
				       f->link == LINK_ETHERNET ? frame_bytes(f, f->length) :
								  p->ip_length);
	} else {
		s = segments_of(f, p);
		/* Full segments, one with the rest, and empty ones where there are more than the
		 * payload fills: the IP bytes add up in any case. */
		full = s.count - 1;
		if ((u64)full * s.size > s.payload)
			full = s.payload / s.size;
		rest = s.payload - full * s.size;
		cost->packets = s.count;
		cost->bytes = (u64)s.count * s.header + s.payload;
		cost->cost = full * segment_cost(c, f, p, s.header + s.size) +
			     segment_cost(c, f, p, s.header + rest) +
			     (s.count - 1 - full) * segment_cost(c, f, p, s.header);
	}
	if (cost->cost > COST_MAX)
		cost->cost = COST_MAX;
	if (c->count != COUNT_PACKETS)
		cost->bytes = cost->cost;
}

#endif
