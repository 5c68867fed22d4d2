package main

import (
	"fmt"
	"strings"

	"github.com/tricolor-policer/tricolor/marker"
)

// The kernel program is timed by test runs of a small program that gives the packet a source address
// out of flows and then tail-calls: once the policer, once a program that does nothing. What the two
// differ by is the policer's. All that is compared is timed in turn.

// Rates that are never reached, and ones that every packet exceeds.
const (
	profileGreen = "meter: srtcm, cir: 100gbit, cbs: 1GB, ebs: 1MB"
	profileRed   = "meter: srtcm, cir: 8bit, cbs: 1B, ebs: 0B"
)

// oneBucket is a policy of one class, a bucket a flow; colors are what is done to a packet by its color.
func oneBucket(slots int, profile string, colors ...string) string {
	return fmt.Sprintf(`version: 1
flows: %d
profiles: { flow: { %s } }
classes:
  - name: all
    meters: [ { profile: flow, per: flow } ]
    %s
`, slots, profile, strings.Join(colors, "\n    "))
}

// threeBuckets is a policy of ten classes, of which the bench's packets match the last: that one has a chain of
// three meters.
func threeBuckets(slots int, profile string, colors ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "version: 1\nflows: %d\nprofiles:\n", slots)
	for _, name := range []string{"flow", "network", "link"} {
		fmt.Fprintf(&b, "  %s: { %s }\n", name, profile)
	}
	b.WriteString("classes:\n")
	for i := range 9 {
		fmt.Fprintf(&b, "  - { name: c%d, match: { proto: udp, dport: %d }, meters: [ { profile: flow } ] }\n", i, 1000+i)
	}
	fmt.Fprintf(&b, `  - name: last
    match: { proto: udp, dport: 8192 }
    meters: [ { profile: flow, per: flow }, { profile: network, per: "src/24,56" }, { profile: link, per: interface } ]
    %s
`, strings.Join(colors, "\n    "))
	return b.String()
}

const markGreen = "green: { dscp: af11 }"

// kernelSection is the matrix: flows × one bucket or a chain of three × marking, then IPv6 and red packets.
func kernelSection(t *table) error {
	for _, k := range []struct {
		name    string
		packets stream
		slots   int
		runs    uint32
		target  string
	}{
		{"IPv4, 1 flow", udp4(1), 1 << 16, 500_000, "<= 60"},
		{"IPv4, 100k flows at random", udp4(100_000), 1 << 21, 300_000, ""},
		{"IPv4, 900k flows at random", udp4(900_000), 1 << 21, 300_000, "<= 310"},
		{"IPv6, 1 flow", udp6(1), 1 << 16, 500_000, ""},
	} {
		arms, closeAll, err := armsOf(k.packets, "",
			oneBucket(k.slots, profileGreen), oneBucket(k.slots, profileGreen, markGreen),
			threeBuckets(k.slots, profileGreen), threeBuckets(k.slots, profileGreen, markGreen))
		if err != nil {
			return err
		}
		err = timeArms(arms, rounds, k.runs)
		for _, a := range arms[1:] {
			if err == nil {
				err = a.wantColor(marker.Green)
			}
		}
		closeAll()
		if err != nil {
			return err
		}
		floor, one, three := arms[0], arms[1], arms[3]
		t.row(k.name+": the empty program itself", floor.times, "ns", "")
		t.row("  one class, one srtcm bucket", one.over(floor), "ns", k.target)
		t.row("  the same, DSCP written", arms[2].over(floor), "ns", "")
		t.row("  10 classes, chain of three", three.over(floor), "ns", "")
		t.row("  the same, DSCP written", arms[4].over(floor), "ns", "")
		t.row("  chain of three, of one bucket's time", three.over(floor).percentOf(one.over(floor)), "%", "<= 200")
	}
	return redRows(t)
}

// redRows has red packets, dropped, beside green ones that are let through.
func redRows(t *table) error {
	for _, k := range []struct {
		name  string
		flows uint32
		slots int
	}{{"1 flow", 1, 1 << 16}, {"100k flows at random", 100_000, 1 << 21}} {
		arms, closeAll, err := armsOf(udp4(k.flows), "",
			oneBucket(k.slots, profileGreen), oneBucket(k.slots, profileRed),
			threeBuckets(k.slots, profileGreen), threeBuckets(k.slots, profileRed))
		if err != nil {
			return err
		}
		err = timeArms(arms, rounds, 300_000)
		for i, a := range arms[1:] {
			if err == nil {
				err = a.wantColor([]marker.Color{marker.Green, marker.Red}[i%2])
			}
		}
		closeAll()
		if err != nil {
			return err
		}
		floor := arms[0]
		t.row("red packets, dropped, "+k.name+": one bucket", arms[2].over(floor), "ns", "")
		t.row("  of a green packet's time", arms[2].over(floor).percentOf(arms[1].over(floor)), "%", "< 100")
		t.row("  chain of three", arms[4].over(floor), "ns", "")
		t.row("  of a green packet's time", arms[4].over(floor).percentOf(arms[3].over(floor)), "%", "< 100")
	}
	return nil
}

// kernel times a plan over an empty program, with so many flows at random.
func kernel(plan *marker.Plan, flows uint32, rounds int, runs uint32) (over, floor figure, err error) {
	nothing, err := newArm(nil, udp4(flows))
	if err != nil {
		return nil, nil, err
	}
	defer nothing.Close()
	ours, err := newArm(plan, udp4(flows))
	if err != nil {
		return nil, nil, err
	}
	defer ours.Close()
	if err := timeArms([]*arm{nothing, ours}, rounds, runs); err != nil {
		return nil, nil, err
	}
	return ours.over(nothing), nothing.times, ours.wantColor(marker.Green)
}

// hotPlan is one class of one srTCM bucket a flow, at a rate that is never reached.
func hotPlan() (*marker.Plan, error) {
	return onePlan(marker.Params{Meter: marker.SRTCM, CIR: 12_500_000_000, CBS: 1 << 30, EBS: 1 << 20})
}
