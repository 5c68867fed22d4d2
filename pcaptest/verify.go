package pcaptest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tricolor-policer/tricolor/internal/capture"
	"github.com/tricolor-policer/tricolor/marker"
)

// Verification is the outcome of one file run through both sides.
type Verification struct {
	File        string
	Compared    int64 // packets
	Skipped     int64 // packets that were not compared: always 0
	Differences int64 // 0, or 1: it ends at the first
	Buckets     int   // in use at the end, all compared
	Stats       marker.Stats
	First       *Difference
}

// Difference is where the two sides first gave different answers.
type Difference struct {
	Packet int64 // from 1; 0: found at the end, of no packet in particular
	Time   uint64
	Flow   string
	Fields []Field
	// The packet's bucket. Before, both sides had the same.
	Before        marker.Slot
	Mirror        marker.Slot
	Kernel        marker.Slot
	BucketIsKnown bool
}

// Field is something of which the sides say different things.
type Field struct {
	Name           string
	Mirror, Kernel string
}

// VerifyOptions say what is verified.
type VerifyOptions struct {
	File           string // its name, for errors
	Plan           *marker.Plan
	Mirror, Kernel Side
	Then           []Change           // changes of policy, by time
	Progress       func(offset int64) // called now and then with the bytes of the file that were read, if not nil
}

// verifier compares two sides packet by packet.
type verifier struct {
	mirror, kernel Side
	plan           *marker.Plan
	shadow         map[uint32]*marker.Set // each set as it was last compared
	fields         []Field
	mirrorData     []byte
	kernelData     []byte
}

// Verify runs a capture through both sides and compares, for each packet, class, cost, colours, verdict,
// every byte of the frame, its set of buckets and all counters; and at the end all buckets and counters
// once more. It ends at the first difference. A cut capture is compared up to the cut; then the cut's
// error is returned with the Verification. The sides stay the caller's.
func Verify(ctx context.Context, r *capture.Reader, o VerifyOptions) (*Verification, error) {
	v := newVerifier(o.Plan, o.Mirror, o.Kernel)
	result := &Verification{File: o.File}
	then := o.Then
	var p capture.Packet
	var cut error
	for {
		if err := ctx.Err(); err != nil {
			return result, err
		}
		if err := r.Next(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			cut = err
			break
		}
		var changes []Change
		for changes, then = due(then, p.Time); len(changes) > 0; changes = changes[1:] {
			if err := v.apply(changes[0], 0); err != nil {
				return result, fmt.Errorf("%s: change of policy before packet %d: %w", o.File, p.Number, err)
			}
		}
		d, err := v.packet(FrameOf(&p), p.Number, p.Time)
		if err != nil {
			return result, fmt.Errorf("%s: packet %d: %w", o.File, p.Number, err)
		}
		result.Compared++
		if d != nil {
			result.Differences, result.First = 1, d
			return result, cut
		}
		if o.Progress != nil {
			o.Progress(r.Offset())
		}
	}
	d, buckets, err := v.end()
	if err != nil {
		return result, fmt.Errorf("%s: %w", o.File, err)
	}
	if d != nil {
		result.Differences, result.First = 1, d
	}
	result.Buckets = buckets
	result.Stats, err = o.Mirror.Stats()
	return result, errors.Join(err, cut)
}

// apply changes the policy on both sides, until deadline (ns; 0: for good). Each gets a plan of its own: Apply
// numbers it.
func (v *verifier) apply(c Change, deadline uint64) error {
	mirrors, kernels := *c.Plan, *c.Plan
	if err := v.mirror.Apply(&mirrors, c.At, deadline); err != nil {
		return fmt.Errorf("mirror: %w", err)
	}
	if err := v.kernel.Apply(&kernels, c.At, deadline); err != nil {
		return fmt.Errorf("kernel: %w", err)
	}
	v.plan = &mirrors
	for index, before := range v.shadow { // settled since
		if err := v.mirror.Set(index, before); err != nil {
			return err
		}
		before[0].Lock = 0
	}
	return nil
}

func newVerifier(plan *marker.Plan, mirror, kernel Side) *verifier {
	return &verifier{mirror: mirror, kernel: kernel, plan: plan, shadow: map[uint32]*marker.Set{}}
}

// packet has both sides police a frame, and compares. The frame's bytes stay as they are.
func (v *verifier) packet(f marker.Frame, number int64, now uint64) (*Difference, error) {
	v.mirrorData = append(v.mirrorData[:0], f.Data...)
	v.kernelData = append(v.kernelData[:0], f.Data...)
	mirrorFrame, kernelFrame := f, f
	mirrorFrame.Data, kernelFrame.Data = v.mirrorData, v.kernelData

	got, err := v.kernel.Packet(&kernelFrame, now)
	if err != nil {
		return nil, fmt.Errorf("kernel: %w", err)
	}
	want, err := v.mirror.Packet(&mirrorFrame, now)
	if err != nil {
		return nil, fmt.Errorf("mirror: %w", err)
	}

	v.fields = v.fields[:0]
	v.outcome(want, got)
	v.frame()
	differ(v, "mark", mirrorFrame.Mark, kernelFrame.Mark)
	differ(v, "priority", mirrorFrame.Priority, kernelFrame.Priority)
	d := &Difference{}
	for i, slot := range want.Slots {
		if slot == marker.NoSet || slot != got.Slots[i] {
			continue
		}
		if err := v.bucket(d, slot); err != nil {
			return nil, err
		}
	}
	if err := v.counters(); err != nil {
		return nil, err
	}
	if len(v.fields) == 0 {
		return nil, nil
	}
	d.Packet, d.Time, d.Fields = number, now, slices.Clone(v.fields)
	if seen := marker.See(&f); seen.IP {
		d.Flow = seen.Flow.String()
	}
	return d, nil
}

// differ notes a difference, if there is one.
func differ[T comparable](v *verifier, name string, mirror, kernel T) {
	if mirror != kernel {
		v.fields = append(v.fields, Field{name, fmt.Sprint(mirror), fmt.Sprint(kernel)})
	}
}

func (v *verifier) outcome(m, k marker.Outcome) {
	differ(v, "kind", m.Kind, k.Kind)
	differ(v, "class", v.className(m.Class), v.className(k.Class))
	differ(v, "cost", m.Cost, k.Cost)
	differ(v, "arrival colour", m.Arrival, k.Arrival)
	differ(v, "colour", m.Color, k.Color)
	differ(v, "verdict", verdict(m.Dropped), verdict(k.Dropped))
	for i := range m.Slots {
		differ(v, fmt.Sprintf("bucket of meter %d (set × 4 + slot)", i+1), slotName(m.Slots[i]), slotName(k.Slots[i]))
	}
}

func (v *verifier) className(class uint16) string {
	if int(class) < len(v.plan.Classes) {
		return v.plan.Classes[class].Name
	}
	if class == marker.NoClass {
		return "none"
	}
	return fmt.Sprint(class)
}

func verdict(dropped bool) string {
	if dropped {
		return "drop"
	}
	return "pass"
}

func slotName(slot uint32) string {
	if slot == marker.NoSet {
		return "none"
	}
	return fmt.Sprint(slot)
}

// frame compares the frames' bytes.
func (v *verifier) frame() {
	if bytes.Equal(v.mirrorData, v.kernelData) {
		return
	}
	for i := range v.mirrorData {
		differ(v, fmt.Sprintf("frame byte %d", i), fmt.Sprintf("%#02x", v.mirrorData[i]), fmt.Sprintf("%#02x", v.kernelData[i]))
	}
}

// bucket compares a packet's whole set, and remembers it.
func (v *verifier) bucket(d *Difference, slot uint32) error {
	var m, k marker.Set
	index, at := slot/marker.SetSlots, slot%marker.SetSlots
	if err := v.sets(index, &m, &k); err != nil {
		return err
	}
	before := v.shadow[index]
	if before == nil {
		before = &marker.Set{}
		v.shadow[index] = before
	}
	if v.set(index, &m, &k) {
		d.Before, d.Mirror, d.Kernel, d.BucketIsKnown = before[at], m[at], k[at], true
	}
	*before = m
	return nil
}

func (v *verifier) sets(index uint32, m, k *marker.Set) error {
	if err := v.mirror.Set(index, m); err != nil {
		return fmt.Errorf("mirror: set %d: %w", index, err)
	}
	if err := v.kernel.Set(index, k); err != nil {
		return fmt.Errorf("kernel: set %d: %w", index, err)
	}
	m[0].Lock, k[0].Lock = 0, 0 // only the kernel locks
	return nil
}

// set compares two sets and reports whether they differ.
func (v *verifier) set(index uint32, m, k *marker.Set) bool {
	if *m == *k {
		return false
	}
	for i := range m {
		a, b := &m[i], &k[i]
		name := func(field string) string { return fmt.Sprintf("bucket %d: %s", index*marker.SetSlots+uint32(i), field) }
		differ(v, name("key"), fmt.Sprintf("%x", a.Key), fmt.Sprintf("%x", b.Key))
		differ(v, name("set's word (tags, or last forgetting)"), uint64(a.Tags)<<32|uint64(a.Lock), uint64(b.Tags)<<32|uint64(b.Lock))
		differ(v, name("last"), a.Bucket.Last, b.Bucket.Last)
		differ(v, name("tc"), a.Bucket.Tc, b.Bucket.Tc)
		differ(v, name("te|tp"), a.Bucket.Tx, b.Bucket.Tx)
		for c := range marker.Colors {
			differ(v, name(c.String()+" packets"), a.Packets[c], b.Packets[c])
			differ(v, name(c.String()+" bytes"), a.Bytes[c], b.Bytes[c])
		}
		differ(v, name("profile"), a.Profile, b.Profile)
		differ(v, name("generation"), a.Generation, b.Generation)
	}
	return true
}

func (v *verifier) counters() error {
	m, err := v.mirror.Stats()
	if err != nil {
		return fmt.Errorf("mirror: %w", err)
	}
	k, err := v.kernel.Stats()
	if err != nil {
		return fmt.Errorf("kernel: %w", err)
	}
	differ(v, "counter unmatched", m.Port.Unmatched, k.Port.Unmatched)
	differ(v, "counter not-ip", m.Port.NotIP, k.Port.NotIP)
	differ(v, "counter malformed", m.Port.Malformed, k.Port.Malformed)
	differ(v, "counter long-chain", m.Port.LongChain, k.Port.LongChain)
	for i := range m.Classes {
		a, b := &m.Classes[i], &k.Classes[i]
		if *a == *b {
			continue
		}
		name := func(field string) string {
			return fmt.Sprintf("counter of class %s: %s", v.plan.Classes[i].Name, field)
		}
		for c := range marker.Colors {
			differ(v, name(c.String()+" packets"), a.Packets[c], b.Packets[c])
			differ(v, name(c.String()+" bytes"), a.Bytes[c], b.Bytes[c])
		}
		differ(v, name("overflow"), a.Overflow, b.Overflow)
		differ(v, name("contended"), a.Contended, b.Contended)
		differ(v, name("clock_back"), a.ClockBack, b.ClockBack)
	}
	return nil
}

// end compares everything once more: all counters, and all buckets, used or not.
func (v *verifier) end() (*Difference, int, error) {
	v.fields = v.fields[:0]
	buckets := 0
	for i := range v.plan.Geometry.Sets {
		var m, k marker.Set
		if err := v.sets(i, &m, &k); err != nil {
			return nil, 0, err
		}
		v.set(i, &m, &k)
		for slot := range m {
			if m.Tag(slot) != 0 {
				buckets++
			}
		}
	}
	if err := v.counters(); err != nil {
		return nil, 0, err
	}
	if len(v.fields) == 0 {
		return nil, buckets, nil
	}
	return &Difference{Fields: slices.Clone(v.fields)}, buckets, nil
}

// String tells what differs, and the bucket's states, one thing a line.
func (d *Difference) String() string {
	var b strings.Builder
	if d.Packet == 0 {
		b.WriteString("at the end\n")
	} else {
		fmt.Fprintf(&b, "packet %d at %d ns", d.Packet, d.Time)
		if d.Flow != "" {
			fmt.Fprintf(&b, ", %s", d.Flow)
		}
		b.WriteString("\n")
	}
	const most = 20
	for i, f := range d.Fields {
		if i == most {
			fmt.Fprintf(&b, "  … and %d more\n", len(d.Fields)-most)
			break
		}
		fmt.Fprintf(&b, "  %s: mirror %s, kernel %s\n", f.Name, f.Mirror, f.Kernel)
	}
	if d.BucketIsKnown {
		fmt.Fprintf(&b, "  bucket before        %s\n", state(&d.Before))
		fmt.Fprintf(&b, "  bucket after, mirror %s\n", state(&d.Mirror))
		fmt.Fprintf(&b, "  bucket after, kernel %s\n", state(&d.Kernel))
	}
	return b.String()
}

func state(s *marker.Slot) string {
	return fmt.Sprintf("last %d ns, tc %d nB, te|tp %d nB, green/yellow/red %d/%d/%d packets",
		s.Bucket.Last, s.Bucket.Tc, s.Bucket.Tx, s.Packets[0], s.Packets[1], s.Packets[2])
}
