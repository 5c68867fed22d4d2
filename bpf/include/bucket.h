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

/* Adds to tokens, up to burst; tokens <= burst. */
static always_inline u64 add_up_to(u64 tokens, u64 amount, u64 burst)
{
	return amount >= burst - tokens ? burst : tokens + amount;
}

/* What a bucket of this rate holds after elapsed ns; fill is the time in which it surely fills. */
static always_inline u64 earn(u64 tokens, u64 burst, u64 rate, u64 elapsed, u64 fill)
{
	if (elapsed >= fill)
		return burst;
	return add_up_to(tokens, elapsed * rate, burst);
}

#endif
