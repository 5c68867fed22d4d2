package certify

import (
	"math/bits"

	"github.com/tricolor-policer/tricolor/record"
)

// envelope bounds what a bucket lets through: at most burst + rate·T in any T.
type envelope struct {
	rate  uint64 // nanobytes per ns, which is bytes per second
	burst uint64 // nanobytes
}

// envelopesOf are what a profile promises: green ≤ CBS + CIR·T; green and yellow ≤ PBS + PIR·T of trtcm, else
// CBS + EBS + (CIR + EIR)·T, EIR being 0 of a meter without.
func envelopesOf(p *record.Profile) [envelopes]envelope {
	e := [envelopes]envelope{{p.CIR, p.CBS}}
	switch p.Meter {
	case "trtcm":
		e[Total] = envelope{p.XIR, p.XBS}
	case "rfc4115":
		e[Total] = envelope{p.CIR + p.XIR, add(p.CBS, p.XBS)}
	default:
		e[Total] = envelope{p.CIR, add(p.CBS, p.XBS)}
	}
	return e
}

// add is a sum that stays within 64 bits.
func add(a, b uint64) uint64 {
	sum, carry := bits.Add64(a, b, 0)
	if carry > 0 {
		return ^uint64(0)
	}
	return sum
}

// bucket is all that is kept of one.
type bucket struct {
	last    uint64 // ns: when its newest packet was counted
	policy  uint32
	profile uint32
	bound   [envelopes]usage
	held    ledger
	gave    bool // tokens for a packet
}

// usage is how much of an envelope is used, and since when.
type usage struct {
	used     uint64 // nanobytes
	from     Packet // the packet since which it was never 0
	accepted uint64 // nanobytes since, saturated
}

// count takes a packet. A red one lets time pass, as it did for the bucket: by the policy that it met, although the next may
// have been stamped already.
func (b *bucket) count(policies []record.Policy, e *event, result *Result) {
	if e.at.Time < b.last {
		result.Late++
	}
	bounds := envelopesOf(&policies[b.policy].Profiles[b.profile])
	// A bucket that went over to a newer policy earned by the old one up to the change; an older packet does not
	// bring the old one back.
	if e.policy > b.policy || e.policy == b.policy && e.profile != b.profile {
		since := max(b.last, min(policies[e.policy].Since, e.at.Time))
		b.drain(&bounds, since)
		before, now := &policies[b.policy].Profiles[b.profile], &policies[e.policy].Profiles[e.profile]
		bounds = b.change(bounds, before, now, result)
		b.policy, b.profile = e.policy, e.profile
	}
	b.drain(&bounds, e.at.Time)
	if e.color == record.Red {
		return
	}
	b.gave = true
	for i := range b.bound {
		if i == Green && e.color != record.Green {
			continue
		}
		b.bound[i].take(&bounds[i], i, e, result)
	}
}

// drain lets time pass.
func (b *bucket) drain(bounds *[envelopes]envelope, now uint64) {
	if now <= b.last {
		return
	}
	for i := range b.bound {
		u := &b.bound[i]
		if hi, earned := bits.Mul64(now-b.last, bounds[i].rate); hi > 0 || earned >= u.used {
			*u = usage{}
		} else {
			u.used -= earned
		}
	}
	b.last = now
}

// change goes over to other envelopes: what was left is left, as far as the new burst holds it.
func (b *bucket) change(old [envelopes]envelope, before, now *record.Profile, result *Result) [envelopes]envelope {
	bounds := envelopesOf(now)
	if b.bound[Green].used == 0 && b.bound[Total].used == 0 {
		return bounds // it may have been full, forgotten, and be a new one by the new policy
	}
	for i := range b.bound {
		u := &b.bound[i]
		left := old[i].burst - min(u.used, old[i].burst)
		if i == Total && before.Meter != now.Meter && (before.Meter == "trtcm" || now.Meter == "trtcm") {
			// Its second bucket counted other packets: green and yellow together have no envelope over both.
			result.Spans++
			*u = usage{}
			continue
		}
		if left >= bounds[i].burst {
			*u = usage{}
			continue
		}
		u.used = bounds[i].burst - left
	}
	return bounds
}

// take counts a packet, and compares with the envelope.
func (u *usage) take(bound *envelope, which int, e *event, result *Result) {
	if u.accepted == 0 {
		u.from = e.at
	}
	u.used, u.accepted = add(u.used, e.cost), add(u.accepted, e.cost)
	i := Interval{
		Key: e.key, Envelope: which, From: u.from, To: e.at, Accepted: u.accepted / nano,
		Burst: bound.burst, Packets: e.packets,
	}
	if u.used > bound.burst {
		i.Over = u.used - bound.burst
		if result.Breaks++; result.Breaks == 1 {
			result.Broken = i
		}
		u.used = bound.burst // so that each excess is told once
		return
	}
	i.Left = bound.burst - u.used
	if result.Tightest.To.Number == 0 || tighter(&i, &result.Tightest) {
		result.Tightest = i
	}
}

// tighter reports whether a smaller share of the burst was left.
func tighter(a, b *Interval) bool {
	ah, al := bits.Mul64(a.Left, b.Burst)
	bh, bl := bits.Mul64(b.Left, a.Burst)
	return ah < bh || ah == bh && al < bl
}
