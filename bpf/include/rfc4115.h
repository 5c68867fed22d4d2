/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * rfc4115: the differentiated service two-rate three-color marker of RFC 4115, with the coupling
 * of MEF 10.3. Twin: marker/rfc4115.go.
 *
 *   refill   C earns CIR, E earns EIR, each on its own; coupled, E also gets what C cannot hold
 *   color    as srtcm's
 *   spend    as srtcm's
 */
#ifndef TRICOLOR_RFC4115_H
#define TRICOLOR_RFC4115_H

#include "srtcm.h"

static always_inline void rfc4115_refill(const struct profile *p, struct bucket *b, u64 elapsed)
{
	if (p->coupling)
		srtcm_refill(p, b, elapsed); /* the spill, bounded by (CBS + EBS) / CIR */
	else
		b->tc = earn(b->tc, p->cbs, p->cir, elapsed, p->c_fill);
	b->tx = earn(b->tx, p->xbs, p->xir, elapsed, p->x_fill);
}

#endif
