package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/tricolor-policer/tricolor/loader"
	"github.com/tricolor-policer/tricolor/marker"
)

// Growth: what a packet costs as flows grow from one to four million, and what a replay costs as
// captures grow. It takes minutes, so it runs only when asked for, and it draws its pictures anew:
// run it from the repository's root.

// growthFlows are the numbers of flows, at random, that a packet is one of.
var growthFlows = []uint32{1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 2_000_000, 4_000_000}

// growthPlan has two slots a flow, and no fewer than other sections'.
func growthPlan(flows uint32) (*marker.Plan, error) {
	return planOf(marker.Params{Meter: marker.SRTCM, CIR: 12_500_000_000, CBS: 1 << 30, EBS: 1 << 20}, max(1<<21, 2*uint64(flows)))
}

// point is what one line of the picture has at a number of flows: ns a packet.
type point struct {
	line string
	ns   figure
}

// growthLines measure one or several lines of the picture at a number of flows each.
var growthLines = []func(flows uint32) ([]point, error){kernelAt, mirrorAt, floodAt}

func kernelAt(flows uint32) ([]point, error) {
	plan, err := growthPlan(flows)
	if err != nil {
		return nil, err
	}
	over, _, err := kernel(plan, flows, rounds, 1_000_000)
	return []point{{"tricolor, kernel program over an empty one", over}}, err
}

func mirrorAt(flows uint32) ([]point, error) {
	plan, err := growthPlan(flows)
	if err != nil {
		return nil, err
	}
	f, err := mirror(plan, flows, rounds, 1_000_000)
	return []point{{"tricolor, Go mirror", f}}, err
}

// flowGrowth draws what a packet costs against the number of flows.
func flowGrowth(t *table) error {
	p := picture{
		title: "Cost of a packet by number of flows, at random", x: "flows (the last points are 2M and 4M)", y: "ns a packet",
		fromY: 20, toY: 5_000, // room for the legend
	}
	for _, measure := range growthLines {
		for _, flows := range growthFlows {
			points, err := measure(flows)
			if errors.Is(err, errLeftOut) || errors.Is(err, loader.ErrPrivilege) {
				fmt.Fprintln(os.Stderr, "bench: growth:", err)
				break
			}
			if err != nil {
				return fmt.Errorf("%d flows: %w", flows, err)
			}
			for _, point := range points {
				t.row(fmt.Sprintf("%s, flows: %s", point.line, short(float64(flows))), point.ns, "ns", "")
				if ns := point.ns.median(); ns > 0 { // the axis is a logarithm's
					p.curve(point.line).add(float64(flows), ns)
				}
			}
		}
	}
	return p.save("docs/img/growth-flows.png")
}

func growthSection(t *table) error {
	if err := os.MkdirAll("docs/img", 0o755); err != nil {
		return err
	}
	return errors.Join(replayGrowth(t), flowGrowth(t))
}
