/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * The arithmetic that every meter's bucket shares. Twin: marker/bucket.go.
 *
 * Tokens are nanobytes, so elapsed_ns × bytes_per_second is a whole number of them: one
 * multiplication, no division, nothing rounded. No product overflows: at or over the fill time the
 * bucket is full without multiplying.
 */
#ifndef TRICOLOR_BUCKET_H
#define TRICOLOR_BUCKET_H

#include "abi.h"
#include "maps.h"

static always_inline u64 min(u64 a, u64 b)
{
	return a < b ? a : b;
}

/* What C holds after elapsed ns. In c_fill it surely fills, so no sum overflows. */
static always_inline u64 earn_c(const struct profile *p, u64 tc, u64 elapsed)
{
	if (elapsed >= p->c_fill)
		return p->cbs;
	return min(tc + elapsed * p->cir, p->cbs);
}

/* The same for the second bucket. */
static always_inline u64 earn_x(const struct profile *p, u64 tx, u64 elapsed)
{
	if (elapsed >= p->x_fill)
		return p->xbs;
	return min(tx + elapsed * p->xir, p->xbs);
}

#endif
