package contract

import (
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tricolor-policer/tricolor/marker"
)

// drawn draws parameters and arrivals by time: small ones that meet every edge, and ones of real size at a real date.
func drawn(t *rapid.T) (p Params, in []Arrival) {
	if rapid.Bool().Draw(t, "small") {
		p = Params{
			Rate: rapid.Uint64Range(1, 9).Draw(t, "rate"), Burst: rapid.Uint64Range(1, 9).Draw(t, "burst"),
			Window: second * rapid.Uint64Range(1, 5).Draw(t, "window"), Queue: rapid.Uint64Range(0, 9).Draw(t, "queue"),
		}
		now := uint64(0)
		for range rapid.IntRange(1, 60).Draw(t, "n") {
			now += rapid.SampledFrom([]uint64{0, 1, second / 10, second/10 + 1, second / 3, second, p.Window, 2*p.Window + 1}).Draw(t, "step")
			in = append(in, Arrival{now, rapid.Uint64Range(0, 4).Draw(t, "cost")})
		}
		return p, in
	}
	p = Params{
		Rate: rapid.Uint64Range(1000, marker.MaxRate).Draw(t, "rate"), Burst: rapid.Uint64Range(1, marker.MaxBurst).Draw(t, "burst"),
		Window: rapid.Uint64Range(1_000_000, 10*second).Draw(t, "window"), Queue: rapid.Uint64Range(0, marker.MaxBurst).Draw(t, "queue"),
	}
	now := 1_766_000_000 * second
	for range rapid.IntRange(1, 60).Draw(t, "n") {
		now += rapid.Uint64Range(0, 2*p.Window).Draw(t, "step")
		in = append(in, Arrival{now, rapid.Uint64Range(0, 2*p.Quota()/4+1).Draw(t, "cost") % (marker.MaxCost + 1)})
	}
	return p, in
}

// fraction is a / b.
func fraction(a, b uint64) *big.Rat {
	return new(big.Rat).SetFrac(new(big.Int).SetUint64(a), new(big.Int).SetUint64(b))
}

func whole(n uint64) *big.Rat { return fraction(n, 1) }

func sum(a ...*big.Rat) *big.Rat {
	s := new(big.Rat)
	for _, v := range a {
		s.Add(s, v)
	}
	return s
}

// oracle says, from its definition alone and in fractions, whether a contract admits an arrival after the
// admissions before it.
var oracle = map[Kind]func(p Params, before []Arrival, a Arrival) bool{
	Fixed: func(p Params, before []Arrival, a Arrival) bool {
		used := whole(a.Cost)
		for _, b := range before {
			if b.Time/p.Window == a.Time/p.Window {
				used.Add(used, whole(b.Cost))
			}
		}
		return used.Cmp(whole(p.Quota())) <= 0
	},
	Log: func(p Params, before []Arrival, a Arrival) bool {
		used := whole(a.Cost)
		for _, b := range before {
			if b.Time+p.Window > a.Time {
				used.Add(used, whole(b.Cost))
			}
		}
		return used.Cmp(whole(p.Quota())) <= 0
	},
	Counter: func(p Params, before []Arrival, a Arrival) bool {
		used := whole(a.Cost)
		overlap := sum(whole(1), new(big.Rat).Neg(fraction(a.Time%p.Window, p.Window)))
		for _, b := range before {
			switch b.Time / p.Window {
			case a.Time / p.Window:
				used.Add(used, whole(b.Cost))
			case a.Time/p.Window - 1:
				used.Add(used, new(big.Rat).Mul(overlap, whole(b.Cost)))
			}
		}
		return used.Cmp(whole(p.Quota())) <= 0
	},
	Shaper: func(p Params, before []Arrival, a Arrival) bool {
		free := new(big.Rat) // s
		for _, b := range before {
			if at := fraction(b.Time, second); at.Cmp(free) > 0 {
				free = at
			}
			free = sum(free, fraction(b.Cost, p.Rate))
		}
		wait := sum(free, new(big.Rat).Neg(fraction(a.Time, second)))
		return wait.Cmp(fraction(p.Queue, p.Rate)) <= 0
	},
}

// disagrees returns the first arrival on which a contract and its oracle disagree; -1: none.
func disagrees(kind Kind, c contract, p Params, in []Arrival) int {
	var before []Arrival
	for i, a := range in {
		got := c.admit(a.Time, a.Cost).admitted
		if got != oracle[kind](p, before, a) {
			return i
		}
		if got {
			before = append(before, a)
		}
	}
	return -1
}

func TestOracle(t *testing.T) {
	for kind := range oracle {
		t.Run(kind.String(), rapid.MakeCheck(func(t *rapid.T) {
			p, in := drawn(t)
			terms, err := p.compile()
			if err != nil {
				t.Fatal(err)
			}
			if i := disagrees(kind, makers[kind](terms), p, in); i >= 0 {
				t.Fatalf("%+v: arrival %d of %v", p, i+1, in)
			}
		}))
	}
}

// The oracle sees what is broken in the contracts of which the audit promises nothing.
func TestOracleSeesMutants(t *testing.T) {
	p := Params{Rate: 3, Burst: 1, Window: 2 * second, Queue: 0}
	var in []Arrival
	for i := range uint64(80) {
		in = append(in, Arrival{i * second / 10, 1 + i%3})
	}
	// A quota, and what just fails and just comes behind it.
	in = append(in, Arrival{100 * second, 6}, Arrival{102*second - 1, 1}, Arrival{102 * second, 1})
	for _, m := range []struct {
		name string
		kind Kind
		make func(t *terms) contract
	}{
		{"log admits one more", Log, func(t *terms) contract { t.quota++; return makers[Log](t) }},
		{"log refuses an exact fit", Log, func(t *terms) contract { t.quota--; return makers[Log](t) }},
		{"log forgets a nanosecond late", Log, func(t *terms) contract { t.Window++; return makers[Log](t) }},
		{"log forgets a nanosecond early", Log, func(t *terms) contract { t.Window--; return makers[Log](t) }},
		{"counter admits one more", Counter, func(t *terms) contract { t.quota++; return makers[Counter](t) }},
		{"counter refuses an exact fit", Counter, func(t *terms) contract { t.quota--; return makers[Counter](t) }},
		{"counter counts none of the previous window", Counter, func(t *terms) contract {
			c := &counter{terms: t}
			return &tamper{c, func(_ contract, _, _ uint64) { c.previous = 0 }}
		}},
		{"counter counts all of the previous window", Counter, func(t *terms) contract {
			c := &counter{terms: t}
			return &tamper{c, func(_ contract, now, cost uint64) {
				c.estimate(now)
				c.current += c.previous
				c.previous = 0
			}}
		}},
	} {
		t.Run(m.name, func(t *testing.T) {
			terms, err := p.compile()
			if err != nil {
				t.Fatal(err)
			}
			if disagrees(m.kind, m.make(terms), p, in) < 0 {
				t.Error("the oracle agrees")
			}
			if terms, _ := p.compile(); disagrees(m.kind, makers[m.kind](terms), p, in) >= 0 {
				t.Error("the oracle disagrees with what is not broken")
			}
		})
	}
}

// GCRA with one timestamp is the token bucket, request by request, whatever the size and the date.
func TestTokenIsGCRA(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, in := drawn(t)
		terms, err := p.compile()
		if err != nil {
			t.Fatal(err)
		}
		token, gcra := makers[Token](terms), makers[GCRA](terms)
		for i, a := range in {
			if x, y := token.admit(a.Time, a.Cost), gcra.admit(a.Time, a.Cost); x != y {
				t.Fatalf("%+v: arrival %d of %v: token %v, GCRA %v", p, i+1, in, x, y)
			}
		}
	})
}

// What a row says is what looking at every interval says.
func TestMeasures(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, in := drawn(t)
		c, err := New(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range in {
			c.Arrive(marker.Key{}, a)
		}
		for _, row := range c.Rows() {
			terms, _ := p.compile()
			contract := makers[row.Contract](terms)
			var times []*big.Int // × rate
			var costs []uint64
			delay := new(big.Int)
			for _, a := range in {
				if v := contract.admit(a.Time, a.Cost); v.admitted {
					times, costs = append(times, v.leaves.big()), append(costs, a.Cost)
					if wait := new(big.Int).Sub(v.leaves.big(), product(a.Time, p.Rate).big()); wait.Cmp(delay) > 0 {
						delay = wait
					}
				}
			}
			excess, most := new(big.Int), uint64(0)
			for first := range times {
				cost := new(big.Int)
				inWindow := uint64(0)
				for last := first; last < len(times); last++ {
					cost.Add(cost, product(costs[last], marker.Nano).big())
					span := new(big.Int).Sub(times[last], times[first])
					over := new(big.Int).Sub(cost, span)
					over.Sub(over, product(p.Burst, marker.Nano).big())
					if over.Cmp(excess) > 0 {
						excess = over
					}
					if span.Cmp(product(p.Window, p.Rate).big()) < 0 {
						inWindow += costs[last]
					}
				}
				most = max(most, inWindow)
			}
			rounded := new(big.Int).Add(delay, new(big.Int).SetUint64(p.Rate-1))
			rounded.Div(rounded, new(big.Int).SetUint64(p.Rate))
			if row.Excess.Cmp(excess) != 0 || row.MostInWindow != most || rounded.Cmp(new(big.Int).SetUint64(row.WorstDelay)) != 0 ||
				row.Packets != uint64(len(costs)) {
				t.Fatalf("%+v, %v: %+v, want %v over, %d in a window, %v ns", p, in, row, excess, most, rounded)
			}
		}
	})
}

// Keys do not touch each other, and a row is of the worst of them.
func TestKeys(t *testing.T) {
	c, err := New(reference)
	if err != nil {
		t.Fatal(err)
	}
	arrivals, err := scenario("edge").Arrivals(reference, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range arrivals {
		c.Arrive(marker.Key{1}, a)
		c.Arrive(marker.Key{2}, a)
	}
	alone := compared(t, reference, arrivals)
	for kind, row := range c.Rows() {
		one := alone[kind]
		if row.Packets != 2*one.Packets || row.MostInWindow != one.MostInWindow || row.Excess.Cmp(one.Excess) != 0 || row.WorstDelay != one.WorstDelay || row.State != one.State {
			t.Errorf("two keys %+v, one %+v", row, one)
		}
	}
}

// A clock that steps back counts as standing still, for each key.
func TestClockBack(t *testing.T) {
	back := []Arrival{{10 * second, 8}, {5 * second, 1}, {10*second + second/5, 1}, {2 * second, 1}}
	still := []Arrival{{10 * second, 8}, {10 * second, 1}, {10*second + second/5, 1}, {10*second + second/5, 1}}
	a, b := compared(t, reference, back), compared(t, reference, still)
	for kind := range a {
		if a[kind].Packets != b[kind].Packets || a[kind].WorstDelay != b[kind].WorstDelay || a[kind].Excess.Cmp(b[kind].Excess) != 0 {
			t.Errorf("back %+v, still %+v", a[kind], b[kind])
		}
	}
	if a[Token].Packets != 2 {
		t.Errorf("token admits %d, want the first and the third", a[Token].Packets)
	}
}

// Every scenario's arrivals stand in order, whatever the contract; an edge's last is as late as in the default, in
// windows; a steady one is all admitted where a burst
// of two is allowed.
func TestScenarios(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Params{
			Rate: rapid.Uint64Range(1, 2000).Draw(t, "rate"), Burst: rapid.Uint64Range(2, 300).Draw(t, "burst"),
			Window: rapid.Uint64Range(second, 9*second).Draw(t, "window"),
		}
		size := rapid.Uint64Range(1, 3).Draw(t, "size")
		for _, s := range Scenarios {
			in, err := s.Arrivals(p, size)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.IsSortedFunc(in, func(a, b Arrival) int { return int(int64(a.Time) - int64(b.Time)) }) || len(in) == 0 {
				t.Fatalf("%s of %+v: %d arrivals, or out of order", s.Name, p, len(in))
			}
			if last := in[len(in)-1].Time; s.Name == "edge" && last > 2*p.Window+p.Window/60 {
				t.Fatalf("edge of %+v: the late group ends at %d ns, out of proportion", p, last)
			}
			if s.Name == "steady" && p.Burst >= 2*size {
				c, _ := New(p)
				for _, a := range in {
					c.Arrive(marker.Key{}, a)
				}
				if row := c.Rows()[Token]; row.Packets != uint64(len(in)) {
					t.Fatalf("steady of %+v: token admits %d of %d", p, row.Packets, len(in))
				}
			}
		}
	})
}
