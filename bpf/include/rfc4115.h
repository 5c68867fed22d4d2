/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * rfc4115: the differentiated service two-rate three-color marker of RFC 4115, with the coupling
 * of MEF 10.3. Twin: marker/rfc4115.go.
 *
 *   refill   C earns CIR, E earns EIR, each on its own; coupled, E also gets what C cannot hold
 *   judge    as srtcm's
 */
#ifndef TRICOLOR_RFC4115_H
#define TRICOLOR_RFC4115_H

#include "srtcm.h"

static always_inline void rfc4115_refill(const struct profile *p, struct bucket *b, u64 elapsed)
{
	/* after ceil(CBS / CIR) C is full; coupled, after ceil((CBS + EBS) / CIR) both */
	u64 tc = p->cbs + p->xbs;

	if (elapsed < p->c_fill)
		tc = b->tc + elapsed * p->cir;
	b->tc = min(tc, p->cbs);
	b->tx = earn_x(p, b->tx, elapsed);
	if (p->coupling)
		b->tx = min(b->tx + tc - b->tc, p->xbs);
}

#endif
