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
		add(c.mark+" packets, to be those counted "+c.color.String(), equal, e.each(every, func(f *flowEvidence) (far, want uint64) {
			return f.seen.DSCP[c.dscp].Packets, f.packets[c.color]
		})...)
		add(c.mark+" bytes", equal, e.each(every, func(f *flowEvidence) (far, want uint64) {
			return f.seen.DSCP[c.dscp].Bytes, f.bytes[c.color]
		})...)
	}
	add("UDP packets lost, to be those counted red", equal, e.each(isUDP, func(f *flowEvidence) (far, want uint64) {
		return f.sent - f.received, f.packets[marker.Red]
	})...)
	add("TCP bytes read, to be those written", equal, e.each(isTCP, func(f *flowEvidence) (far, want uint64) {
		return f.received, f.sent
	})...)
	add("ECN bits as they were sent", equal, e.each(every, func(f *flowEvidence) (far, want uint64) {
		packets, _ := f.through()
		return f.seen.ECN[f.flow.ecn].Packets, packets
	})...)

	add("whatever arrived, to be the class's counters", equal, e.whole()...)
	add("packets with another mark, or not IP", equal,
		check{"with another mark", e.total.Total.Packets - e.total.DSCP[af11].Packets - e.total.DSCP[af12].Packets, 0},
		check{"not IP", e.total.Ignored, 0})
	add("wrong checksums", equal,
		check{"IPv4 headers", e.total.BadChecksums, 0},
		check{"TCP and UDP", e.badChecksums, 0})
	add("lost by the captures and receivers", equal, e.lost()...)

	// The promise. A bucket is full at first; what it earns is bounded by the time from before the
	// first send to when nothing could follow.
	p := &e.profile
	cbs, ebs := p.CBS/marker.Nano, p.XBS/marker.Nano
	earned := func(f *flowEvidence) uint64 { return p.CIR * uint64(f.took) / uint64(time.Second) }
	add("green bytes, at most CBS + CIR·T", atMost, e.each(every, func(f *flowEvidence) (far, want uint64) {
		return f.seen.DSCP[af11].Bytes, cbs + earned(f)
	})...)
	add("all bytes, at most CBS + EBS + CIR·T", atMost, e.each(every, func(f *flowEvidence) (far, want uint64) {
		return f.seen.Total.Bytes, cbs + ebs + earned(f)
	})...)
	// Where a packet is red, both buckets had less than it.
	add("all bytes, at least CBS + EBS or all sent", atLeast, e.each(isUDP, func(f *flowEvidence) (far, want uint64) {
		return f.seen.Total.Bytes, min(f.sent*packetLen, cbs+ebs-2*(packetLen-1))
	})...)
	return claims
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

// whole holds the capture of everything against the counters of the class.
func (e *evidence) whole() []check {
	green, yellow := e.total.DSCP[af11], e.total.DSCP[af12]
	return []check{
		{"green packets", green.Packets, e.class.Packets[marker.Green]},
		{"green bytes", green.Bytes, e.class.Bytes[marker.Green]},
		{"yellow packets", yellow.Packets, e.class.Packets[marker.Yellow]},
		{"yellow bytes", yellow.Bytes, e.class.Bytes[marker.Yellow]},
	}
}

// lost is what the observers themselves missed, without which no other number means anything.
func (e *evidence) lost() []check {
	return append(e.each(every, func(f *flowEvidence) (far, want uint64) { return f.seen.Dropped + f.lost, 0 }),
		check{"the capture of all", e.total.Dropped, 0})
}
