package pcaptest

import (
	"errors"
	"testing"

	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/loader"
	"github.com/tricolor-policer/tricolor/marker"
)

// The policies of the test: each marks what is green in its own way; class all carries over, the others do not.
func deadlinePolicy(mark, rate, extra string) policyFiles {
	return policyFiles{text: `version: 1
flows: 64
profiles:
  flow: { meter: srtcm, cir: ` + rate + `, cbs: 1000B, ebs: 500B }
  link: { meter: token, cir: 8mbit, cbs: 3000B }
classes:
` + extra + `  - name: all
    meters: [ { profile: flow, per: flow }, { profile: link, per: interface } ]
    green: { mark: ` + mark + ` }
`}
}

// extraClass is a class for port 1 with a drained bucket of its own.
func extraClass(name string) string {
	return "  - { name: " + name + ", match: { dport: 1 }, meters: [ { profile: flow, per: flow }, { profile: link, per: class } ] }\n"
}

// deadlineRun is both sides, and the packets that a test of deadlines sends.
type deadlineRun struct {
	*pair
	t    *testing.T
	last outcomeOf
}

// send sends packets of one flow at now, and has the sides agree; it returns the last one's mark, and how many
// were green.
func (d *deadlineRun) send(now uint64, port byte, packets int) (mark uint32, green int) {
	d.t.Helper()
	mirror := d.mirror
	d.last.Side = mirror
	d.mirror = &d.last
	defer func() { d.mirror = mirror }()
	for range packets {
		var data [42]byte
		f := keyedFrame(&data, 7, 100)
		data[37] = port
		d.check(d.t, f, now)
		if d.last.outcome.Color == marker.Green {
			green++
		}
		mark = d.last.mark
	}
	return mark, green
}

// inForce compiles a policy after what the kernel's maps say is in force at now.
func (d *deadlineRun) inForce(files policyFiles, now uint64) *marker.Plan {
	d.t.Helper()
	prev, _, err := loader.InForce(d.kernel.Program.Maps, now)
	if err != nil {
		d.t.Fatal(err)
	}
	return files.mustCompile(d.t, prev)
}

// Past a deadline that nobody confirmed the policy before is in force again, on both sides, packet by packet; also
// for a packet whose clock is behind. What is applied then takes over from that one.
func TestDeadline(t *testing.T) {
	testutils.RequireKernel(t)
	const (
		start    = uint64(1 << 40)
		second   = uint64(1_000_000_000)
		changed  = start + second
		deadline = changed + second
		again    = deadline + second
	)
	first, tried, next := deadlinePolicy("1", "8kbit", ""), deadlinePolicy("2", "800bit", extraClass("tried")), deadlinePolicy("3", "80bit", extraClass("next"))
	p := newPair(t, first.mustCompile(t, nil))
	d := &deadlineRun{pair: p, t: t}
	wantMark := func(what string, now uint64, want uint32) {
		t.Helper()
		if got, _ := d.send(now, 0, 1); got != want {
			t.Errorf("%s: mark %d, not %d", what, got, want)
		}
	}
	wantMark("at first", start, 1)
	if err := d.apply(Change{changed, d.inForce(tried, changed)}, deadline); err != nil {
		t.Fatal(err)
	}
	wantMark("tried", changed, 2)
	// The class that is tried drains its bucket for good: 100 B/s.
	if _, green := d.send(changed, 1, 20); green != 10 {
		t.Errorf("the class that is tried let %d packets through as green, not 10", green)
	}
	if err := d.kernel.Apply(d.inForce(next, changed), changed, 0); !errors.Is(err, loader.ErrUnconfirmed) {
		t.Errorf("another change while one waits to be confirmed: %v", err)
	}
	wantMark("just before the deadline", deadline-1, 2)
	wantMark("at the deadline", deadline, 1)
	wantMark("on a CPU whose clock is behind", deadline-1, 2)
	wantMark("on a CPU whose clock is ahead", deadline+1, 1)
	if _, green := d.send(deadline+1, 1, 1); green != 1 {
		t.Error("what the class took that was tried is not the first policy's again")
	}
	if end, _, err := d.end(); end != nil || err != nil {
		t.Errorf("past the deadline: %v %v", end, err)
	}

	if err := d.apply(Change{again, d.inForce(next, again)}, 0); err != nil {
		t.Fatal(err)
	}
	wantMark("the next", again, 3)
	wantMark("the next, long after, no deadline stands", again+100*second, 3)
	// SPEC 3.7: what was not there before starts full, whatever a policy did that nobody confirmed.
	if _, green := d.send(again, 1, 20); green != 10 {
		t.Errorf("a new class let %d packets through as green, not the 10 of its burst: it has the buckets of the class that was tried", green)
	}
	if end, _, err := d.end(); end != nil || err != nil {
		t.Errorf("after the next change: %v %v", end, err)
	}
}

// A change that is confirmed stays, past its deadline.
func TestDeadlineConfirmed(t *testing.T) {
	testutils.RequireKernel(t)
	const now, deadline = uint64(1 << 40), uint64(1<<40 + 1000)
	first, second := deadlinePolicy("1", "8kbit", ""), deadlinePolicy("2", "8kbit", "")
	p := newPair(t, first.mustCompile(t, nil))
	d := &deadlineRun{pair: p, t: t}
	if err := d.apply(Change{now, d.inForce(second, now)}, deadline); err != nil {
		t.Fatal(err)
	}
	d.mirror.(*Mirror).Confirm(now)
	if err := d.kernel.changer.Confirm(now); err != nil {
		t.Fatal(err)
	}
	if mark, _ := d.send(deadline+1, 0, 1); mark != 2 {
		t.Errorf("mark %d, not that of the policy that was confirmed", mark)
	}
	if err := d.kernel.changer.Confirm(deadline + 1); !errors.Is(err, loader.ErrNotPending) {
		t.Errorf("confirmed twice: %v", err)
	}
}
