package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/tricolor-policer/tricolor/fit"
	"github.com/tricolor-policer/tricolor/internal/capture"
	"github.com/tricolor-policer/tricolor/marker"
	"github.com/tricolor-policer/tricolor/pcaptest"
	"github.com/tricolor-policer/tricolor/policy"
)

// study is the files to fit, and how their packets are told apart: by a plan whose meters spend nothing.
type study struct {
	files   []studyFile
	plan    *marker.Plan
	names   *bucketNames
	targets []*target
	only    int // of targets; -1: all
	stderr  io.Writer
	failed  bool // a file is damaged, and what came before was taken
}

const studySlots = 1 << 16

type studyFile struct {
	path    string
	kind    capture.Kind
	records uint64
	span    uint64 // ns
}

// target is one class: what it gets a rate and a burst for.
type target struct {
	class         *marker.Class
	per           string // who shares a bucket, as a policy says it
	packets, cost uint64
	span          uint64 // ns, of all files
	keys          map[marker.Key]*fitKey
	rates         []uint64
	curve         *fit.Curve
	shown         []*fitKey // the busiest, each with a curve of its own

	points  []fit.Point // as far as more rate saves burst
	knee    int         // in points
	chosen  fit.Point
	burst   uint64   // with which no more is red than is allowed
	allowed uint64   // packets or bytes that may be red
	lost    fit.Loss // with burst
	needs   []fit.Need
	cbs     uint64
}

// fitKey is what one key sent.
type fitKey struct {
	key           marker.Key
	packets, cost uint64
	curve         *fit.Curve // nil: not shown
	bucket        fit.Bucket // of the file at hand, for curve
	shared        fit.Bucket // the same for the target's curve
	trial         fit.Trial
}

func (t *target) countsPackets() bool { return t.class.Count == marker.CountPackets }

func (t *target) rateHelp() string {
	if t.countsPackets() {
		return "say a rate in pps, such as 100pps"
	}
	return "say a rate in bits or bytes per second, such as 10mbit"
}

// busiest are the keys that sent most.
func (t *target) busiest(n int) []*fitKey {
	keys := slices.SortedFunc(maps.Values(t.keys), func(a, b *fitKey) int {
		return cmp.Or(cmp.Compare(b.cost, a.cost), cmp.Compare(b.packets, a.packets), bytes.Compare(a.key.Bytes()[:], b.key.Bytes()[:]))
	})
	return keys[:min(n, len(keys))]
}

// meanRate is cost a second over ns; at most what a meter takes.
func meanRate(cost, ns uint64) uint64 {
	return min((&pcaptest.Replay{Last: ns}).MeanRate(cost), marker.MaxRate)
}

// newStudy makes the plan that tells packets apart.
func (f *fitter) newStudy() (*study, error) {
	words := policy.Words{Meter: "token", CIR: "1B/s", CBS: "1B", Per: cmp.Or(f.per, "class"), Count: f.count, Overhead: f.overhead}
	if f.count == marker.CountPackets.String() {
		words.CIR, words.CBS = "1pps", "1pkt"
	}
	p, err := words.Policy()
	if err != nil {
		return nil, err
	}
	meter := p.Classes[0].Meters[0]
	if meter.Per == marker.PerInterface {
		return nil, usage("--per interface: one bucket for all is --per class")
	}
	if f.policy != "" {
		if p, err = policy.Load(f.policy); err != nil {
			return nil, err
		}
		if _, err := p.Compile(); err != nil {
			return nil, err
		}
	}
	// Every packet arrives red, and red spends nothing: each bucket is full at any time, and may be forgotten for
	// another. So no key is ever without a slot, in a table of any size.
	p.Flows = studySlots
	params := marker.Params{Meter: marker.Token, Aware: true, CIR: marker.MaxRate, CBS: 1}
	p.Profiles = []policy.Profile{{Name: "bytes", Params: params}, {Name: "packets", Params: params, Packets: true}}
	for i := range p.Classes {
		c := &p.Classes[i]
		m := meter
		if m.Profile = "bytes"; c.Count == marker.CountPackets {
			m.Profile = "packets"
		}
		if own := c.Meters; f.policy != "" && f.per == "" && len(own) > 0 && own[0].Per != marker.PerInterface {
			m.Per, m.Prefix = own[0].Per, own[0].Prefix
		}
		c.Meters, c.Arrival = []policy.Meter{m}, [2]uint64{1: ^uint64(0)}
		c.Match.SrcSet, c.Match.DstSet = withoutProfiles(c.Match.SrcSet), withoutProfiles(c.Match.DstSet)
	}
	s := &study{only: -1, stderr: f.stderr}
	if s.plan, err = p.Compile(); err != nil {
		return nil, fmt.Errorf("--per %s: %w", cmp.Or(f.per, "class"), err)
	}
	s.names = newBucketNames(s.plan)
	for i := range s.plan.Classes {
		c := &s.plan.Classes[i]
		s.targets = append(s.targets, &target{class: c, per: policy.PerWord(&c.Meters[0]), keys: map[marker.Key]*fitKey{}})
		if c.Name == f.class {
			s.only = i
		}
	}
	if f.class != "" && s.only < 0 {
		return nil, usage("--class: %s has no class %q", f.policy, f.class)
	}
	for _, file := range f.files {
		kind, err := capture.Sniff(file)
		if err != nil {
			return nil, err
		}
		if kind == capture.KindTrace && (f.policy != "" || cmp.Or(f.per, "class") != "class") {
			return nil, fmt.Errorf("%s: %w: its rows have no class and no key; leave out -f and --per", file, pcaptest.ErrTrace)
		}
		s.files = append(s.files, studyFile{path: file, kind: kind})
	}
	return s, nil
}

// withoutProfiles is a set whose lines bring no profiles.
func withoutProfiles(s *policy.Set) *policy.Set {
	if s == nil {
		return nil
	}
	out := &policy.Set{Name: s.Name, Entries: slices.Clone(s.Entries)}
	for i := range out.Entries {
		out.Entries[i].Profile = ""
	}
	return out
}

// pass runs all files, and tells of each packet of a class that is fitted: whose it is, when, and its cost. begin is
// called before each file, where buckets begin anew.
func (s *study) pass(ctx context.Context, begin func(), each func(t *target, k *fitKey, now, cost uint64)) error {
	for i := range s.files {
		file := &s.files[i]
		begin()
		replay := pcaptest.ReplayCapture
		if file.kind == capture.KindTrace {
			replay = pcaptest.ReplayTrace
		}
		bar := newProgress(s.stderr, file.path)
		result, err := replay(ctx, file.path, pcaptest.ReplayOptions{
			Plan: s.plan, Seeds: marker.SeedsFrom(defaultSeed), Progress: bar.at,
			Each: func(step *pcaptest.Step) error {
				out := &step.Outcome
				class := int(out.Class)
				if out.Kind != marker.Metered || s.only >= 0 && s.only != class {
					return nil
				}
				t := s.targets[class]
				k := t.keys[step.Bucket.Key]
				if k == nil {
					k = &fitKey{key: step.Bucket.Key}
					t.keys[k.key] = k
				}
				each(t, k, step.Packet.Time, out.Cost)
				return nil
			},
		})
		bar.close()
		if err != nil && (result == nil || result.Records == 0 || ctx.Err() != nil) {
			return err
		}
		if err != nil && file.records == 0 {
			say(s.stderr, oneLined(err.Error(), nil))
			s.failed = true
		}
		if file.records == 0 {
			for _, line := range clockWarnings(result) {
				warn(s.stderr, "%s: %s", printable(file.path), line)
			}
		}
		file.records, file.span = uint64(result.Records), result.Span()
	}
	return nil
}

// survey counts what each class and key sent.
func (s *study) survey(ctx context.Context) error {
	err := s.pass(ctx, func() {}, func(t *target, k *fitKey, _, cost uint64) {
		t.packets++
		t.cost += cost
		k.packets++
		k.cost += cost
	})
	for _, t := range s.targets {
		for i := range s.files {
			t.span += s.files[i].span
		}
	}
	return err
}

// measure makes all curves, in one pass.
func (s *study) measure(ctx context.Context) error {
	for _, t := range s.targets {
		t.curve = fit.NewCurve(t.rates)
		for _, k := range t.shown {
			k.curve = fit.NewCurve(t.rates)
		}
	}
	begin := func() {
		for _, t := range s.targets {
			for _, k := range t.keys {
				k.bucket, k.shared = fit.Bucket{}, fit.Bucket{}
			}
		}
	}
	err := s.pass(ctx, begin, func(t *target, k *fitKey, now, cost uint64) {
		t.curve.Add(&k.shared, now, cost)
		if k.curve != nil {
			k.curve.Add(&k.bucket, now, cost)
		}
	})
	begin() // the buckets are of no more use
	return err
}

// try runs the token meter with some bursts at a target's rate.
func (s *study) try(ctx context.Context, of *target, bursts []uint64) (*fit.Trials, error) {
	trials, err := fit.NewTrials(of.chosen.Rate, bursts)
	if err != nil {
		return nil, err
	}
	begin := func() {
		for _, k := range of.keys {
			k.trial = fit.Trial{}
		}
	}
	err = s.pass(ctx, begin, func(t *target, k *fitKey, now, cost uint64) {
		if t == of {
			trials.Add(&k.trial, now, cost)
		}
	})
	return trials, err
}
