package pcaptest

import (
	"context"
	"io"

	"github.com/tricolor-policer/tricolor/internal/capture"
	"github.com/tricolor-policer/tricolor/loader"
	"github.com/tricolor-policer/tricolor/marker"
	recfile "github.com/tricolor-policer/tricolor/record"
)

// Decisions are what the mirror decides of a capture's packets, in the terms of a record.
type Decisions struct {
	Policies []recfile.Policy // met so far
	Keys     []string         // names of the buckets met so far, by their numbers
	keys     map[decidedKey]uint32
	plans    []*marker.Plan // as Policies
}

type decidedKey struct {
	key      marker.Key
	overflow uint32 // 1 + profile; 0: none
}

// Run replays a capture as ReplayCapture does, and calls add with each decision of a packet that met a class. It
// ends with add's first error, or one of the capture's.
func (d *Decisions) Run(ctx context.Context, file string, o ExplainOptions, add func(*recfile.Record) error) error {
	r, err := capture.Open(file)
	if err != nil {
		return err
	}
	defer r.Close()
	m, err := marker.NewMirror(o.Plan, o.Seeds)
	if err != nil {
		return err
	}
	d.keys = map[decidedKey]uint32{}
	before := Replay{File: file}
	for {
		var p capture.Packet
		switch err := r.Next(&p); {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		before.stamp(p.Time)
		var changes []Change
		for changes, o.Then = due(o.Then, p.Time); len(changes) > 0; changes = changes[1:] {
			if err := before.apply(m, changes[0], p.Number); err != nil {
				return err
			}
		}
		f := frameOf(&p, len(p.Data))
		if x := m.Explain(&f, p.Time); x.Outcome.Kind == marker.Metered {
			if err := add(d.record(x)); err != nil {
				return err
			}
		}
		if before.Records%progressEvery == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			if o.Progress != nil {
				o.Progress(r.Offset())
			}
		}
	}
}

func (d *Decisions) record(x *marker.Explanation) *recfile.Record {
	if n := len(d.plans); n == 0 || d.plans[n-1] != x.Plan {
		d.plans = append(d.plans, x.Plan)
		d.Policies = append(d.Policies, *loader.RecordPolicy(x.Plan))
	}
	o := &x.Outcome
	out := &recfile.Record{
		Time: x.Now, Policy: uint32(len(d.plans) - 1), Class: o.Class, Cost: o.Cost, Packets: x.Charge.Segments,
		Arrival: recfile.Color(o.Arrival), Color: recfile.Color(o.Color), Chain: len(x.Chain),
	}
	for i := range x.Chain {
		j := &x.Chain[i]
		profile := j.Meter.Profile
		for p := range x.Plan.Profiles { // a prefix's line may have brought another
			if j.FromLine && x.Plan.Profiles[p] == j.Profile {
				profile = uint32(p)
			}
		}
		out.Meters[i] = recfile.Meter{
			Key: d.key(x, j, decidedKey{key: j.Key.Key()}), Overflow: j.Found == marker.FoundOverflow, Color: recfile.Color(j.Color),
			Time: max(j.After.Last, x.Now), Policy: out.Policy, Profile: profile, C: j.After.Tc, X: j.After.Tx,
		}
		if out.Meters[i].Overflow {
			out.Meters[i].Shared = d.key(x, j, decidedKey{marker.Key{4: j.Meter.ID[0]}, 1 + profile})
		}
	}
	return out
}

func (d *Decisions) key(x *marker.Explanation, j *marker.Judgement, k decidedKey) uint32 {
	n, ok := d.keys[k]
	if !ok {
		n = uint32(len(d.Keys))
		d.keys[k] = n
		d.Keys = append(d.Keys, loader.KeyName(x.Plan, int(x.Outcome.Class), j.Meter, k.key, k.overflow))
	}
	return n
}
