/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * srtcm: the single rate three color marker of RFC 2697 (section 3). Twin: marker/srtcm.go.
 *
 *   refill   C first; only what C cannot hold goes to E; what E cannot hold is lost
 *   color    arrives green and Tc >= B: green. Else arrives no worse than yellow and Te >= B:
 *            yellow. Else red.
 *   spend    green: Tc -= B. Yellow: Te -= B. Red spends nothing.
 */
#ifndef TRICOLOR_SRTCM_H
#define TRICOLOR_SRTCM_H

#include "bucket.h"

static always_inline void srtcm_refill(const struct profile *p, struct bucket *b, u64 elapsed)
{
	u64 earned, room;

	if (elapsed >= p->c_fill) { /* ceil((CBS + EBS) / CIR): both are full */
		b->tc = p->cbs;
		b->tx = p->xbs;
		return;
	}
	earned = elapsed * p->cir;
	room = p->cbs - b->tc;
	if (earned <= room) {
		b->tc += earned;
		return;
	}
	b->tc = p->cbs;
	b->tx = add_up_to(b->tx, earned - room, p->xbs);
}

static always_inline enum color srtcm_color(const struct bucket *b, u64 cost, enum color in)
{
	if (in == GREEN && b->tc >= cost)
		return GREEN;
	if (in <= YELLOW && b->tx >= cost)
		return YELLOW;
	return RED;
}

static always_inline void srtcm_spend(struct bucket *b, u64 cost, enum color color)
{
	if (color == GREEN)
		b->tc -= cost;
	else if (color == YELLOW)
		b->tx -= cost;
}

#endif
