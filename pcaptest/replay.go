package pcaptest

import (
	"context"
	"errors"
	"io"
	"math/bits"
	"slices"

	"github.com/tricolor-policer/tricolor/internal/capture"
	"github.com/tricolor-policer/tricolor/marker"
)

// Change is a change of policy in the middle of a capture: before the first record whose time stamp is not
// before At (ns), Plan takes over as of At.
type Change struct {
	At   uint64
	Plan *marker.Plan
}

// due returns the changes that a record's time brings, and those still to come.
func due(then []Change, now uint64) (due, later []Change) {
	n := 0
	for n < len(then) && then[n].At <= now {
		n++
	}
	return then[:n], then[n:]
}

// Step is one packet of a replay.
type Step struct {
	Packet  *capture.Packet // as captured; its Data is not marked
	Frame   *marker.Frame   // as it comes out, marked
	Seen    marker.Seen     // as it came in
	Outcome marker.Outcome
	Plan    *marker.Plan                  // the policy it met
	Bucket  *marker.Slot                  // Buckets[0]
	Buckets [marker.MaxChain]*marker.Slot // of each meter of its chain, afterwards; nil where there is none
}

// ReplayOptions say how a file is replayed.
type ReplayOptions struct {
	Plan     *marker.Plan
	Seeds    marker.Seeds
	Then     []Change           // changes of policy, by time
	Each     func(*Step) error  // called for each packet, if not nil; what it is given is valid until it returns
	Progress func(offset int64) // called now and then with the bytes of the file that were read, if not nil
}

// Replay is the outcome of one file run through the mirror.
type Replay struct {
	File        string
	Records     int64  // packets, or rows of a trace
	First, Last uint64 // earliest and latest time stamp, ns
	Backward    int64  // records whose time stamp is before the one before
	Behind      *Behind
	Stats       marker.Stats
	Applied     []Applied // changes of policy, as far as they took place
	Flows       []Flow    // busiest first, of all meters; none of a trace
	Forgotten   uint64    // buckets forgotten, since they were full
	// The table at the end, by chain position; zero for a trace.
	Stages [marker.MaxChain]StageUse

	previous uint64 // time stamp of the record before
}

// Applied is a change of policy that took place.
type Applied struct {
	Packet int64 // the first that met the new policy
	At     uint64
	Gone   []GoneClass // classes that it has not
}

// GoneClass is a class that a change of policy took away, and its counters until then.
type GoneClass struct {
	Name  string
	Stats marker.ClassStats
}

// Span is the time from the earliest to the latest record, in ns.
func (r *Replay) Span() uint64 { return r.Last - r.First }

// Behind is the first packet that was judged long before its bucket's time: the capture's clock had
// jumped ahead, and nothing is earned until it is there again.
type Behind struct {
	Packet int64
	By     uint64 // ns
}

// behindBound is how far behind its bucket a packet is worth a warning, in ns.
const behindBound = 1_000_000_000

// progressEvery is how many packets pass between two calls of Progress.
const progressEvery = 1 << 12

// ReplayCapture runs a capture through a mirror of its own. A cut capture is replayed up to the cut;
// then the cut's error is returned with the Replay.
func ReplayCapture(ctx context.Context, file string, o ReplayOptions) (*Replay, error) {
	r, err := capture.Open(file)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	m, free, err := marker.NewMappedMirror(o.Plan, o.Seeds)
	if err != nil {
		return nil, err
	}
	defer free()
	run := &replaying{Replay: &Replay{File: file}, reader: r, mirror: m, flows: newFlows(m), options: o}
	if o.Each != nil {
		err = run.steps(ctx)
	} else {
		err = newWorkers(ctx, run).run()
	}
	if err == nil || run.cut {
		run.Stats = *m.Stats()
		run.Flows, run.Forgotten = run.flows.list(&run.Stages), run.flows.forgotten
		if o.Progress != nil {
			o.Progress(r.Size())
		}
	}
	return run.Replay, err
}

// replaying is a replay that is under way.
type replaying struct {
	*Replay
	reader  *capture.Reader
	mirror  *marker.Mirror
	flows   *flows
	options ReplayOptions
	cut     bool // it was the capture that ended it before its end
}

// steps replays packet by packet, and has Each told of each.
func (r *replaying) steps(ctx context.Context) error {
	var (
		p    capture.Packet
		step Step
		data []byte
		then = r.options.Then
	)
	for {
		if err := r.reader.Next(&p); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			r.cut = true
			return err
		}
		r.stamp(p.Time)
		var changes []Change
		changes, then = due(then, p.Time)
		if err := r.changes(changes, p.Number); err != nil {
			return err
		}
		f := frameOf(&p, len(p.Data))
		// The mirror marks in place; the packet stays as it was captured.
		step = Step{Packet: &p, Frame: &f, Seen: marker.See(&f), Plan: r.mirror.Plan()}
		data = append(data[:0], f.Data...)
		f.Data = data
		step.Outcome = r.packet(&f, p.Number, p.Time, &step.Buckets)
		step.Bucket = step.Buckets[0]
		if err := r.options.Each(&step); err != nil {
			return err
		}
		if r.Records%progressEvery == 0 {
			if err := r.progress(ctx, r.reader.Offset()); err != nil {
				return err
			}
		}
	}
}

// load replays a load's packets: at once, unless one of them may be behind, which is seen only right after it.
func (r *replaying) load(l *load) {
	suspect := false
	for _, now := range l.Times {
		r.stamp(now)
		suspect = suspect || r.Last-now > behindBound // no bucket is ahead of the latest stamp
	}
	if !suspect || r.Behind != nil {
		r.mirror.Decide(&l.Batch)
		for i := range l.Outcomes {
			r.flows.touch(&l.Outcomes[i])
		}
		return
	}
	var buckets [marker.MaxChain]*marker.Slot
	l.Outcomes = l.Outcomes[:0]
	for i := range l.Frames {
		l.Outcomes = append(l.Outcomes, r.packet(&l.Frames[i], l.first+int64(i), l.Times[i], &buckets))
	}
}

// packet polices one packet, notes if it is behind, and sets buckets to those of its chain.
func (r *replaying) packet(f *marker.Frame, number int64, now uint64, buckets *[marker.MaxChain]*marker.Slot) marker.Outcome {
	out := r.mirror.Packet(f, now)
	r.flows.touch(&out)
	for i, slot := range out.Slots {
		if slot == marker.NoSet {
			break // a chain has no gaps
		}
		bucket := &r.mirror.Sets()[slot/marker.SetSlots][slot%marker.SetSlots]
		buckets[i] = bucket
		r.behind(number, now, bucket.Bucket.Last)
	}
	return out
}

// changes has changes of policy take place before a packet.
func (r *replaying) changes(changes []Change, packet int64) error {
	for _, c := range changes {
		if err := r.apply(r.mirror, c, packet); err != nil {
			return err
		}
	}
	return nil
}

// progress tells how far the file was read, and returns the context's error.
func (r *replaying) progress(ctx context.Context, offset int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if r.options.Progress != nil {
		r.options.Progress(offset)
	}
	return nil
}

// ReplayTrace runs a CSV trace through one bucket of the plan's first meter.
func ReplayTrace(ctx context.Context, file string, o ReplayOptions) (*Replay, error) {
	t, err := capture.OpenTrace(file)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	if err := o.Plan.Check(); err != nil {
		return nil, err
	}
	var (
		class   = &o.Plan.Classes[0]
		profile = &o.Plan.Profiles[class.Meters[0].Profile]
		slot    marker.Slot
		row     capture.TraceRow
		result  = &Replay{File: file, Stats: marker.Stats{Classes: make([]marker.ClassStats, len(o.Plan.Classes))}}
		stats   = &result.Stats.Classes[0]
		p       capture.Packet
		cut     error
	)
	for {
		if err := t.Next(&row); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			cut = err
			break
		}
		result.stamp(row.Time)
		if result.Records == 1 {
			profile.Init(&slot.Bucket, row.Time)
		}
		out := marker.Outcome{Arrival: marker.Color(row.Color), Cost: row.Bytes}
		out.Slots = marker.Unmetered(marker.Metered).Slots
		color, clockBack := profile.Judge(&slot.Bucket, row.Time, row.Bytes*marker.Nano, out.Arrival)
		if clockBack {
			stats.ClockBack++
		}
		out.Color = color
		out.Dropped = class.Actions[out.Color].Verbs&marker.VerbDrop != 0
		slot.Packets[out.Color]++
		slot.Bytes[out.Color] += row.Bytes
		result.behind(result.Records, row.Time, slot.Bucket.Last)
		if o.Each != nil {
			p = capture.Packet{Number: result.Records, Time: row.Time}
			step := Step{Packet: &p, Outcome: out, Plan: o.Plan, Bucket: &slot}
			step.Buckets[0] = &slot
			if err := o.Each(&step); err != nil {
				return result, err
			}
		}
		if result.Records%progressEvery == 0 {
			if err := ctx.Err(); err != nil {
				return result, err
			}
			if o.Progress != nil {
				o.Progress(t.Offset())
			}
		}
	}
	stats.Packets, stats.Bytes = slot.Packets, slot.Bytes
	if o.Progress != nil {
		o.Progress(t.Size())
	}
	return result, cut
}

// apply changes the policy before a packet, and keeps the counters of classes that go.
func (r *Replay) apply(m *marker.Mirror, c Change, packet int64) error {
	before, stats := m.Plan(), m.Stats()
	if err := m.Apply(c.Plan, c.At, 0); err != nil {
		return err
	}
	applied := Applied{Packet: packet, At: c.At}
	for i := range before.Classes {
		name := before.Classes[i].Name
		if !slices.ContainsFunc(c.Plan.Classes, func(kept marker.Class) bool { return kept.Name == name }) {
			applied.Gone = append(applied.Gone, GoneClass{name, stats.Classes[i]})
		}
	}
	r.Applied = append(r.Applied, applied)
	return nil
}

// stamp notes a record and its time.
func (r *Replay) stamp(now uint64) {
	r.Records++
	if r.Records == 1 {
		r.First, r.Last = now, now
		r.previous = now
		return
	}
	if now < r.previous {
		r.Backward++
	}
	r.previous = now
	r.First, r.Last = min(r.First, now), max(r.Last, now)
}

// behind notes the first packet that is long before its bucket's last.
func (r *Replay) behind(number int64, now, last uint64) {
	if r.Behind == nil && last > now && last-now > behindBound {
		r.Behind = &Behind{number, last - now}
	}
}

// ErrTrace is what running a trace where packets are needed wraps.
var ErrTrace = errors.New("a CSV trace holds no packets")

// MeanRate is bytes over the span, in bytes per second; 0 where there is no span.
func (r *Replay) MeanRate(bytes uint64) uint64 {
	span := r.Span()
	if span == 0 {
		return 0
	}
	return mulDiv(bytes, marker.Nano, span)
}

// mulDiv is a × b / c with a product of 128 bits; at most the largest uint64.
func mulDiv(a, b, c uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	if hi >= c {
		return ^uint64(0)
	}
	q, _ := bits.Div64(hi, lo, c)
	return q
}
