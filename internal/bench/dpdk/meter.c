/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * DPDK's rte_meter, asked by the bench. Commands come a line each on standard input, answers go out
 * a line each; the first line out is the clock in Hz.
 *
 *   rate CIR                             -> PERIOD BYTES: what is stored of a rate (bytes a second):
 *                                           so many bytes every so many cycles, or "refused"
 *   arrival GAP COST                     puts a packet in the list of 4,096, in the place of the
 *                                           oldest: ns since the one before, bytes. No answer
 *   time METER PACKETS CIR CBS XIR XBS   -> NS NONGREEN: so many packets, those of arrival over and
 *                                           over, through srtcm, trtcm or rfc4115, colour-blind: ns a
 *                                           packet, and how many were not green
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_meter.h>

#define ARRIVALS 4096 /* a power of two */

static struct arrival {
	uint64_t cycles;
	uint32_t cost;
} arrivals[ARRIVALS];

static double ns_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

/* The loop that the Go meters are timed in. */
#define TIME(check, meter, profile)                                                       \
	do {                                                                              \
		start = ns_now();                                                         \
		for (uint64_t i = 0; i < packets; i++) {                                  \
			const struct arrival *a = &arrivals[i % ARRIVALS];                \
                                                                                          \
			now += a->cycles;                                                 \
			if (check(&(meter), &(profile), now, a->cost) != RTE_COLOR_GREEN) \
				not_green++;                                              \
		}                                                                         \
	} while (0)

static int measure(const char *line)
{
	char name[16];
	uint64_t packets, cir, cbs, xir, xbs, now, not_green = 0;
	double start;

	if (sscanf(line, "time %15s %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, name,
		   &packets, &cir, &cbs, &xir, &xbs) != 6)
		return -1;
	if (!strcmp(name, "srtcm")) {
		struct rte_meter_srtcm_params params = { cir, cbs, xbs };
		struct rte_meter_srtcm_profile profile;
		struct rte_meter_srtcm meter;

		if (rte_meter_srtcm_profile_config(&profile, &params) ||
		    rte_meter_srtcm_config(&meter, &profile))
			return -1;
		now = meter.time;
		TIME(rte_meter_srtcm_color_blind_check, meter, profile);
	} else if (!strcmp(name, "trtcm")) {
		struct rte_meter_trtcm_params params = { cir, xir, cbs, xbs };
		struct rte_meter_trtcm_profile profile;
		struct rte_meter_trtcm meter;

		if (rte_meter_trtcm_profile_config(&profile, &params) ||
		    rte_meter_trtcm_config(&meter, &profile))
			return -1;
		now = meter.time_tc;
		TIME(rte_meter_trtcm_color_blind_check, meter, profile);
	} else if (!strcmp(name, "rfc4115")) {
		struct rte_meter_trtcm_rfc4115_params params = { cir, xir, cbs, xbs };
		struct rte_meter_trtcm_rfc4115_profile profile;
		struct rte_meter_trtcm_rfc4115 meter;

		if (rte_meter_trtcm_rfc4115_profile_config(&profile, &params) ||
		    rte_meter_trtcm_rfc4115_config(&meter, &profile))
			return -1;
		now = meter.time_tc;
		TIME(rte_meter_trtcm_rfc4115_color_blind_check, meter, profile);
	} else {
		return -1;
	}
	printf("%f %" PRIu64 "\n", (ns_now() - start) / packets, not_green);
	return 0;
}

static void stored(uint64_t cir)
{
	struct rte_meter_srtcm_params params = { .cir = cir, .cbs = 1 << 20 };
	struct rte_meter_srtcm_profile profile;

	if (rte_meter_srtcm_profile_config(&profile, &params))
		printf("refused\n");
	else
		printf("%" PRIu64 " %" PRIu64 "\n", profile.cir_period,
		       profile.cir_bytes_per_period);
}

int main(void)
{
	char *eal[] = { "meter",	 "--no-huge", "--no-pci", "--no-shconf", "--no-telemetry",
			"--log-level=1", "-m",	      "16",	  "-l",		 "0" };
	char line[256];
	uint64_t cir, gap;
	uint32_t cost, n = 0;

	if (rte_eal_init(RTE_DIM(eal), eal) < 0) {
		fprintf(stderr, "DPDK does not start\n");
		return 1;
	}
	printf("%" PRIu64 "\n", rte_get_tsc_hz());
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "arrival %" SCNu64 " %" SCNu32, &gap, &cost) == 2) {
			arrivals[n++ % ARRIVALS] =
				(struct arrival){ gap * rte_get_tsc_hz() / 1000000000, cost };
			continue;
		}
		if (sscanf(line, "rate %" SCNu64, &cir) == 1) {
			stored(cir);
		} else if (measure(line)) {
			fprintf(stderr, "cannot: %s", line);
			return 1;
		}
		fflush(stdout);
	}
	return 0;
}
