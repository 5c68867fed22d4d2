/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * trtcm: the two rate three color marker of RFC 2698 (section 3). Twin: marker/trtcm.go.
 *
 *   refill   Tc earns CIR up to CBS, Tp earns PIR up to PBS, each on its own
 *   judge    arrives red or Tp < B: red. Else Tp -= B. Arrives yellow or Tc < B: yellow.
 *            Else green, Tc -= B.
 */
#ifndef TRICOLOR_TRTCM_H
#define TRICOLOR_TRTCM_H

#include "bucket.h"

static always_inline void trtcm_refill(const struct profile *p, struct bucket *b, u64 elapsed)
{
	b->tc = earn_c(p, b->tc, elapsed);
	b->tx = earn_x(p, b->tx, elapsed);
}

static always_inline enum color trtcm_judge(struct bucket *b, u64 cost, enum color in)
{
	if (in == RED || b->tx < cost)
		return RED;
	b->tx -= cost;
	if (in == YELLOW || b->tc < cost)
		return YELLOW;
	b->tc -= cost;
	return GREEN;
}

#endif
