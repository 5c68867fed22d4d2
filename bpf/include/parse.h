/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Reads a frame's headers: the outermost IP header behind up to four VLAN tags or a PPPoE session,
 * IPv6's extension headers, and the ports. Twin: marker/parse.go, statement by statement; a fuzzer
 * runs both.
 *
 * Three lengths bound it. The true length of the frame: an IP packet that claims more is malformed.
 * The captured bytes (all of them on a live hook): a header cut short by them is malformed, never
 * "not IP". What of those is in reach (the skb's linear part): a header beyond it is no verdict; the
 * caller pulls it in and parses again.
 */
#ifndef TRICOLOR_PARSE_H
#define TRICOLOR_PARSE_H

#include "abi.h"
#include "bpf_endian.h"
#include "maps.h"

#define MAX_TAGS 4	 /* VLAN tags, in the data or offloaded */
#define MAX_EXTENSIONS 8 /* IPv6 extension headers walked */
#define MAX_L3 63	 /* no IP header starts later: Ethernet, tags, PPPoE are 38 bytes */
#define MAX_OFFSET \
	0x4fff /* beyond every header that is walked: 46 + 40 + 8 × 2048 bytes and ports */

enum parsed {
	PARSED_IP = 0,
	PARSED_NOT_IP,
	PARSED_MALFORMED,
	PARSED_BEYOND, /* a header is there, but out of reach */
};

/* A frame as the hook sees it. */
struct frame {
	u32 captured; /* bytes of the frame that are there, in reach or not */
	u32 length;   /* its true length, offloaded tag excluded */
	u32 vlan;     /* offloaded tag: 1 << 16 | TCI, or 0 */
	u32 link;     /* enum replay_link */
	u32 gso_size; /* of a super-packet: payload of each segment; else 0 */
	u32 gso_segs;
};

/* The part of a frame that can be read directly. */
struct reach {
	void *data;
	void *end;
	const struct frame *frame;
};

/* What the headers say. */
struct packet {
	struct key key; /* of its flow: addresses, ports, protocol; kind and class 0 */
	u32 link;	/* enum replay_link: what is at l3 */
	u32 l3;		/* offset of the IP header */
	u32 l4;		/* offset of the transport header */
	u32 ip_length;	/* of the single packet, header included */
	u8 family;	/* enum family */
	u8 tos;		/* DSCP and ECN */
	u8 dscp;
	u8 fragment;
	u8 ports; /* 1: the ports in the key are the packet's */
	u8 long_chain;
	u32 profile;   /* of the prefix set that classify found it in, or NO_PROFILE */
	u16 vlan;      /* outermost tag's VID; 0 none */
	u16 l4_header; /* of a super-packet: bytes of the transport header */
	u16 jumbo;     /* of a super-packet: bytes of a jumbo header that never is on the wire */
};

struct vlan_tag {
	__be16 tci;
	__be16 type;
};

struct pppoe_header {
	u8 version_type;
	u8 code;
	__be16 session;
	__be16 length;
	__be16 protocol;
};

struct ipv4_header {
	u8 version_ihl;
	u8 tos;
	__be16 length;
	__be16 id;
	__be16 fragment; /* DF, MF, offset */
	u8 ttl;
	u8 protocol;
	__sum16 checksum;
	__be32 src;
	__be32 dst;
};

struct ipv6_header {
	u8 version_class; /* version, traffic class, flow label: 4, 8, 20 bits */
	u8 class_flow;
	__be16 flow;
	__be16 length;
	u8 next;
	u8 hops;
	u64 src[2]; /* in whole words: as bytes they would be copied two at a time */
	u64 dst[2];
};

struct ipv6_extension {
	u8 next;
	u8 length;
	u8 option; /* hop-by-hop: type of the first option */
};

#define IPV6_JUMBO 0xc2 /* option: RFC 2675 */

#define IPV4_MF_OFFSET 0x3fff

/* A header of this size at off, or NULL. */
static always_inline void *header_at(const struct reach *r, u32 off, u32 size)
{
	void *at;

	if (off > MAX_OFFSET || (replay && off + size > r->frame->captured))
		return NULL;
	at = r->data + off;
	return at + size > r->end ? NULL : at;
}

/* Why header_at had none. */
static always_inline enum parsed cut_short(const struct frame *f, u32 off, u32 size)
{
	return off + size > f->captured ? PARSED_MALFORMED : PARSED_BEYOND;
}

/* Whether a protocol is one of a set given as a bitmap: one branch, not one for each. */
static always_inline int in_set(u8 proto, u64 first, u64 third)
{
	return ((proto < 64 ? first : proto >> 6 == 2 ? third : 0) >> (proto & 63)) & 1;
}

/* Protocols whose header starts with two ports. */
static always_inline int has_ports(u8 proto)
{
	return in_set(proto, 1ULL << IPPROTO_TCP | 1ULL << IPPROTO_UDP | 1ULL << IPPROTO_DCCP,
		      1ULL << (IPPROTO_SCTP - 128) | 1ULL << (IPPROTO_UDPLITE - 128));
}

/* IPv6 extension headers that are walked. */
static always_inline int is_extension(u8 next)
{
	return in_set(next,
		      1ULL << IPPROTO_HOPOPTS | 1ULL << IPPROTO_ROUTING | 1ULL << IPPROTO_DSTOPTS |
			      1ULL << IPPROTO_AH,
		      0);
}

static always_inline int is_tag(u16 type)
{
	return type == ETH_P_8021Q || type == ETH_P_8021AD;
}

/* The transport header's length, which each segment of a super-packet carries. */
static always_inline enum parsed parse_segment_header(const struct reach *r, struct packet *p,
						      u8 proto)
{
	const struct frame *f = r->frame;
	u8 *tcp;

	if (proto == IPPROTO_UDP || proto == IPPROTO_UDPLITE)
		p->l4_header = 8;
	if (proto == IPPROTO_SCTP)
		p->l4_header = 12;
	if (proto != IPPROTO_TCP)
		return PARSED_IP;
	p->l4_header = 20;
	if (p->l4 + 20 > f->captured)
		return PARSED_IP;
	tcp = header_at(r, p->l4, 20);
	if (!tcp)
		return PARSED_BEYOND;
	if (tcp[12] >> 4 > 5)
		p->l4_header = (tcp[12] >> 4) * 4;
	return PARSED_IP;
}

/* Protocol and ports; ports only where their four bytes lie within the IP packet and are captured. */
static always_inline enum parsed parse_transport(const struct reach *r, struct packet *p, u8 proto)
{
	const struct frame *f = r->frame;
	struct key_fields *k = (struct key_fields *)&p->key;
	u32 *ports;

	k->proto = proto;
	if (p->fragment || p->long_chain || !has_ports(proto))
		return PARSED_IP;
	if (p->l4 + 4 > p->l3 + p->ip_length || p->l4 + 4 > f->captured)
		return PARSED_IP;
	ports = header_at(r, p->l4, 4);
	if (!ports)
		return PARSED_BEYOND;
	*(u32 *)&k->sport = *ports;
	p->ports = 1;
	if (f->gso_size)
		return parse_segment_header(r, p, proto);
	return PARSED_IP;
}

static always_inline enum parsed parse_ipv4(const struct reach *r, struct packet *p)
{
	const struct frame *f = r->frame;
	struct key_fields *k = (struct key_fields *)&p->key;
	struct ipv4_header *ip = header_at(r, p->l3, sizeof(*ip));
	u32 header;

	if (!ip)
		return cut_short(f, p->l3, sizeof(*ip));
	header = (ip->version_ihl & 0xf) * 4;
	if (ip->version_ihl >> 4 != 4 || header < sizeof(*ip) || p->l3 + header > f->captured)
		return PARSED_MALFORMED;
	p->ip_length = bpf_ntohs(ip->length);
	if (!p->ip_length)
		p->ip_length = f->length - p->l3; /* a super-packet, too long for the field */
	if (p->ip_length < header || p->l3 + p->ip_length > f->length)
		return PARSED_MALFORMED;

	*(u32 *)k->src = ip->src;
	*(u32 *)k->dst = ip->dst;
	p->family = FAMILY_IPV4;
	p->tos = ip->tos;
	p->dscp = ip->tos >> 2;
	p->fragment = !!(ip->fragment & bpf_htons(IPV4_MF_OFFSET));
	p->l4 = p->l3 + header;
	return parse_transport(r, p, ip->protocol);
}

static always_inline enum parsed parse_ipv6(const struct reach *r, struct packet *p)
{
	const struct frame *f = r->frame;
	struct ipv6_header *ip = header_at(r, p->l3, sizeof(*ip));
	struct ipv6_extension *extension;
	u32 off, limit, size;
	u8 next;

	if (!ip)
		return cut_short(f, p->l3, sizeof(*ip));
	if (ip->version_class >> 4 != 6)
		return PARSED_MALFORMED;
	p->ip_length = sizeof(*ip) + bpf_ntohs(ip->length);
	if (!ip->length && (f->gso_size || f->length - p->l3 > sizeof(*ip) + 0xffff))
		p->ip_length = f->length - p->l3;
	if (p->l3 + p->ip_length > f->length)
		return PARSED_MALFORMED;

	p->key.word[0] = ip->src[0];
	p->key.word[1] = ip->src[1];
	p->key.word[2] = ip->dst[0];
	p->key.word[3] = ip->dst[1];
	p->family = FAMILY_IPV6;
	p->tos = (ip->version_class & 0xf) << 4 | ip->class_flow >> 4;
	p->dscp = p->tos >> 2;

	/* An extension header belongs to the packet: it is cut short by the packet's end as well. */
	limit = p->l3 + p->ip_length;
	if (limit > f->captured)
		limit = f->captured;
	off = p->l3 + sizeof(*ip);
	next = ip->next;
	for (int i = 0; i < MAX_EXTENSIONS && is_extension(next); i++) {
		if (off + 8 > limit)
			return PARSED_MALFORMED;
		extension = header_at(r, off, 8);
		if (!extension)
			return PARSED_BEYOND;
		size = next == IPPROTO_AH ? (extension->length + 2) * 4 :
					    (extension->length + 1) * 8;
		/* The kernel puts one on super-packets beyond 64 KiB (BIG TCP); it goes again before
		 * they are cut into segments. */
		if (f->gso_size && !ip->length && !i && next == IPPROTO_HOPOPTS && size == 8 &&
		    extension->option == IPV6_JUMBO)
			p->jumbo = 8;
		next = extension->next;
		off += size;
		if (off > limit)
			return PARSED_MALFORMED;
	}
	p->long_chain = is_extension(next);
	if (next == IPPROTO_FRAGMENT) {
		if (off + 8 > limit)
			return PARSED_MALFORMED;
		extension = header_at(r, off, 8);
		if (!extension)
			return PARSED_BEYOND;
		p->fragment = 1; /* the first and an atomic one too */
		next = extension->next;
		off += 8;
	}
	p->l4 = off;
	return parse_transport(r, p, next);
}

/* The frame from its link header on: finds the IP header, and its family. */
static always_inline enum parsed parse_ethernet(const struct reach *r, struct packet *p, u32 *link)
{
	const struct frame *f = r->frame;
	struct pppoe_header *pppoe;
	struct vlan_tag *tag;
	u32 off = 14, tags = 0;
	__be16 *ethernet;
	u16 type;

	ethernet = header_at(r, 0, 14);
	if (!ethernet)
		return cut_short(f, 0, 14);
	type = bpf_ntohs(ethernet[6]);
	if (f->vlan) {
		p->vlan = f->vlan & 0xfff;
		tags = 1;
	}
#pragma unroll
	for (int i = 0; i < MAX_TAGS; i++) {
		if (!is_tag(type) || tags == MAX_TAGS)
			break;
		tag = header_at(r, off, sizeof(*tag));
		if (!tag)
			return cut_short(f, off, sizeof(*tag));
		if (!tags)
			p->vlan = bpf_ntohs(tag->tci) & 0xfff;
		tags++;
		type = bpf_ntohs(tag->type);
		off += sizeof(*tag);
	}
	if (type == ETH_P_PPP_SES) {
		pppoe = header_at(r, off, sizeof(*pppoe));
		if (!pppoe)
			return cut_short(f, off, sizeof(*pppoe));
		if (pppoe->version_type != 0x11 || pppoe->code)
			return PARSED_NOT_IP;
		type = pppoe->protocol == bpf_htons(PPP_IP)   ? ETH_P_IP :
		       pppoe->protocol == bpf_htons(PPP_IPV6) ? ETH_P_IPV6 :
								0;
		off += sizeof(*pppoe);
	}
	p->l3 = off;
	*link = type == ETH_P_IP   ? LINK_L3_IPV4 :
		type == ETH_P_IPV6 ? LINK_L3_IPV6 :
				     LINK_L3_OTHER; /* and more tags than are walked */
	return PARSED_IP;
}

/* The parser in two functions of their own, so that the verifier walks the paths of each once. */

__noinline int parse_link(struct __sk_buff *skb, const struct frame *f, struct packet *p)
{
	struct reach r = {
		.data = (void *)(long)skb->data,
		.end = (void *)(long)skb->data_end,
		.frame = f,
	};
	enum parsed parsed;
	u32 link;

	if (!f || !p)
		return PARSED_MALFORMED;
	if (f->link != LINK_ETHERNET) {
		p->link = f->link;
		return PARSED_IP;
	}
	parsed = parse_ethernet(&r, p, &link);
	if (parsed == PARSED_IP)
		p->link = link;
	return parsed;
}

__noinline int parse_network(struct __sk_buff *skb, const struct frame *f, struct packet *p)
{
	struct reach r = {
		.data = (void *)(long)skb->data,
		.end = (void *)(long)skb->data_end,
		.frame = f,
	};

	if (!f || !p)
		return PARSED_MALFORMED;
	p->l3 &= MAX_L3;
	if (p->link == LINK_L3_IPV4)
		return parse_ipv4(&r, p);
	if (p->link == LINK_L3_IPV6)
		return parse_ipv6(&r, p);
	return PARSED_NOT_IP;
}

/* Reads f, whose bytes are the skb's, into p, which must be zero. Returns enum parsed. */
static always_inline int parse_frame(struct __sk_buff *skb, const struct frame *f, struct packet *p)
{
	int parsed = parse_link(skb, f, p);

	return parsed == PARSED_IP ? parse_network(skb, f, p) : parsed;
}

#endif
