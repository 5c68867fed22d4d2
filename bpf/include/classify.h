/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Which class a packet is of: the first that matches, or NO_CLASS. Twin: marker/classify.go.
 *
 * A class has no match keys yet: the first takes every IP packet.
 */
#ifndef TRICOLOR_CLASSIFY_H
#define TRICOLOR_CLASSIFY_H

#include "parse.h"

static always_inline u32 classify(const struct policy *policy, const struct packet *p)
{
	return policy->classes ? 0 : NO_CLASS;
}

/* The packet's arrival colour: its DSCP in the class's table. */
static always_inline enum color arrival_color(const struct class *c, u8 dscp)
{
	if (c->arrival[1] >> dscp & 1)
		return RED;
	return c->arrival[0] >> dscp & 1;
}

#endif
