package loader

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/maps"
	"github.com/tricolor-policer/tricolor/marker"
	"github.com/tricolor-policer/tricolor/policy"
)

const second = uint64(time.Second)

// Policies of one class that mark what they let through, each by its own DSCP, and let all through.
const (
	policyA = `
version: 1
flows: 64
profiles: { p: { meter: token, cir: 1000B/s, cbs: 12800B } }
classes: [ { name: test, meters: [ { profile: p, per: flow } ], green: { dscp: 11 }, red: { dscp: 12 } } ]
`
	policyB = `
version: 1
flows: 64
profiles: { p: { meter: token, cir: 2000B/s, cbs: 12800B } }
classes: [ { name: test, meters: [ { profile: p, per: flow } ], green: { dscp: 21 }, red: { dscp: 22 } } ]
`
	policyC = `
version: 1
flows: 64
profiles: { p: { meter: token, cir: 3000B/s, cbs: 12800B } }
classes: [ { name: test, meters: [ { profile: p, per: flow } ], green: { dscp: 31 }, red: { dscp: 32 } } ]
`
	greenA, redA, greenB, redB, greenC, redC = 11, 12, 21, 22, 31, 32

	// Its class is another one than theirs.
	policyOther = `
version: 1
flows: 64
profiles: { p: { meter: token, cir: 7000B/s, cbs: 12800B } }
classes: [ { name: other, meters: [ { profile: p, per: flow } ], green: { dscp: 41 }, red: { dscp: 42 } } ]
`
	burst = 100 // packets of packetLen
)

// planAfter compiles a policy that takes over from prev, if there is one.
func planAfter(tb testing.TB, text string, prev *marker.Plan) *marker.Plan {
	tb.Helper()
	p, err := policy.Parse("policy.yaml", []byte(text), nil)
	if err != nil {
		tb.Fatal(err)
	}
	plan, err := p.CompileAfter(prev)
	if err != nil {
		tb.Fatal(err)
	}
	return plan
}

// frozen is a program whose clock is the test's.
type frozen struct {
	testing.TB
	program *Program
	runner  *Runner
	changer *Changer
}

func newFrozen(tb testing.TB, text string) *frozen {
	tb.Helper()
	testutils.RequireKernel(tb)
	program, err := Load(planAfter(tb, text, nil), Options{Seeds: randomSeeds(), Replay: true})
	if err != nil {
		tb.Fatal(err)
	}
	f := &frozen{tb, program, NewRunner(program), nil}
	f.changer = f.newChanger()
	tb.Cleanup(func() {
		if err := program.Close(); err != nil {
			tb.Error(err)
		}
	})
	return f
}

func (f *frozen) newChanger() *Changer {
	f.Helper()
	c, err := NewChanger(f.program.Maps, true)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { c.Close() })
	c.wait = func() error { return nil } // this very thread polices all packets
	return c
}

// send polices n packets of a flow, by its source port, at now, and returns how many were marked with each
// DSCP.
func (f *frozen) send(n int, flow uint16, now uint64) map[uint8]int {
	f.Helper()
	marks := map[uint8]int{}
	for range n {
		data := make([]byte, 14+packetLen)
		copy(data[12:], []byte{8, 0, 0x45, 0, 0, packetLen})
		copy(data[22:], []byte{64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2})
		binary.BigEndian.PutUint16(data[34:], flow)
		if _, err := f.runner.Run(&marker.Frame{Data: data, Length: uint32(len(data))}, now); err != nil {
			f.Fatal(err)
		}
		marks[data[15]>>2]++
	}
	return marks
}

func (f *frozen) wantMarks(what string, got map[uint8]int, dscp uint8, n int) {
	f.Helper()
	if got[dscp] != n {
		f.Errorf("%s: marks %v, want %d of DSCP %d", what, got, n, dscp)
	}
}

func (f *frozen) inForce(now uint64) (plan *marker.Plan, deadline uint64) {
	f.Helper()
	plan, deadline, err := InForce(f.program.Maps, now)
	if err != nil {
		f.Fatal(err)
	}
	return plan, deadline
}

func (f *frozen) apply(text string, now, deadline uint64) {
	f.Helper()
	prev, _ := f.inForce(now)
	if err := f.changer.Apply(planAfter(f, text, prev), now, deadline); err != nil {
		f.Fatal(err)
	}
}

// rate is what tells the policies apart in a plan.
func rate(plan *marker.Plan) uint64 { return plan.Profiles[plan.Classes[0].Meters[0].Profile].CIR }

// generations are those of all buckets in use.
func (f *frozen) generations() (all []uint32) {
	f.Helper()
	buckets, err := maps.OpenBuckets(f.program.Maps.Buckets)
	if err != nil {
		f.Fatal(err)
	}
	defer buckets.Close()
	var torn int
	for _, slot := range buckets.All(&torn) {
		all = append(all, slot.Generation)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// A change that is cut short, at any of its steps, leaves the old policy or the new one; the next change
// finishes the work, and no bucket got more or less than its policies gave it.
func TestApplyCutShort(t *testing.T) {
	steps := []string{"waited", "settled", "renumbered", "reinstated", "written", "cleared", "prepared", "switched", "waited again"}
	const (
		never  = iota // confirmed, or with no deadline
		lapsed        // the change before was not confirmed
		twice         // nor the one before that
	)
	for start, name := range []string{"first", "lapsed", "lapsed twice"} {
		for at, last := range steps {
			t.Run(fmt.Sprintf("%s, %s", name, last), func(t *testing.T) {
				f := newFrozen(t, policyA)
				f.wantMarks("the burst", f.send(burst, 1, 0), greenA, burst)
				f.wantMarks("over the burst", f.send(1, 1, 0), redA, 1)
				earned := 0 // bytes, since
				if start != never {
					f.apply(policyB, 0, second)
					earned += 2000 - 1000
				}
				if start == twice {
					f.apply(policyB, second, second+second/2)
					earned += 1000 - 500
				}
				before, pending := f.inForce(2 * second)
				if rate(before) != 1000 || pending != 0 {
					t.Fatalf("in force before: rate %d, pending %d", rate(before), pending)
				}

				reached := f.cutShort(last, planAfter(t, policyC, before), 2*second)
				if want := start != never || last[:2] != "re"; reached != want {
					t.Fatalf("step reached: %t, want %t", reached, want)
				}
				f.changer.Close()
				f.changer = f.newChanger()

				earned += 2 * 1000 // A's
				want, generation, mark := uint64(1000), before.Generation, uint8(greenA)
				if !reached || at >= slices.Index(steps, "switched") {
					want, generation, mark = 3000, generation+1, greenC
				}
				plan, _ := f.inForce(2 * second)
				if rate(plan) != want || plan.Generation != generation {
					t.Errorf("in force: rate %d, generation %d, want %d, %d", rate(plan), plan.Generation, want, generation)
				}
				f.wantMarks("a new flow's", f.send(1, 2, 2*second), mark, 1)
				earned += int(want)
				f.apply(policyB, 3*second, 0)
				earned += 2000
				if got := f.generations(); len(got) != 1 {
					t.Errorf("buckets of generations %d after a whole change", got)
				}
				green := earned / packetLen
				marks := f.send(burst, 1, 4*second)
				f.wantMarks("all that was earned", marks, greenB, green)
				f.wantMarks("and no more", marks, redB, burst-green)
			})
		}
	}
}

// cutShort applies a plan, and stops as a killed command does at a step. It reports whether that came.
func (f *frozen) cutShort(last string, plan *marker.Plan, now uint64) (reached bool) {
	f.Helper()
	type cut struct{}
	step = func(name string) {
		if name == last {
			panic(cut{})
		}
	}
	defer func() {
		step = func(string) {}
		switch r := recover().(type) {
		case nil:
		case cut:
			reached = true
		default:
			panic(r)
		}
	}()
	if err := f.changer.Apply(plan, now, 0); err != nil {
		f.Error(err)
	}
	return false
}

// A deadline that nobody lifts ends a change; until then there is no other.
func TestDeadline(t *testing.T) {
	f := newFrozen(t, policyA)
	f.wantMarks("the burst", f.send(burst, 1, 0), greenA, burst)
	f.apply(policyB, 0, 10*second)
	first, deadline := f.inForce(9 * second)
	if rate(first) != 2000 || deadline != 10*second {
		t.Errorf("in force: rate %d until %d", rate(first), deadline)
	}
	err := f.changer.Apply(planAfter(t, policyC, first), 7*second+second/2, 0)
	wantError(t, "apply while one waits", err, ErrUnconfirmed, "another 3s")
	f.wantMarks("before the deadline", f.send(1, 1, 1*second), greenB, 1) // of 2,000 bytes
	f.wantMarks("past the deadline", f.send(1, 2, 10*second), greenA, 1)
	wantError(t, "confirm past the deadline", f.changer.Confirm(11*second), ErrNotPending, "passed 1s ago", "apply the new one anew")
	back, deadline := f.inForce(10 * second)
	if rate(back) != 1000 || deadline != 0 || back.Generation != first.Generation+1 || back.Since != 10*second {
		t.Errorf("in force: rate %d until %d, generation %d since %d", rate(back), deadline, back.Generation, back.Since)
	}

	f.apply(policyC, 11*second, 20*second)
	if err := f.changer.Confirm(12 * second); err != nil {
		t.Fatal(err)
	}
	wantError(t, "confirm again", f.changer.Confirm(12*second), ErrNotPending, "for good")
	f.wantMarks("confirmed", f.send(1, 1, 21*second), greenC, 1)
	f.apply(policyA, 22*second, 0)
	f.wantMarks("for good", f.send(1, 1, 22*second), greenA, 1)
}

// A plan that is none, or of another table, changes nothing.
func TestApplyRefused(t *testing.T) {
	f := newFrozen(t, policyA)
	plan, _ := f.inForce(0)
	plan.Classes[0].Meters[0].Profile = 7777
	wantError(t, "a broken plan", f.changer.Apply(plan, 0, 0), marker.ErrPlan, "7777")
	other := planAfter(t, policyB, nil)
	var err error
	if other.Geometry, err = marker.NewGeometry(1<<10, [marker.MaxChain]bool{true}, int(other.Geometry.Profiles)); err != nil {
		t.Fatal(err)
	}
	for i := range other.Profiles {
		other.Profiles[i].Overflow = other.Geometry.OverflowSet(0, uint32(i))
	}
	wantError(t, "another table", f.changer.Apply(other, 0, 0), marker.ErrPlan, "detach, then attach")
	if plan, _ := f.inForce(0); rate(plan) != 1000 || plan.Generation != 1 {
		t.Errorf("in force: rate %d, generation %d", rate(plan), plan.Generation)
	}
	f.wantMarks("the old policy", f.send(1, 1, 0), greenA, 1)
}

// Drained buckets, and one change after another while no time passes: nothing is earned.
func TestApplyGivesNothing(t *testing.T) {
	f := newFrozen(t, policyA)
	const flows = 20
	for flow := range uint16(flows) {
		f.wantMarks("the burst", f.send(burst, flow, 0), greenA, burst)
	}
	for i := range 1000 {
		f.apply([]string{policyB, policyA}[i%2], 0, 0)
	}
	for flow := range uint16(flows) {
		f.wantMarks("after 1,000 changes", f.send(burst, flow, 0), redA, burst)
	}
}

// A class that a change takes away, and the deadline brings back, has the tokens that it had, and what it
// earned by its own profile.
func TestLapseBringsClassBack(t *testing.T) {
	f := newFrozen(t, policyA)
	f.wantMarks("the burst", f.send(burst, 1, 0), greenA, burst)
	f.apply(policyOther, 1*second, 3*second)
	f.wantMarks("the other class", f.send(1, 1, 2*second), 41, 1)
	marks := f.send(burst, 1, 4*second)
	const green = 4000 / packetLen
	f.wantMarks("back again", marks, greenA, green)
	f.wantMarks("and no more", marks, redA, burst-green)
}

// What a command that was killed left half written hinders nobody: only the copy in force counts.
func TestHalfWritten(t *testing.T) {
	f := newFrozen(t, policyA)
	f.apply(policyB, 0, 0)
	m := f.program.Maps
	plan, _ := f.inForce(0)
	idle := ^plan.Generation & 1
	noise := make([]byte, m.Policies.ValueSize())
	for i := range noise {
		noise[i] = byte(i*7 + 1)
	}
	if err := m.Policies.Put(idle, noise); err != nil {
		t.Fatal(err)
	}
	for i := range plan.Geometry.Profiles {
		if err := m.Profiles.Put(idle*plan.Geometry.Profiles+i, noise[:m.Profiles.ValueSize()]); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.ReadCopy(idle); !errors.Is(err, maps.ErrLayout) {
		t.Errorf("the half-written copy reads as %v", err)
	}
	if got, _ := f.inForce(0); rate(got) != 2000 {
		t.Errorf("in force: rate %d", rate(got))
	}
	f.wantMarks("the policy in force", f.send(1, 1, 0), greenB, 1)
	f.apply(policyC, second, 0)
	f.wantMarks("the next", f.send(1, 1, second), greenC, 1)
}

// A table of a million buckets in use.
func BenchmarkApply(b *testing.B) {
	million := func(text string) string { return strings.Replace(text, "flows: 64", "flows: 1M", 1) }
	f := newFrozen(b, million(policyA))
	var set [marker.SetSlots * marker.SlotBytes]byte
	binary.NativeEndian.PutUint32(set[44:], 0x01010101) // tags
	plan, _ := f.inForce(0)
	for slot := range marker.SetSlots {
		binary.NativeEndian.PutUint32(set[slot*marker.SlotBytes+124:], plan.Generation)
	}
	for i := range plan.Geometry.Reserved {
		if err := f.program.Maps.Buckets.Put(i, set[:]); err != nil {
			b.Fatal(err)
		}
	}
	plan = planAfter(b, million(policyB), plan)
	f.changer.wait = gracePeriod
	for b.Loop() {
		if err := f.changer.Apply(plan, 0, 0); err != nil {
			b.Fatal(err)
		}
	}
}

func TestGracePeriod(t *testing.T) {
	testutils.RequireKernel(t)
	for name, wait := range map[string]func() error{"by the system call": gracePeriod, "by a map": gracePeriodByMap} {
		start := time.Now()
		if err := wait(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		t.Logf("%s: %v", name, time.Since(start))
	}
}
