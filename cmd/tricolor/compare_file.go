package main

import (
	"context"
	"fmt"

	"github.com/tricolor-policer/tricolor/contract"
	"github.com/tricolor-policer/tricolor/internal/capture"
	"github.com/tricolor-policer/tricolor/internal/units"
	"github.com/tricolor-policer/tricolor/marker"
	"github.com/tricolor-policer/tricolor/pcaptest"
	"github.com/tricolor-policer/tricolor/policy"
)

// oneKey is the key where all arrivals share one.
var oneKey marker.Key

// runFile compares one file. The policer itself reads it: its token meter under the same contract, so that
// a packet's cost and key are what they would be on an interface. With a cut capture it returns both what came
// before the cut, and the cut.
func (c *comparer) runFile(ctx context.Context, file string) (*compared, error) {
	plan, err := c.plan()
	if err != nil {
		return nil, err
	}
	kind, err := capture.Sniff(file)
	if err != nil {
		return nil, err
	}
	replay := pcaptest.ReplayCapture
	if kind == capture.KindTrace {
		if c.per != "whole" {
			return nil, usage("%s: is a CSV trace, which has one key: leave out --per", printable(file))
		}
		replay = pcaptest.ReplayTrace
	}
	run := &compared{file: file}
	if err := c.begin(run); err != nil {
		return nil, err
	}
	bar := newProgress(c.stderr, file)
	result, err := replay(ctx, file, pcaptest.ReplayOptions{
		Plan: plan, Seeds: marker.SeedsFrom(defaultSeed), Progress: bar.at,
		Each: func(s *pcaptest.Step) error {
			if s.Outcome.Kind != marker.Metered {
				return nil
			}
			cost := s.Outcome.Cost
			if c.terms.packets {
				cost = 1 // of a trace: a row
			}
			run.arrive(s.Bucket.Key, contract.Arrival{Time: s.Packet.Time, Cost: cost})
			return nil
		},
	})
	bar.close()
	if err != nil && (result == nil || result.Records == 0 || ctx.Err() != nil) {
		return nil, err
	}
	for _, line := range clockWarnings(result) {
		warn(c.stderr, "%s: %s", printable(file), line)
	}
	if n := result.Stats.Classes[0].Overflow; n > 0 {
		warn(c.stderr, "%s: %s shared a key with others, since there are more keys than were told apart: say --flows, twice as many as there are keys",
			printable(file), plural(n, "packet", "packets"))
	}
	run.first, run.last, run.remarks = result.First, result.Last, remarks(plan, &result.Stats)
	return run, err
}

// plan is the policer's own: a token meter of the same rate and burst.
func (c *comparer) plan() (*marker.Plan, error) {
	words := policy.Words{Meter: "token", CIR: units.FormatRate(c.terms.Rate, c.terms.packets), Per: c.per, Flows: c.flows}
	if words.Per == "whole" {
		words.Per = "class"
	}
	words.CBS = fmt.Sprintf("%dB", c.terms.Burst)
	if c.terms.packets {
		words.CBS, words.Count = fmt.Sprintf("%dpkt", c.terms.Burst), "packets"
	}
	p, err := words.Policy()
	if err != nil {
		return nil, err
	}
	return p.Compile()
}
