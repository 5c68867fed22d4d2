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

// contender is one line of the picture: ns a packet at so many flows.
type contender struct {
	name string
	ns   func(flows uint32) (figure, error)
}

var contenders = []contender{
	{"tricolor, kernel program, over an empty one", func(flows uint32) (figure, error) {
		plan, err := growthPlan(flows)
		if err != nil {
			return nil, err
		}
		over, _, err := kernel(plan, flows, rounds, 1_000_000)
		return over, err
	}},
	{"tricolor, Go mirror", func(flows uint32) (figure, error) {
		plan, err := growthPlan(flows)
		if err != nil {
			return nil, err
		}
		return mirror(plan, flows, rounds, 1_000_000)
	}},
}

func flowGrowth(t *table) error {
	p := picture{
		title: "Cost of a packet by number of flows, at random", x: "flows", y: "ns a packet",
		fromY: 10, toY: 5_000, // room for the legend
	}
	for _, c := range contenders {
		line := curve{name: c.name}
		for _, flows := range growthFlows {
			f, err := c.ns(flows)
			if errors.Is(err, errLeftOut) || errors.Is(err, loader.ErrPrivilege) {
				fmt.Fprintf(os.Stderr, "bench: growth: %s: %v\n", c.name, err)
				break
			}
			if err != nil {
				return fmt.Errorf("%s, %d flows: %w", c.name, flows, err)
			}
			t.row(fmt.Sprintf("%s, %s flows", c.name, short(float64(flows))), f, "ns", "")
			line.add(float64(flows), f.median())
		}
		if len(line.points) > 0 {
			p.curves = append(p.curves, line)
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
