package demo

import (
	"time"

	"github.com/tricolor-policer/tricolor/marker"
)

// A check is two numbers that came about apart from each other: the far side's, and what it should be.
type check struct {
	of        string // a flow, or a part; empty where the claim says it all
	far, want uint64
}

// A relation is how the far side's number stands to the other one.
type relation string

// The relations.
const (
	equal   relation = "="
	atMost  relation = "≤"
	atLeast relation = "≥"
)

// A claim is checks of one kind.
type claim struct {
	what   string
	how    relation
	checks []check
}

// holds reports whether a check agrees.
func (c *claim) holds(k check) bool {
	switch c.how {
	case atMost:
		return k.far <= k.want
	case atLeast:
		return k.far >= k.want
	default:
		return k.far == k.want
	}
}

// prove makes the claims of what was measured.
func prove(e *evidence) []claim {
	var claims []claim
	add := func(what string, how relation, checks ...check) {
		claims = append(claims, claim{what, how, checks})
	}
	for _, c := range []struct {
		color marker.Color
		dscp  int
		mark  string
	}{{marker.Green, af11, "AF11"}, {marker.Yellow, af12, "AF12"}} {
		add("packets marked "+c.mark+": the "+c.color.String()+" ones", equal, e.each(every, func(f *flowEvidence) (far, want uint64) {
			return f.seen.DSCP[c.dscp].Packets, f.packets[c.color]
		})...)
		add("bytes marked "+c.mark, equal, e.each(every, func(f *flowEvidence) (far, want uint64) {
			return f.seen.DSCP[c.dscp].Bytes, f.bytes[c.color]
		})...)
	}
	add("packets with the ECN bits they were sent with", equal, e.each(every, func(f *flowEvidence) (far, want uint64) {
		packets, _ := f.through()
		return f.seen.ECN[f.flow.ecn].Packets, packets
	})...)
	add("UDP packets missing: the red ones", equal, e.each(isUDP, func(f *flowEvidence) (far, want uint64) {
		return f.sent - f.received, f.packets[marker.Red]
	})...)
	add("TCP bytes read: those written", equal, e.each(isTCP, func(f *flowEvidence) (far, want uint64) {
		return f.received, f.sent
	})...)
	e.proveWhole(add)
	e.provePromise(add)
	return claims
}

// proveWhole is about all that arrived, whatever it is of.
func (e *evidence) proveWhole(add func(what string, how relation, checks ...check)) {
	green, yellow := e.total.DSCP[af11], e.total.DSCP[af12]
	add("packets in all: the class's counters", equal,
		check{"green", green.Packets, e.class.Packets[marker.Green]},
		check{"yellow", yellow.Packets, e.class.Packets[marker.Yellow]})
	add("bytes in all", equal,
		check{"green", green.Bytes, e.class.Bytes[marker.Green]},
		check{"yellow", yellow.Bytes, e.class.Bytes[marker.Yellow]})
	add("packets marked otherwise, or not IP", equal,
		check{"marked otherwise", e.total.Total.Packets - green.Packets - yellow.Packets, 0},
		check{"not IP", e.total.Ignored, 0})
	add("wrong checksums: IPv4, UDP, TCP", equal,
		check{"IPv4 headers", e.total.BadChecksums, 0},
		check{"UDP and TCP", e.badChecksums, 0})
	// Without these, no other number means anything.
	missed := e.each(every, func(f *flowEvidence) (far, want uint64) { return f.seen.Dropped + f.lost, 0 })
	add("packets that the observers missed", equal, append(missed, check{"the capture of all", e.total.Dropped, 0})...)
}

// provePromise is about the meter: a bucket is full at first, and what it earns is bounded by the time
// from before the first send to when nothing could follow.
func (e *evidence) provePromise(add func(what string, how relation, checks ...check)) {
	p := &e.profile
	cbs, ebs := p.CBS/marker.Nano, p.XBS/marker.Nano
	earned := func(f *flowEvidence) uint64 { return p.CIR * uint64(f.took) / uint64(time.Second) }
	add("green bytes: at most CBS + CIR·T", atMost, e.each(every, func(f *flowEvidence) (far, want uint64) {
		return f.seen.DSCP[af11].Bytes, cbs + earned(f)
	})...)
	add("all bytes: at most CBS + EBS + CIR·T", atMost, e.each(every, func(f *flowEvidence) (far, want uint64) {
		return f.seen.Total.Bytes, cbs + ebs + earned(f)
	})...)
	// At the first red packet each bucket holds less than it.
	add("UDP bytes: all, or at least CBS + EBS", atLeast, e.each(isUDP, func(f *flowEvidence) (far, want uint64) {
		return f.seen.Total.Bytes, min(f.sent*packetLen, cbs+ebs-2*(packetLen-1))
	})...)
}

func every(*flow) bool   { return true }
func isTCP(f *flow) bool { return f.tcp() }
func isUDP(f *flow) bool { return !f.tcp() }

// each makes a check of every flow that is wanted.
func (e *evidence) each(wanted func(*flow) bool, of func(*flowEvidence) (far, want uint64)) (checks []check) {
	for i := range e.flows {
		if f := &e.flows[i]; wanted(&f.flow) {
			far, want := of(f)
			checks = append(checks, check{f.flow.String(), far, want})
		}
	}
	return checks
}
