package marker_test

import (
	"fmt"
	"testing"

	"github.com/tricolor-policer/tricolor/marker"
	"pgregory.net/rapid"
)

// At the told time a packet has the colour, one ns earlier it has not; with the told tokens more it has it, with one
// nanobyte less it has not; and what is told to be never does not come.
func TestShort(t *testing.T) {
	for _, meter := range meterTypes {
		t.Run(meter.String(), func(t *testing.T) {
			needs := map[marker.Need]bool{}
			rapid.Check(t, func(t *rapid.T) {
				tr := genTrace(fromRapid(t), meter, widest)
				err := shipped.run(tr, func(s step) error {
					for want := marker.Green; want < marker.Red; want++ {
						short := s.profile.Short(s.before, s.now, s.bytes*marker.Nano, s.in, want)
						needs[short.Need] = true
						if err := shortHolds(&s, short, want); err != nil {
							return fmt.Errorf("%v: %+v: %w", want, short, err)
						}
					}
					return nil
				})
				if err != nil {
					t.Fatalf("%v\n%v", err, tr)
				}
			})
			for _, need := range []marker.Need{marker.NeedNothing, marker.NeedTokens, marker.NeedBurst, marker.NeedArrival} {
				if !needs[need] {
					t.Errorf("no packet needed %v", need)
				}
			}
		})
	}
}

// shortHolds holds what Short says of a packet against the meter itself.
func shortHolds(s *step, short marker.Short, want marker.Color) error {
	cost := s.bytes * marker.Nano
	gets := func(b marker.Bucket, now uint64) bool {
		s.profile.Refill(&b, now)
		return s.profile.Color(&b, cost, s.in) <= want
	}
	if got := gets(s.before, s.now); got != (short.Need == marker.NeedNothing) {
		return fmt.Errorf("it gets it: %v", got)
	}
	switch short.Need {
	case marker.NeedNothing:
		if short != (marker.Short{}) {
			return fmt.Errorf("yet something is lacking")
		}
		return nil
	case marker.NeedTokens:
		if !gets(s.before, s.now+short.Wait) {
			return fmt.Errorf("it does not get it when told")
		}
		if gets(s.before, s.now+short.Wait-1) {
			return fmt.Errorf("it gets it 1 ns earlier")
		}
	case marker.NeedBurst, marker.NeedArrival:
		full := marker.Bucket{Last: s.before.Last, Tc: s.profile.CBS, Tx: s.profile.XBS}
		if gets(full, s.now) {
			return fmt.Errorf("a full bucket gives it")
		}
	case marker.NeedRate:
		if gets(s.before, ^uint64(0)-1) {
			return fmt.Errorf("the clock's end gives it")
		}
	}
	if short.Need == marker.NeedArrival {
		return nil
	}
	more := func(c, x uint64) bool {
		b := s.refilled
		b.Tc += c
		b.Tx += x
		return s.profile.Color(&b, cost, s.in) <= want
	}
	if !more(short.C, short.X) {
		return fmt.Errorf("the tokens told do not give it")
	}
	if short.C > 0 && more(short.C-1, short.X) || short.X > 0 && more(short.C, short.X-1) {
		return fmt.Errorf("a nanobyte less gives it")
	}
	return nil
}

// The same of a chain of up to three meters, whose later ones may see a worse colour than the packet's own.
func TestChainWait(t *testing.T) {
	found := map[string]int{}
	holds := func(d draw) error {
		now := 1 + d(1e18)
		var chain []marker.ChainMeter
		var bursts []uint64
		for range 1 + d(marker.MaxChain-1) {
			params := genParams(d, meterTypes[d(3)])
			profile, err := params.Compile()
			if err != nil {
				return err
			}
			b := marker.Bucket{Last: now - d(1), Tc: d(profile.CBS), Tx: d(profile.XBS)}
			if d(7) == 0 {
				b.Last += d(1e10)
			}
			chain = append(chain, marker.ChainMeter{Profile: &profile, Bucket: b})
			bursts = append(bursts, profile.CBS, profile.XBS)
		}
		cost := []uint64{0, d(bursts[d(uint64(len(bursts)-1))]), d(1500), d(marker.CostMax) * marker.Nano}[d(3)]
		in, want := marker.Color(d(2)), marker.Color(d(1))
		wait, ok := marker.ChainWait(chain, now, cost, in, want)
		color := func(at uint64) marker.Color { return marker.ChainColor(chain, at, cost, in) }
		switch {
		case !ok:
			found["never"]++
			if end := uint64(1<<64 - 2); color(end) <= want {
				return fmt.Errorf("never %v, but %v at the clock's end: %+v", want, color(end), chain)
			}
		case wait == 0:
			found["now"]++
			if color(now) > want {
				return fmt.Errorf("%v now, not %v: %+v", color(now), want, chain)
			}
		default:
			found["later"]++
			if color(now+wait) > want || color(now+wait-1) <= want {
				return fmt.Errorf("after %d ns %v, 1 ns earlier %v: not first %v: %+v", wait, color(now+wait), color(now+wait-1), want, chain)
			}
		}
		return nil
	}
	rapid.Check(t, func(t *rapid.T) {
		if err := holds(fromRapid(t)); err != nil {
			t.Fatal(err)
		}
	})
	// Quicker and many more: what a worse colour before does to a later meter is rare.
	for seed := range uint64(20_000) {
		if err := holds(fromSeed(seed, 1)); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	if len(found) != 3 {
		t.Errorf("not all was met: %v", found)
	}
}
