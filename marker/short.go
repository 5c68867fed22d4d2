package marker

import (
	"math"
	"slices"
)

// How far a packet is from a colour: what its buckets lack of tokens, and when they would have them if nothing
// else came. All of it follows from profile, state, time, cost and arrival colour.

// Need says what a packet needs to get a colour.
type Need uint8

// What a packet needs to get a colour.
const (
	NeedNothing Need = iota // it gets it
	NeedTokens              // tokens that will be earned
	NeedBurst               // never: the packet is larger than the burst
	NeedRate                // never: tokens that are not earned, or not before the clock's end
	NeedArrival             // never: it arrives in a colour that rules it out
)

var needNames = []string{"nothing", "tokens", "burst", "rate", "arrival"}

// String returns the need's word in JSON.
func (n Need) String() string { return needNames[n] }

// Short is what a packet lacks to get a colour or a better one.
type Short struct {
	Need Need
	C, X uint64 // nanobytes more with which each bucket would give it, whatever they could hold; NeedArrival: 0
	Wait uint64 // ns after which it would get it if nothing else came; at least 1 with NeedTokens, else 0
}

// never is a wait without an end.
const never = math.MaxUint64

// Short says what a packet of cost nanobytes lacks at now (ns) to be judged want or better, where it arrives as in.
func (p *Profile) Short(b Bucket, now, cost uint64, in, want Color) Short {
	p.Refill(&b, now)
	if p.Color(&b, cost, in) <= want {
		return Short{}
	}
	in = p.arrival(in)
	if in > want || p.Meter == Token && in != Green {
		return Short{Need: NeedArrival}
	}
	lackC, lackX := lack(cost, b.Tc), lack(cost, b.Tx)
	s := Short{Need: NeedTokens}
	var large bool // for the burst
	switch {
	case p.Meter == Token:
		s.C, s.Wait, large = lackC, p.waitC(&b, cost), cost > p.CBS
	case p.Meter == TRTCM && want == Green:
		s.C, s.X, large = lackC, lackX, cost > min(p.CBS, p.XBS)
		s.Wait = max(p.waitC(&b, cost), p.waitX(&b, cost))
	case want == Green:
		s.C, s.Wait, large = lackC, p.waitC(&b, cost), cost > p.CBS
	default:
		s.X, s.Wait, large = lackX, p.waitX(&b, cost), cost > p.XBS
		if in == Green && p.Meter != TRTCM { // where C is full sooner it is green, which is better
			s.Wait = min(s.Wait, p.waitC(&b, cost))
			large = large && cost > p.CBS
		}
	}
	// Nothing is earned before the bucket's own time.
	if s.Wait == never || s.Wait > never-b.Last {
		s.Need, s.Wait = NeedRate, 0
		if large {
			s.Need = NeedBurst
		}
		return s
	}
	s.Wait += b.Last - now
	return s
}

// lack is how many tokens are lacking for a cost.
func lack(cost, tokens uint64) uint64 { return cost - min(cost, tokens) }

// earnTime is how many ns a rate takes to earn.
func earnTime(nanobytes, rate uint64) uint64 {
	if nanobytes == 0 {
		return 0
	}
	if rate == 0 {
		return never
	}
	return (nanobytes + rate - 1) / rate
}

// waitC is how many ns of earning C takes to hold cost.
func (p *Profile) waitC(b *Bucket, cost uint64) uint64 {
	if cost > p.CBS {
		return never
	}
	return earnTime(lack(cost, b.Tc), p.CIR)
}

// waitX is waitC for the second bucket. It has what it earns by itself, or that and what C cannot hold,
// whichever is more: the first to reach the cost decides.
func (p *Profile) waitX(b *Bucket, cost uint64) uint64 {
	if cost > p.XBS {
		return never
	}
	short := lack(cost, b.Tx)
	wait := earnTime(short, p.XIR)
	if short > 0 && (p.Meter == SRTCM || p.Coupling) {
		wait = min(wait, earnTime(short+p.CBS-b.Tc, p.XIR+p.CIR))
	}
	return wait
}

// ChainMeter is a meter of a chain: its profile and its bucket.
type ChainMeter struct {
	Profile *Profile
	Bucket  Bucket
}

// ChainColor is the colour that a chain gives a packet of cost nanobytes at now (ns): the worst of its meters.
func ChainColor(chain []ChainMeter, now, cost uint64, in Color) (worst Color) {
	for i := range chain {
		b := chain[i].Bucket
		chain[i].Profile.Refill(&b, now)
		worst = max(worst, chain[i].Profile.Color(&b, cost, in))
		in = worst
	}
	return worst
}

// ChainWait is how many ns after now (ns) a chain would give a packet of cost nanobytes want or better if nothing
// else came; ok is false where it never would.
func ChainWait(chain []ChainMeter, now, cost uint64, in, want Color) (wait uint64, ok bool) {
	// Tokens only grow, and a better colour before never makes a meter's worse: the chain's colour improves
	// with time, and only where that of a meter does.
	waits := []uint64{0}
	for i := range chain {
		arrivals := []Color{Green, Yellow}
		if i == 0 {
			arrivals = []Color{in}
		}
		for _, in := range arrivals {
			for _, want := range []Color{Green, Yellow} {
				waits = append(waits, chain[i].Profile.Short(chain[i].Bucket, now, cost, in, want).Wait)
			}
		}
	}
	slices.Sort(waits)
	for _, wait := range slices.Compact(waits) {
		if ChainColor(chain, now+wait, cost, in) <= want {
			return wait, true
		}
	}
	return 0, false
}
