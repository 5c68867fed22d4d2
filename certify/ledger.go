package certify

import (
	"math/bits"

	"github.com/tricolor-policer/tricolor/record"
)

// ledger is what a bucket held after its newest packet, as was recorded. It bounds what the bucket can have held after
// the next one: what it held and earned, as far as its bursts hold that, less what the packet took. What is over that
// was forged, or made by no policer. Less is nothing to object to: a packet between them may have been lost.
type ledger struct {
	kept    bool // anything was recorded
	last    uint64
	policy  uint32
	profile uint32
	c, x    uint64 // nanobytes
}

// take enters a packet. Returns false if the bucket cannot hold what was recorded. Over a change of policy or
// profile it compares nothing.
func (l *ledger) take(p *record.Profile, e *event) bool {
	before := *l
	if before.kept && e.at.Time < before.last {
		return true // it stands out of order, which is counted
	}
	*l = ledger{true, e.at.Time, e.policy, e.profile, e.c, e.x}
	if !before.kept || e.policy != before.policy || e.profile != before.profile {
		return true
	}
	elapsed := e.at.Time - before.last
	var fromC, fromX uint64
	if e.color == record.Green {
		fromC = e.cost
	}
	if e.color == record.Yellow || e.color == record.Green && p.Meter == "trtcm" {
		fromX = e.cost
	}
	if add(e.c, fromC) > most(before.c, p.CIR, p.CBS, elapsed) {
		return false
	}
	switch {
	case p.Meter == "trtcm", p.Meter == "rfc4115" && !p.Coupling:
		return add(e.x, fromX) <= most(before.x, p.XIR, p.XBS, elapsed)
	case p.Meter == "rfc4115":
		return total(e.c, e.x, fromC, fromX) <= most(add(before.c, before.x), add(p.CIR, p.XIR), add(p.CBS, p.XBS), elapsed)
	}
	// What E of srtcm earns is what C could not hold.
	return total(e.c, e.x, fromC, fromX) <= most(add(before.c, before.x), p.CIR, add(p.CBS, p.XBS), elapsed)
}

func total(a, b, c, d uint64) uint64 { return add(add(a, b), add(c, d)) }

// most is what a bucket of a burst can hold at most, an elapsed time after it held so much.
func most(held, rate, burst, elapsed uint64) uint64 {
	if elapsed == 0 {
		return held // which may be over the burst: a smaller one was put in force
	}
	hi, earned := bits.Mul64(elapsed, rate)
	if hi > 0 {
		return burst
	}
	return min(burst, add(held, earned))
}
