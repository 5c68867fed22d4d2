/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* The one clock read of a packet, in ns: monotonic; in a replay, the record's time stamp. */
#ifndef TRICOLOR_CLOCK_H
#define TRICOLOR_CLOCK_H

#include "maps.h"

static always_inline u64 clock_now(const struct __sk_buff *skb)
{
	return replay ? skb->tstamp : bpf_ktime_get_ns();
}

#endif
