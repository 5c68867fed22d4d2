package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/tricolor-policer/tricolor/internal/plot"
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
	return []point{{"ours: kernel program", over}}, err
}

func mirrorAt(flows uint32) ([]point, error) {
	plan, err := growthPlan(flows)
	if err != nil {
		return nil, err
	}
	f, err := mirror(plan, flows, rounds, 1_000_000)
	return []point{{"ours: Go mirror", f}}, err
}

// flowGrowth draws what a packet costs against the number of flows.
func flowGrowth(t *table) error {
	var costs lines
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
				t.row(fmt.Sprintf("%s, %d flows", point.line, flows), point.ns, "ns", "")
				costs.add(point.line, float64(flows), point.ns.median()*1e-9)
			}
		}
	}
	return draw("growth-flows", &plot.Figure{
		Title:    "What a packet costs as flows grow",
		Subtitle: "each packet is of a flow at random, 1 to 4 million; medians of " + strconv.Itoa(rounds) + " rounds",
		X:        plot.Axis{Label: "flows", Unit: plot.Count, Log: true},
		Panels:   []plot.Panel{{Y: plot.Axis{Label: "time a packet", Unit: plot.Seconds, Log: true}, Series: costs}},
		Notes: []string{
			"kernel program: over an empty one, in test runs; in a flood: over a flood through no policer; Go mirror: all of it, in batches",
			"hashlimit holds no more than a million flows",
		},
	})
}

func growthSection(t *table) error {
	return errors.Join(replayGrowth(t), flowGrowth(t))
}

// lines are the lines of one panel.
type lines []plot.Series

// add appends a point to the line of that name, a new one where there is none.
func (l *lines) add(name string, x, y float64) {
	i := slices.IndexFunc(*l, func(s plot.Series) bool { return s.Name == name })
	if i < 0 {
		i = len(*l)
		*l = append(*l, plot.Series{Name: name})
	}
	s := &(*l)[i]
	s.Points = append(s.Points, plot.Point{X: x, Y: y})
}

// draw writes a figure to docs/img.
func draw(name string, f *plot.Figure) error {
	const dir = "docs/img"
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := f.Write(&b, plot.PNG); err != nil {
		return fmt.Errorf("draw %s: %w", name, err)
	}
	return os.WriteFile(filepath.Join(dir, name+".png"), b.Bytes(), 0o644)
}
