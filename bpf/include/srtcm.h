/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * srtcm: the single rate three color marker of RFC 2697 (section 3). Twin: marker/srtcm.go.
 *
 *   refill   C first; only what C cannot hold goes to E; what E cannot hold is lost
 *   judge    arrives green and Tc >= B: green, Tc -= B. Else arrives no worse than yellow and
 *            Te >= B: yellow, Te -= B. Else red.
 */
#ifndef TRICOLOR_SRTCM_H
#define TRICOLOR_SRTCM_H

#include "bucket.h"

static always_inline void srtcm_refill(const struct profile *p, struct bucket *b, u64 elapsed)
{
	u64 tc = p->cbs + p->xbs; /* after ceil((CBS + EBS) / CIR) both are full */

	if (elapsed < p->c_fill)
		tc = b->tc + elapsed * p->cir;
	b->tc = min(tc, p->cbs);
	b->tx = min(b->tx + tc - b->tc, p->xbs);
}

static always_inline enum color srtcm_judge(struct bucket *b, u64 cost, enum color in)
{
	if (in == GREEN && b->tc >= cost) {
		b->tc -= cost;
		return GREEN;
	}
	if (in <= YELLOW && b->tx >= cost) {
		b->tx -= cost;
		return YELLOW;
	}
	return RED;
}

#endif
