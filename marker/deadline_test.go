package marker

import "testing"

// A change that nobody confirmed, SPEC 3.7: past its deadline the policy before is in force again.

// dscpOf is a policy of one class, per flow, that marks what is green with this DSCP.
func dscpOf(t fataler, params Params, dscp uint8) *Plan {
	plan := one(t, params)
	plan.Classes[0].Actions[Green] = Action{Verbs: VerbDSCP, DSCP: dscp}
	return plan
}

// wantMarked polices a packet of flow 1 and compares what is left and the DSCP it leaves with.
func wantMarked(t *testing.T, what string, m *Mirror, bytes int, now uint64, dscp byte, tokens uint64) {
	t.Helper()
	f := from(1, bytes)
	wantChain(t, what, m, f, now, Green, tokens, 0)
	if got := f.Data[15] >> 2; got != dscp {
		t.Errorf("%s: DSCP %d, not %d", what, got, dscp)
	}
}

// unconfirmed is drained at 0 s, when a policy of 20 bytes/s takes over from one of 10 until 10 s.
func unconfirmed(t *testing.T) *Mirror {
	m := mirrorOf(t, dscpOf(t, rate(10, 1000), 1))
	wantMarked(t, "the old one", m, 1000, 0, 1, 0)
	apply(t, m, dscpOf(t, rate(20, 1000), 2), 0, 10*second)
	return m
}

func TestDeadline(t *testing.T) {
	t.Run("a nanosecond before", func(t *testing.T) {
		m := unconfirmed(t)
		wantMarked(t, "5 s by the new", m, 40, 5*second, 2, 60)
		f := from(1, 28)
		if m.Packet(&f, 10*second-1); f.Data[15]>>2 != 2 {
			t.Errorf("DSCP %d", f.Data[15]>>2)
		}
	})
	t.Run("at it", func(t *testing.T) {
		wantMarked(t, "10 s by the new", unconfirmed(t), 28, 10*second, 1, 200-28)
	})
	t.Run("long after", func(t *testing.T) {
		wantMarked(t, "10 s by the new, 10 s by the old", unconfirmed(t), 28, 20*second, 1, 300-28)
	})
	t.Run("touched before and after", func(t *testing.T) {
		m := unconfirmed(t)
		wantMarked(t, "5 s by the new", m, 100, 5*second, 2, 0)
		wantMarked(t, "5 s by the new, 1 s by the old", m, 28, 11*second, 1, 110-28)
		wantMarked(t, "1 s by the old", m, 28, 12*second, 1, 92-28)
	})
	t.Run("a clock behind it", func(t *testing.T) {
		m := unconfirmed(t)
		wantMarked(t, "after", m, 28, 20*second, 1, 300-28)
		// The packet is of the policy in force at its time, its bucket knows more, and earns nothing.
		wantMarked(t, "before", m, 28, 9*second, 2, 300-56)
		wantMarked(t, "1 s by the old", m, 28, 21*second, 1, 310-84)
		if got := m.Stats().Classes[0].ClockBack; got != 1 {
			t.Errorf("clock back %d", got)
		}
	})
	t.Run("confirmed", func(t *testing.T) {
		m := unconfirmed(t)
		m.Confirm(0)
		wantMarked(t, "20 s by the new", m, 28, 20*second, 2, 400-28)
	})
	t.Run("clamped to each", func(t *testing.T) {
		m := mirrorOf(t, dscpOf(t, rate(10, 1000), 1))
		m.Packet(ptr(from(1, 28)), 0)
		apply(t, m, dscpOf(t, rate(20, 50), 2), 0, 10*second)
		wantMarked(t, "50 of the new, 10 of the old", m, 28, 11*second, 1, 60-28)
	})
	t.Run("a bucket made meanwhile", func(t *testing.T) {
		m := mirrorOf(t, dscpOf(t, rate(10, 1000), 1))
		apply(t, m, dscpOf(t, rate(20, 100), 2), 0, 10*second)
		wantMarked(t, "full of the new", m, 100, 8*second, 2, 0)
		wantMarked(t, "2 s by the new, 1 s by the old", m, 28, 11*second, 1, 50-28)
	})
}

// The next Apply settles all by the policy that came back, up to its own stamp.
func TestDeadlineThenApply(t *testing.T) {
	for name, touched := range map[string]bool{"touched": true, "untouched": false} {
		t.Run(name, func(t *testing.T) {
			m := unconfirmed(t)
			spent := uint64(0)
			if touched {
				wantMarked(t, "came back", m, 28, 15*second, 1, 250-28)
				spent = 28
			}
			apply(t, m, dscpOf(t, rate(40, 1000), 3), 30*second, 0)
			// 10 s × 20, 20 s × 10, 1 s × 40.
			wantMarked(t, "the third", m, 28, 31*second, 3, 440-spent-28)
			apply(t, m, dscpOf(t, rate(5, 1000), 4), 32*second, 0)
			wantMarked(t, "the fourth", m, 28, 34*second, 4, 440-spent-28+40+10-28)
		})
	}
}

// A second change that lapses goes back to what was in force before it, which came back itself.
func TestDeadlineTwice(t *testing.T) {
	m := unconfirmed(t) // 10 s × 20, then 10 a second
	apply(t, m, dscpOf(t, rate(40, 1000), 3), 20*second, 25*second)
	wantMarked(t, "the third", m, 28, 21*second, 3, 300+40-28)
	wantMarked(t, "the first again", m, 28, 26*second, 1, 312+4*40+10-28)
	apply(t, m, dscpOf(t, rate(80, 1000), 4), 27*second, 28*second)
	wantMarked(t, "the first again", m, 28, 30*second, 1, 454+10+80+20-28)
	// Applied before the deadline, a change takes over from one that was not confirmed.
	apply(t, m, dscpOf(t, rate(1, 1000), 5), 30*second, 40*second)
	apply(t, m, dscpOf(t, rate(2, 1000), 6), 31*second, 32*second)
	wantMarked(t, "the one not confirmed", m, 28, 33*second, 5, 536+1+2+1-28)
}

// The policy that comes back is whole: its classes, prefix sets and counters.
func TestDeadlineClasses(t *testing.T) {
	old := planOf(t,
		testClass{name: "a", stats: 2, meters: []testMeter{{params: rate(1, 1000)}}},
		testClass{name: "rest", stats: 3, meters: []testMeter{{number: 2, params: rate(1, 1000)}}})
	old.Sets = []PrefixSet{entries("10.0.0.1/32", uint32(1))}
	old.setProfile(t, 1, 0, rate(1, 300))
	old.Rules[0].SrcSet = 1
	m := mirrorOf(t, old)
	next := planOf(t, testClass{name: "rest", stats: 3, meters: []testMeter{{number: 2, params: rate(1, 900)}}})
	apply(t, m, next, 0, 10*second)
	if out := wantChain(t, "the new one", m, from(1, 100), second, Green, 800, 0); out.Class != 0 {
		t.Errorf("class %d", out.Class)
	}
	if out := wantChain(t, "by its prefix", m, from(1, 100), 10*second, Green, 200, 0); out.Class != 0 || bucketOf(m, out, 0).Profile != 1 {
		t.Errorf("class %d", out.Class)
	}
	if out := wantChain(t, "by none: as one that never spent", m, from(2, 100), 10*second, Green, 800, 0); out.Class != 1 {
		t.Errorf("class %d", out.Class)
	}
	apply(t, m, old, 20*second, 0)
	if got := m.Stats().Classes; got[0].Packets[Green] != 1 || got[1].Packets[Green] != 2 {
		t.Errorf("counted %+v", got)
	}
}

// Past the deadline a bucket that was not touched is forgotten only when it is full by what it earned: 10 s
// by the policy that lapsed, and then by the old one. What a new bucket copies from overflow is settled alike.
func TestDeadlineForgets(t *testing.T) {
	lapsed := func() (*Mirror, []Key) {
		m := tiny(t, rate(100, 1000), MinFlows, 1)
		keys := crowd(m, 9, 3, 9)
		for _, k := range keys { // the last one is in overflow
			offer(m, k, 0, 1000, Green)
		}
		plan := *m.Plan()
		plan.Profiles = []Profile{plan.Profiles[0]}
		plan.Profiles[0].CIR = 1
		plan.Profiles[0].CFill = 1000 * second
		apply(t, m, &plan, 0, 10*second)
		return m, keys
	}
	for _, at := range []uint64{10 * second, 19*second + second*9/10 - 1} {
		m, keys := lapsed()
		if _, _, overflow := offer(m, keys[8], at, 0, Green); !overflow {
			t.Errorf("at %d ns: a bucket was forgotten that holds less than 1000 bytes", at)
		}
	}
	m, keys := lapsed()
	if _, _, overflow := offer(m, keys[8], 19*second+second*9/10, 0, Green); overflow {
		t.Error("10 × 1 + 9.9 × 100 bytes: nothing was forgotten")
	}
	m, _ = lapsed()
	other := crowd(m, 1, 4, 10)[0]
	if _, slot, overflow := offer(m, other, 11*second, 0, Green); overflow || slot.Bucket != (Bucket{Last: 11 * second, Tc: 110 * Nano}) {
		t.Errorf("overflow %v, %+v, not 10 × 1 + 1 × 100 bytes", overflow, slot.Bucket)
	}
}
