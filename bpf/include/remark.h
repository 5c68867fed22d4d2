/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Writes a packet's DSCP, or CE: those bits and nothing else; the flow label and every other bit stay. A
 * packet that is already right is not written. Twin: marker/remark.go.
 */
#ifndef TRICOLOR_REMARK_H
#define TRICOLOR_REMARK_H

#include "parse.h"

/*
 * RFC 1624, equation 3: HC' = ~(~HC + ~m + m'). Byte order does not matter as long as all are read
 * alike. m differs from m', so the sum is never 0 and the result never 0xffff where 0 is right.
 */
static always_inline __sum16 checksum_update(__sum16 checksum, u16 old, u16 new)
{
	u32 sum = (u16)~checksum + (u16)~old + new;

	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

static always_inline void remark_ipv4(struct ipv4_header *ip, u8 tos)
{
	u16 *word = (u16 *)ip;
	u16 old = *word;

	ip->tos = tos;
	ip->checksum = checksum_update(ip->checksum, old, *word);
}

static always_inline void remark_ipv6(struct __sk_buff *skb, struct ipv6_header *ip, u8 tos)
{
	u16 *word = (u16 *)ip;
	u16 old = *word;

	ip->version_class = (ip->version_class & 0xf0) | tos >> 4;
	ip->class_flow = tos << 4 | (ip->class_flow & 0x0f);
	/* IPv6 has no checksum of its own: where the device summed the whole packet
	 * (CHECKSUM_COMPLETE), that sum must follow. Elsewhere the helper does nothing. */
	bpf_csum_update(skb, (u32)(u16)~old + *word);
}

/* Returns 0, or -1 where the header is out of reach (it was in reach when it was parsed). */
static always_inline int remark(struct __sk_buff *skb, const struct packet *p, u8 tos)
{
	void *end = (void *)(long)skb->data_end;
	void *ip = (void *)(long)skb->data + (p->l3 & MAX_L3);

	if (p->tos == tos)
		return 0;
	if (p->family == FAMILY_IPV6) {
		if (ip + sizeof(struct ipv6_header) > end)
			return -1;
		remark_ipv6(skb, ip, tos);
	} else {
		if (ip + sizeof(struct ipv4_header) > end)
			return -1;
		remark_ipv4(ip, tos);
	}
	return 0;
}

/* The DSCP and ECN that a packet of this tos gets by an action. */
static always_inline u8 action_tos(const struct action *a, u8 tos)
{
	if (a->verbs & VERB_CE && tos & 3)
		return tos | 3;
	if (a->verbs & VERB_DSCP)
		return a->dscp << 2 | (tos & 3);
	return tos;
}

#endif
