/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * token: a single-rate two-colour token bucket. Twin: marker/token.go.
 *
 *   refill   Tc = min(CBS, Tc + elapsed × CIR)
 *   judge    arrives green and Tc >= B: green, Tc -= B. Else red.
 */
#ifndef TRICOLOR_TOKEN_H
#define TRICOLOR_TOKEN_H

#include "bucket.h"

static always_inline void token_refill(const struct profile *p, struct bucket *b, u64 elapsed)
{
	b->tc = earn_c(p, b->tc, elapsed);
}

static always_inline enum color token_judge(struct bucket *b, u64 cost, enum color in)
{
	if (in == GREEN && b->tc >= cost) {
		b->tc -= cost;
		return GREEN;
	}
	return RED;
}

#endif
