/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * trtcm: the two rate three color marker of RFC 2698 (section 3). Twin: marker/trtcm.go.
 *
 *   refill   Tc earns CIR up to CBS, Tp earns PIR up to PBS, each on its own
 *   color    arrives red or Tp < B: red. Else arrives yellow or Tc < B: yellow. Else green.
 *   spend    green: Tp -= B and Tc -= B. Yellow: Tp -= B, Tc untouched. Red spends nothing.
 */
#ifndef TRICOLOR_TRTCM_H
#define TRICOLOR_TRTCM_H

#include "bucket.h"

static always_inline void trtcm_refill(const struct profile *p, struct bucket *b, u64 elapsed)
{
	b->tc = earn(b->tc, p->cbs, p->cir, elapsed, p->c_fill);
	b->tx = earn(b->tx, p->xbs, p->xir, elapsed, p->x_fill);
}

static always_inline enum color trtcm_color(const struct bucket *b, u64 cost, enum color in)
{
	if (in == RED || b->tx < cost)
		return RED;
	if (in == YELLOW || b->tc < cost)
		return YELLOW;
	return GREEN;
}

static always_inline void trtcm_spend(struct bucket *b, u64 cost, enum color color)
{
	if (color == RED)
		return;
	b->tx -= cost;
	if (color == GREEN)
		b->tc -= cost;
}

#endif
