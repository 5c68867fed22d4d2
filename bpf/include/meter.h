/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * One meter out of four, by its profile. Twin: marker/meter.go. Its Judge is meter_refill, meter_color
 * and meter_spend in a row: here, where all three are inlined, one function would save nothing.
 */
#ifndef TRICOLOR_METER_H
#define TRICOLOR_METER_H

#include "rfc4115.h"
#include "srtcm.h"
#include "token.h"
#include "trtcm.h"

/* Brings the bucket to now. A time before its last earns nothing and does not move it; returns 1. */
static always_inline int meter_refill(const struct profile *p, struct bucket *b, u64 now)
{
	u64 elapsed;

	if (now < b->last)
		return 1;
	elapsed = now - b->last;
	b->last = now;
	switch (p->meter) {
	case METER_TOKEN:
		token_refill(p, b, elapsed);
		break;
	case METER_SRTCM:
		srtcm_refill(p, b, elapsed);
		break;
	case METER_TRTCM:
		trtcm_refill(p, b, elapsed);
		break;
	case METER_RFC4115:
		rfc4115_refill(p, b, elapsed);
		break;
	}
	return 0;
}

/* The colour in which the meter takes a packet: a blind one takes it as green. */
static always_inline enum color meter_arrival(const struct profile *p, enum color in)
{
	return p->aware ? in : GREEN;
}

/* Judges a packet of cost nanobytes; spends nothing. */
static always_inline enum color meter_color(const struct profile *p, const struct bucket *b,
					    u64 cost, enum color in)
{
	struct bucket s = *b;

	in = meter_arrival(p, in);
	switch (p->meter) {
	case METER_TOKEN:
		return token_judge(&s, cost, in);
	case METER_TRTCM:
		return trtcm_judge(&s, cost, in);
	default:
		return srtcm_judge(&s, cost, in); /* and rfc4115 */
	}
}

/* Spends what a packet of this colour spends: green Tc, yellow Te; trtcm's green and yellow Tp. */
static always_inline void meter_spend(const struct profile *p, struct bucket *b, u64 cost,
				      enum color color)
{
	if (color == GREEN)
		b->tc -= cost;
	if (color == YELLOW || (color == GREEN && p->meter == METER_TRTCM))
		b->tx -= cost;
}

/* Fills a bucket that was never used, as of now. */
static always_inline void meter_init(const struct profile *p, struct bucket *b, u64 now)
{
	b->last = now;
	b->tc = p->cbs;
	b->tx = p->xbs;
}

/* Whether the bucket holds every one of its bursts in full. */
static always_inline int meter_full(const struct profile *p, const struct bucket *b)
{
	return b->tc == p->cbs && b->tx == p->xbs;
}

#endif
