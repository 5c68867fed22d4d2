package loader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tricolor-policer/tricolor/internal/netlab"
	"github.com/tricolor-policer/tricolor/marker"
)

// attachPolicy polices what arrives at the right host until the test ends.
func attachPolicy(tb testing.TB, lab *netlab.Lab, m Mechanism, text string) *Attachment {
	tb.Helper()
	needs(tb, m)
	plan := planAfter(tb, text, nil)
	var a *Attachment
	err := lab.Right.Do(func() (err error) {
		a, err = Attach("right0", plan, AttachOptions{Direction: Ingress, Mechanism: m})
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := detach(lab.Right, a); err != nil && !errors.Is(err, ErrNotAttached) {
			tb.Error(err)
		}
		if err := a.Close(); err != nil {
			tb.Error(err)
		}
	})
	return a
}

// into compiles a policy's text after the one in force.
func into(tb testing.TB, text string) func(*marker.Plan) (*marker.Plan, error) {
	return func(prev *marker.Plan) (*marker.Plan, error) { return planAfter(tb, text, prev), nil }
}

func change(tb testing.TB, a *Attachment, confirm time.Duration, text string) *marker.Plan {
	tb.Helper()
	plan, err := a.Change(confirm, into(tb, text))
	if err != nil {
		tb.Fatal(err)
	}
	return plan
}

func inForce(tb testing.TB, a *Attachment) (*marker.Plan, time.Duration) {
	tb.Helper()
	plan, pending, err := a.InForce()
	if err != nil {
		tb.Fatal(err)
	}
	return plan, pending
}

// lapse waits until no change is pending.
func lapse(tb testing.TB, a *Attachment) *marker.Plan {
	tb.Helper()
	ctx := bounded(tb)
	for {
		plan, pending := inForce(tb, a)
		if pending == 0 {
			return plan
		}
		select {
		case <-time.After(pending):
		case <-ctx.Done():
			tb.Fatal("the deadline never comes")
		}
	}
}

// sendTo sends n packets to a port of the right host, and returns how many arrived with each DSCP.
func sendTo(tb testing.TB, lab *netlab.Lab, port uint16, n int) (marks [64]uint64) {
	tb.Helper()
	sink, err := lab.Right.ReceiveUDP(false, port)
	if err != nil {
		tb.Fatal(err)
	}
	if _, err = lab.Left.SendUDP(bounded(tb), netlab.UDPFlow{To: sink.Addr(), Payload: packetLen - 28, Count: n}); err != nil {
		tb.Error(err)
	}
	got, err := sink.Stop()
	if err != nil {
		tb.Fatal(err)
	}
	for tos, count := range got.TOS {
		marks[tos>>2] += count
	}
	return marks
}

func wantArrived(tb testing.TB, what string, lab *netlab.Lab, dscp, n int) {
	tb.Helper()
	if marks := sendTo(tb, lab, port, n); marks[dscp] != uint64(n) {
		tb.Errorf("%s: %d packets arrived with DSCP %d, want %d; all: %v", what, marks[dscp], dscp, n, marks)
	}
}

// An operator's day: a change on trial, kept; another, which the deadline takes back.
func TestChange(t *testing.T) {
	for _, m := range mechanisms {
		t.Run(m.String(), func(t *testing.T) {
			needs(t, m)
			lab := newLab(t, netlab.Options{})
			a := attachPolicy(t, lab, m, policyA)
			wantArrived(t, "as attached", lab, greenA, 5)

			plan := change(t, a, time.Hour, policyB)
			if plan.Generation != 2 || plan.Since == 0 {
				t.Errorf("generation %d since %d", plan.Generation, plan.Since)
			}
			wantArrived(t, "on trial", lab, greenB, 5)
			other := find(t, lab.Right, "right0", Ingress) // as another command has it
			if now, pending := inForce(t, other); rate(now) != 2000 || pending <= 0 || pending > time.Hour {
				t.Errorf("in force: rate %d, pending %v", rate(now), pending)
			}
			_, err := other.Change(0, func(*marker.Plan) (*marker.Plan, error) {
				t.Error("a change was compiled that cannot be")
				return nil, nil
			})
			wantError(t, "a change while one is on trial", err, ErrUnconfirmed, "another 1h0m0s")
			wantArrived(t, "after a change that was refused", lab, greenB, 5)
			if err := other.Confirm(); err != nil {
				t.Fatal(err)
			}
			wantError(t, "confirm again", other.Confirm(), ErrNotPending, "for good")
			if now, pending := inForce(t, a); rate(now) != 2000 || pending != 0 {
				t.Errorf("confirmed: rate %d, pending %v", rate(now), pending)
			}

			change(t, a, time.Millisecond, policyC)
			if now := lapse(t, a); rate(now) != 2000 || now.Generation != 4 {
				t.Errorf("past the deadline: rate %d, generation %d", rate(now), now.Generation)
			}
			wantArrived(t, "past the deadline", lab, greenB, 5)
			wantError(t, "confirm too late", a.Confirm(), ErrNotPending, "deadline passed")
			wantArrived(t, "after a confirm that came too late", lab, greenB, 5)
			change(t, a, 0, policyC)
			wantArrived(t, "at last", lab, greenC, 5)
		})
	}
}

// A confirmation that the deadline overtakes is none.
func TestConfirmOvertaken(t *testing.T) {
	lab := newLab(t, netlab.Options{})
	a := attachPolicy(t, lab, TCX, policyA)
	change(t, a, time.Second, policyB)
	_, pending := inForce(t, a)
	step = func(string) { time.Sleep(pending) }
	defer func() { step = func(string) {} }()
	wantError(t, "confirm", a.Confirm(), ErrNotPending, "deadline passed")
	if now, pending := inForce(t, a); rate(now) != 1000 || pending != 0 {
		t.Errorf("in force: rate %d, pending %v", rate(now), pending)
	}
	wantArrived(t, "past the deadline", lab, greenA, 5)
}

// What is not to be leaves the policy as it was.
func TestChangeRefused(t *testing.T) {
	lab := newLab(t, netlab.Options{})
	a := attachPolicy(t, lab, Auto, policyA)
	broken := errors.New("line 7 is wrong")
	_, err := a.Change(0, func(*marker.Plan) (*marker.Plan, error) { return nil, broken })
	wantError(t, "a policy that does not compile", err, broken)
	_, err = a.Change(0, func(prev *marker.Plan) (*marker.Plan, error) {
		prev.Classes[0].Stats = marker.MaxStats
		return prev, nil
	})
	wantError(t, "a plan that breaks its bounds", err, marker.ErrPlan, "test")
	_, err = a.Change(-time.Second, into(t, policyB))
	wantError(t, "no time at all", err, err, "-1s", "for good")
	if err == nil {
		t.Error("a negative time was taken")
	}
	if now, _ := inForce(t, a); rate(now) != 1000 || now.Generation != 1 {
		t.Errorf("in force: rate %d, generation %d", rate(now), now.Generation)
	}
	wantArrived(t, "after all that", lab, greenA, 5)

	if err := detach(lab.Right, a); err != nil {
		t.Fatal(err)
	}
	_, err = a.Change(0, into(t, policyB))
	wantError(t, "a change after detach", err, ErrNotAttached, "right0 ingress")
	wantError(t, "confirm after detach", a.Confirm(), ErrNotAttached, "right0 ingress")
	wantNothing(t)
}

// Commands at the same time take turns: none is lost.
func TestChangesTogether(t *testing.T) {
	lab := newLab(t, netlab.Options{})
	a := attachPolicy(t, lab, Auto, policyA)
	const commands, each = 4, 3
	var all sync.WaitGroup
	for range commands {
		other := find(t, lab.Right, "right0", Ingress)
		all.Go(func() {
			for range each {
				if _, err := other.Change(0, into(t, policyB)); err != nil {
					t.Error(err)
				}
				if _, _, err := other.InForce(); err != nil { // without the lock
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if now, _ := inForce(t, a); now.Generation != 1+commands*each {
		t.Errorf("generation %d after %d changes", now.Generation, commands*each)
	}
}

// Counters go by the name of the class, wherever it stands; those of a new class start at 0.
func TestCountersThroughChanges(t *testing.T) {
	const profiles = `
version: 1
flows: 64
profiles: { p: { meter: token, cir: 1B/s, cbs: 1280B } }
classes:
`
	class := func(name string, dport int) string {
		return fmt.Sprintf("  - { name: %s, match: { dport: %d }, meters: [ { profile: p, per: class } ], red: { dscp: 1 } }\n", name, dport)
	}
	voice, bulk, fresh, old := class("voice", 7001), class("bulk", 7002), class("fresh", 7003), class("old", 7004)
	lab := newLab(t, netlab.Options{})
	a := attachPolicy(t, lab, Auto, profiles+voice+bulk+old)
	want := map[string][2]uint64{"voice": {}, "bulk": {}, "old": {}} // green, red
	send := func(name string, port uint16, n int) {
		t.Helper()
		sendTo(t, lab, port, n)
		w := want[name]
		green := min(uint64(n), 10-w[0])
		want[name] = [2]uint64{w[0] + green, w[1] + uint64(n) - green}
	}
	check := func(what string) {
		t.Helper()
		plan, _ := inForce(t, a)
		s, err := a.Maps.Stats(plan)
		if err != nil {
			t.Fatal(err)
		}
		if len(plan.Classes) != len(want) {
			t.Fatalf("%s: %d classes, want %d", what, len(plan.Classes), len(want))
		}
		for i, c := range plan.Classes {
			w, got := want[c.Name], s.Classes[i]
			if got.Packets != [marker.Colors]uint64{marker.Green: w[0], marker.Red: w[1]} ||
				got.Bytes != [marker.Colors]uint64{marker.Green: w[0] * packetLen, marker.Red: w[1] * packetLen} {
				t.Errorf("%s: %s counts %+v, want %d green, %d red", what, c.Name, got, w[0], w[1])
			}
		}
	}
	send("voice", 7001, 5)
	send("bulk", 7002, 12)
	send("old", 7004, 7)
	check("as attached")

	change(t, a, 0, profiles+bulk+fresh+voice)
	delete(want, "old")
	want["fresh"] = [2]uint64{}
	check("classes in another order, and a new one")
	send("voice", 7001, 8)
	send("bulk", 7002, 2)
	send("fresh", 7003, 11)
	check("after traffic")

	change(t, a, 0, profiles+old+voice+bulk)
	delete(want, "fresh")
	want["old"] = [2]uint64{}
	check("a class by the name of one that was gone")
	send("old", 7004, 3)
	check("which starts anew")

	change(t, a, time.Millisecond, profiles+fresh)
	lapse(t, a)
	check("back after a trial")
	send("bulk", 7002, 4)
	check("and it goes on")
}

// flood sends to the right host from several sockets until it is stopped.
type flood struct {
	sink   *netlab.UDPSink
	cancel context.CancelFunc
	all    sync.WaitGroup
	mu     sync.Mutex
	sent   uint64
	err    error
}

func startFlood(tb testing.TB, lab *netlab.Lab, sockets int, interval time.Duration) *flood {
	tb.Helper()
	sink, err := lab.Right.ReceiveUDP(false, port)
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(tb.Context(), 5*time.Minute)
	f := &flood{sink: sink, cancel: cancel}
	tb.Cleanup(func() { f.stop() })
	for range sockets {
		f.all.Go(func() {
			sent, err := lab.Left.SendUDP(ctx, netlab.UDPFlow{To: sink.Addr(), Payload: packetLen - 28, Count: 1 << 40, Interval: interval})
			f.mu.Lock()
			defer f.mu.Unlock()
			f.sent += uint64(sent)
			if !errors.Is(err, context.Canceled) {
				f.err = errors.Join(f.err, err)
			}
		})
	}
	return f
}

func (f *flood) stop() (sent uint64, got netlab.Received, err error) {
	f.cancel()
	f.all.Wait()
	got, err = f.sink.Stop()
	return f.sent, got, errors.Join(err, f.err)
}

// end stops the flood, and sees that every packet arrived, with one of these marks. It returns how many with
// each.
func (f *flood) end(tb testing.TB, dscps ...uint8) (sent uint64, marks [64]uint64) {
	tb.Helper()
	sent, got, err := f.stop()
	if err != nil {
		tb.Fatal(err)
	}
	if got.Dropped != 0 || got.Datagrams != sent || sent == 0 {
		tb.Errorf("%d packets sent, %d arrived, %d lost behind the policer", sent, got.Datagrams, got.Dropped)
	}
	for tos, count := range got.TOS {
		marks[tos>>2] += count
	}
	left := got.Datagrams
	for _, dscp := range dscps {
		left -= marks[dscp]
	}
	if left != 0 {
		tb.Errorf("%d packets of %d went unpoliced; marks %v", left, sent, marks)
	}
	return sent, marks
}
