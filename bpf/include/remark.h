/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Writes a packet's DSCP: those six bits and nothing else; ECN and flow label stay. A packet that is
 * already right is not written. Twin: marker/remark.go.
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

static always_inline void remark_ipv4(struct ipv4_header *ip, u8 dscp)
{
	u16 *word = (u16 *)ip;
	u16 old = *word;

	ip->tos = dscp << 2 | (ip->tos & 3);
	ip->checksum = checksum_update(ip->checksum, old, *word);
}

static always_inline void remark_ipv6(struct __sk_buff *skb, struct ipv6_header *ip, u8 dscp)
{
	u16 *word = (u16 *)ip;
	u16 old = *word;

	ip->version_class = (ip->version_class & 0xf0) | dscp >> 2;
	ip->class_flow = (dscp & 3) << 6 | (ip->class_flow & 0x3f);
	/* IPv6 has no checksum of its own: where the device summed the whole packet
	 * (CHECKSUM_COMPLETE), that sum must follow. Elsewhere the helper does nothing. */
	bpf_csum_update(skb, (u32)(u16)~old + *word);
}

/* Returns 0, or -1 where the header is out of reach (it was in reach when it was parsed). */
static always_inline int remark(struct __sk_buff *skb, const struct packet *p, u8 dscp)
{
	void *end = (void *)(long)skb->data_end;
	void *ip = (void *)(long)skb->data + (p->l3 & MAX_L3);

	if (p->dscp == dscp)
		return 0;
	if (p->ipv6) {
		if (ip + sizeof(struct ipv6_header) > end)
			return -1;
		remark_ipv6(skb, ip, dscp);
	} else {
		if (ip + sizeof(struct ipv4_header) > end)
			return -1;
		remark_ipv4(ip, dscp);
	}
	return 0;
}

#endif
