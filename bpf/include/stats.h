/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* The counters, per CPU: never lost when a bucket is forgotten. Twin: marker/stats.go. */
#ifndef TRICOLOR_STATS_H
#define TRICOLOR_STATS_H

#include "maps.h"

static always_inline struct port_stats *port_counters(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&port_stats_map, &zero);
}

static always_inline struct class_stats *class_counters(u32 class)
{
	return bpf_map_lookup_elem(&class_stats_map, &class);
}

#endif
