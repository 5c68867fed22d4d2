package contract

import "github.com/tricolor-policer/tricolor/marker"

// gcra is the generic cell rate algorithm (ITU-T I.371, virtual scheduling), for costs of any size. All it
// keeps is the theoretical arrival time, TAT: when the bucket would be full again.
//
//	next     max(TAT, now) + cost / r
//	admit    next - now <= B / r: TAT = next
//
// Both sides are multiplied by r, so TAT is work (time × r): it is exactly the token bucket, with
// Tc = B - (TAT - now) × r. In whole ns it would round up to 1 ns a packet.
type gcra struct {
	*terms
	tat wide
}

func (g *gcra) admit(now, cost uint64) verdict {
	at := g.work(now)
	next := g.tat.max(at).plus(wide{lo: cost * marker.Nano})
	ok := !at.plus(product(g.Burst, marker.Nano)).less(next)
	if ok {
		g.tat = next
	}
	return g.admits(ok, now)
}

// state is one timestamp, of 128 bits.
func (g *gcra) state() uint64 { return 16 }
