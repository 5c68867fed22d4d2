package loader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/tricolor-policer/tricolor/maps"
	"github.com/tricolor-policer/tricolor/marker"
	"github.com/tricolor-policer/tricolor/record"
)

// RecordOptions say what is recorded.
type RecordOptions struct {
	Version string // of tricolor
	Sample  uint32 // one decision in so many, of each CPU; 0 and 1: all
	Most    uint64 // records; 0: any number
	Ring    int    // bytes between kernel and reader, for each CPU; 0: 16 MiB
}

const (
	// settleFor is how long a decision may take from its clock read to the ring: a CPU may be taken away from its
	// virtual machine meanwhile. The CPUs' decisions are merged once that has passed.
	settleFor = 200 * time.Millisecond
	// mostPending bounds the decisions that wait to be merged. Where there are more, half are written as they are.
	mostPending = 1 << 19
	lookEvery   = 250 * time.Millisecond // after what may end the recording
)

// Record writes the decisions of an attachment to a file, until ctx is done, o.Most are written, or another
// program takes the place of this one. It must run on a thread in the attachment's network namespace. started is
// called once everything that is decided from then on is recorded, or counted as lost. Returns how it came out, and Watch's errors.
func (a *Attachment) Record(ctx context.Context, out io.Writer, o RecordOptions, started func()) (record.End, error) {
	var end record.End
	w, err := a.Watch(WatchOptions{Sample: o.Sample, Ring: o.Ring})
	if err != nil {
		return end, err
	}
	end, err = a.record(ctx, w, out, o, started)
	return end, errors.Join(err, w.Close())
}

func (a *Attachment) record(ctx context.Context, w *Watch, out io.Writer, o RecordOptions, started func()) (end record.End, err error) {
	now, err := Now()
	if err != nil {
		return end, err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return end, fmt.Errorf("read this boot's number: %w", err)
	}
	file, err := record.NewWriter(out, &record.Header{
		Device: a.Device, Direction: a.Direction().String(), Version: o.Version, Boot: strings.TrimSpace(string(boot)),
		Start: now, Unix: time.Now().UnixNano(), Sample: max(o.Sample, 1),
	})
	if err != nil {
		return end, err
	}
	r := &recorder{a: a, watch: w, file: file, keys: map[keyOf]uint32{}, plans: map[uint32]*numbered{}}
	if err := r.look(); err != nil {
		return end, err
	}
	started()
	end.Reason, err = r.run(ctx, o.Most)
	if err != nil {
		return end, err
	}
	stats, err := w.Stats()
	if err != nil {
		return end, err
	}
	end.Lost, end.LeftOut = stats.Lost+r.unknown, stats.LeftOut
	if end.Time, err = Now(); err != nil {
		return end, err
	}
	return file.End(end)
}

// recorder is a recording.
type recorder struct {
	a       *Attachment
	watch   *Watch
	file    *record.Writer
	pending []queue // by CPU
	waiting int     // decisions in all of them
	read    maps.Decision
	whole   uint64 // ns: when the rings were empty the last time
	plans   map[uint32]*numbered
	since   uint64 // ns: when the newest of them took over; in the file they stand by that
	parity  uint32 // of the policy that was in force when it was last looked at
	keys    map[keyOf]uint32
	lost    uint64 // as was noted in the file
	unknown uint64 // decisions by a policy that was gone before it could be read
	record  record.Record
}

// numbered is a plan and its number in the file.
type numbered struct {
	*marker.Plan
	number uint32
}

// keyOf is what makes a key of the file: a bucket's, or the overflow bucket of a profile.
type keyOf struct {
	key      marker.Key
	overflow uint32 // 1 + profile; 0: none
}

// Why a recording ended.
const (
	endAsked    = "it was asked to end"
	endMost     = "as many as were asked for are written"
	endReplaced = "another program polices in its place, or none: it was upgraded or detached"
	endUntold   = "the program told no more: a CPU came that had no ring"
)

func (r *recorder) run(ctx context.Context, most uint64) (reason string, err error) {
	var written uint64
	looked := time.Now()
	for {
		err := r.watch.Read(&r.read)
		switch {
		case err == nil:
			if err := r.take(); err != nil {
				return "", err
			}
			if written++; reason == "" && written == most {
				reason = endMost
			}
		case errors.Is(err, io.EOF):
			return reason, r.write(^uint64(0), 0)
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return "", err
		default:
			if err := r.idle(); err != nil {
				return "", err
			}
		}
		if reason == "" && (ctx.Err() != nil || time.Since(looked) > lookEvery) {
			looked = time.Now()
			if reason, err = r.over(ctx); err != nil {
				return "", err
			}
		}
		if reason != "" {
			if err := r.watch.Stop(); err != nil {
				return "", err
			}
		}
	}
}

// queue are decisions of one CPU, by time.
type queue struct {
	all  []maps.Decision
	next int // the first that was not written
}

// take has the decision that was read wait for its turn.
func (r *recorder) take() error {
	// Its policy may be gone when it is written.
	if _, err := r.plan(r.read.Generation); err != nil {
		return err
	}
	if n := r.read.CPU + 1; n > len(r.pending) {
		r.pending = append(r.pending, make([]queue, n-len(r.pending))...)
	}
	q := &r.pending[r.read.CPU]
	q.all = append(q.all, r.read)
	if r.waiting++; r.waiting >= mostPending {
		return r.write(^uint64(0), mostPending/2)
	}
	return nil
}

// over returns why the recording is over, or nothing.
func (r *recorder) over(ctx context.Context) (string, error) {
	select {
	case <-ctx.Done():
		return endAsked, nil
	default:
	}
	if polices, err := r.a.Polices(); err != nil || !polices {
		return endReplaced, err
	}
	told, err := r.watch.Told()
	if err != nil || told {
		return "", err
	}
	return endUntold, nil
}

// idle does what is to be done when the rings are empty.
func (r *recorder) idle() error {
	stats, err := r.watch.Stats()
	if err != nil {
		return err
	}
	now, err := Now()
	if err != nil {
		return err
	}
	if lost := stats.Lost + r.unknown; lost > r.lost {
		r.lost = lost
		if err := r.file.Lost(now, lost); err != nil {
			return err
		}
	}
	if err := r.look(); err != nil {
		return err
	}
	// What was decided before the rings were last empty is here, unless it was on its way.
	before := r.whole - min(r.whole, uint64(settleFor))
	r.whole = now
	return r.write(before, 0)
}

// look notes the policy in force, where that is another than before.
func (r *recorder) look() error {
	parity, _, err := r.a.Maps.InForce()
	if err != nil || parity == r.parity && len(r.plans) > 0 {
		return err
	}
	now, err := Now()
	if err != nil {
		return err
	}
	plan, _, err := InForce(r.a.Maps, now)
	if err != nil {
		return err
	}
	r.parity = parity
	_, err = r.plan(plan.Generation)
	return err
}

// plan is the policy of a generation, which is written when it is first met; nil where it is gone.
func (r *recorder) plan(generation uint32) (*numbered, error) {
	if p, ok := r.plans[generation]; ok {
		return p, nil
	}
	plan, err := r.a.PlanOf(generation)
	if err != nil {
		return nil, err
	}
	if plan == nil || plan.Since < r.since {
		r.plans[generation] = nil
		return nil, nil
	}
	r.since = plan.Since
	p := &numbered{Plan: plan}
	if p.number, err = r.file.Policy(RecordPolicy(plan)); err != nil {
		return nil, err
	}
	r.plans[generation] = p
	return p, nil
}

// write writes those that wait and are before a time, in order, until no more than some are left.
func (r *recorder) write(before uint64, leave int) error {
	for r.waiting > leave {
		var first *queue
		for i := range r.pending {
			q := &r.pending[i]
			if q.next < len(q.all) && (first == nil || q.all[q.next].Now < first.all[first.next].Now) {
				first = q
			}
		}
		if first.all[first.next].Now >= before {
			break
		}
		if err := r.one(&first.all[first.next]); err != nil {
			return err
		}
		first.next++
		r.waiting--
	}
	for i := range r.pending {
		q := &r.pending[i]
		q.all, q.next = append(q.all[:0], q.all[q.next:]...), 0
	}
	return r.file.Flush()
}

// one writes a decision.
func (r *recorder) one(d *maps.Decision) error {
	plan, err := r.plan(d.Generation)
	if err != nil {
		return err
	}
	if plan == nil || !d.Fits(plan.Plan) {
		r.unknown++
		return nil
	}
	out := &r.record
	*out = record.Record{
		Time: d.Now, Policy: plan.number, Class: d.Class, Cost: d.Cost, Packets: d.Packets,
		Arrival: record.Color(d.Arrival), Color: record.Color(d.Color), Chain: d.Chain,
	}
	for i := range d.Chain {
		j := &d.Judged[i]
		by := plan
		if j.Generation != d.Generation {
			if by, err = r.plan(j.Generation); err != nil {
				return err
			}
		}
		if by == nil || int(j.Profile) >= len(by.Profiles) {
			r.unknown++
			return nil
		}
		meter := &plan.Classes[d.Class].Meters[i]
		m := &out.Meters[i]
		*m = record.Meter{
			Overflow: j.Overflow, Color: record.Color(j.Color), Time: max(j.Bucket.Last, d.Now), Policy: by.number, Profile: j.Profile,
			C: j.Bucket.Tc, X: j.Bucket.Tx,
		}
		if m.Key, err = r.key(plan, d, meter, keyOf{key: d.Key(meter)}); err != nil {
			return err
		}
		if m.Overflow {
			if m.Shared, err = r.key(plan, d, meter, keyOf{marker.Key{4: meter.ID[0]}, 1 + j.Profile}); err != nil {
				return err
			}
		}
	}
	return r.file.Record(out)
}

// key is a key's number in the file.
func (r *recorder) key(plan *numbered, d *maps.Decision, m *marker.Meter, k keyOf) (uint32, error) {
	if n, ok := r.keys[k]; ok {
		return n, nil
	}
	n, err := r.file.Key(KeyName(plan.Plan, int(d.Class), m, k.key, k.overflow))
	r.keys[k] = n
	return n, err
}
