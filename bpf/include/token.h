/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * token: a single-rate two-colour token bucket. Twin: marker/token.go.
 *
 *   refill   Tc = min(CBS, Tc + elapsed × CIR)
 *   color    arrives green and Tc >= B: green. Else red.
 *   spend    green: Tc -= B. Red spends nothing.
 */
#ifndef TRICOLOR_TOKEN_H
#define TRICOLOR_TOKEN_H

#include "bucket.h"

static always_inline void token_refill(const struct profile *p, struct bucket *b, u64 elapsed)
{
	b->tc = earn(b->tc, p->cbs, p->cir, elapsed, p->c_fill);
}

static always_inline enum color token_color(const struct bucket *b, u64 cost, enum color in)
{
	if (in == GREEN && b->tc >= cost)
		return GREEN;
	return RED;
}

static always_inline void token_spend(struct bucket *b, u64 cost, enum color color)
{
	if (color == GREEN)
		b->tc -= cost;
}

#endif
