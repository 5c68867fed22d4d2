package fit

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tricolor-policer/tricolor/marker"
)

// drawArrivals draws bursts, pauses and steps back of several keys.
func drawArrivals(t *rapid.T, back bool) []Arrival {
	now := rapid.Uint64Range(0, 1<<40).Draw(t, "start")
	var out []Arrival
	for range rapid.IntRange(1, 60).Draw(t, "n") {
		gap := rapid.OneOf(rapid.Just(uint64(0)), rapid.Uint64Range(0, 1000), rapid.Uint64Range(0, 1e9), rapid.Uint64Range(0, 1e13)).Draw(t, "gap")
		if back && rapid.IntRange(0, 9).Draw(t, "back") == 0 {
			now -= min(now, gap)
		} else {
			now += gap
		}
		out = append(out, Arrival{now, rapid.OneOf(rapid.Uint64Range(0, 1500), rapid.Uint64Range(0, 1<<24)).Draw(t, "cost")})
	}
	return out
}

// reds is how many of the arrivals the token meter itself finds red.
func reds(t *rapid.T, arrivals []Arrival, rate, burst uint64) (n int) {
	p, err := marker.Params{Meter: marker.Token, CIR: rate, CBS: burst}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	var b marker.Bucket
	p.Init(&b, arrivals[0].Time)
	for _, a := range arrivals {
		if color, _ := p.Judge(&b, a.Time, a.Cost*marker.Nano, marker.Green); color == marker.Red {
			n++
		}
	}
	return n
}

// With the burst nothing is red; with one byte less something is.
func TestBurstIsTheLeast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		arrivals := drawArrivals(t, true)
		rates := rapid.SliceOfN(rapid.OneOf(rapid.Uint64Range(1, 1000), rapid.Uint64Range(1, marker.MaxRate)), 1, 4).Draw(t, "rates")
		c := NewCurve(rates)
		var b Bucket
		for _, a := range arrivals {
			c.Add(&b, a.Time, a.Cost)
		}
		for i, rate := range rates {
			burst, ok := c.Burst(i)
			if !ok {
				t.Fatalf("%d is more than a meter holds", burst)
			}
			if n := reds(t, arrivals, rate, burst); n > 0 {
				t.Fatalf("rate %d, burst %d: %d red", rate, burst, n)
			}
			if burst > 1 && reds(t, arrivals, rate, burst-1) == 0 {
				t.Fatalf("rate %d, burst %d: one byte less is enough", rate, burst)
			}
		}
	})
}

// The burst is the greatest A(s,t) − r(t−s), by its definition.
func TestBurstByDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		arrivals := drawArrivals(t, false)
		rate := rapid.Uint64Range(1, marker.MaxRate).Draw(t, "rate")
		c := NewCurve([]uint64{rate})
		var b Bucket
		for _, a := range arrivals {
			c.Add(&b, a.Time, a.Cost)
		}
		want := new(big.Int)
		for s := range arrivals {
			sum := new(big.Int)
			for _, a := range arrivals[s:] {
				sum.Add(sum, new(big.Int).Mul(big.NewInt(int64(a.Cost)), big.NewInt(marker.Nano)))
				earned := new(big.Int).Mul(new(big.Int).SetUint64(a.Time-arrivals[s].Time), new(big.Int).SetUint64(rate))
				if excess := new(big.Int).Sub(sum, earned); excess.Cmp(want) > 0 {
					want = excess
				}
			}
		}
		if got := new(big.Int).SetUint64(c.most[0]); got.Cmp(want) != 0 {
			t.Fatalf("%v nanobytes, want %v", got, want)
		}
	})
}

// Buckets are apart: a curve over several keys needs what the worst of them needs.
func TestBucketsAreApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Uint64Range(1, 1e6).Draw(t, "rate")
		all := NewCurve([]uint64{rate})
		var worst uint64
		for range rapid.IntRange(1, 4).Draw(t, "keys") {
			one := NewCurve([]uint64{rate})
			var a, b Bucket
			for _, arrival := range drawArrivals(t, true) {
				one.Add(&a, arrival.Time, arrival.Cost)
				all.Add(&b, arrival.Time, arrival.Cost)
			}
			burst, _ := one.Burst(0)
			worst = max(worst, burst)
		}
		if got, _ := all.Burst(0); got != worst {
			t.Fatalf("%d, want %d", got, worst)
		}
	})
}

func TestMoreThanAMeterHolds(t *testing.T) {
	c := NewCurve([]uint64{1, marker.MaxRate})
	var b Bucket
	for i := range uint64(2000) {
		c.Add(&b, i, marker.CostMax)
	}
	if _, ok := c.Burst(0); ok {
		t.Error("33 GB at once fit")
	}
	if n := len(c.Points()); n != 0 {
		t.Errorf("%d points", n)
	}
	c.Add(&b, math.MaxUint64, marker.MaxCost)
	if _, ok := c.Burst(0); ok {
		t.Error("an overflow is forgotten")
	}
}

func TestKnee(t *testing.T) {
	// A burst of 100 kB at 10 MB/s on top of a steady 100 kB/s: up to the peak rate the burst falls slowly, then at once.
	var points []Point
	for _, rate := range Rates(1000, 1e9, 100) {
		points = append(points, Point{rate, 1500 + 1e9/rate})
	}
	if k := Knee(points); points[k].Rate < 1e5 || points[k].Rate > 1e7 {
		t.Errorf("the knee is at %v", points[k])
	}
	if Knee(nil) != -1 || Knee(points[:1]) != 0 || Knee(points[:2]) != 1 {
		t.Error("the knee of few points")
	}
	flat := []Point{{1, 5}, {2, 5}, {3, 5}}
	if n := len(Trim(flat)); n != 1 {
		t.Errorf("%d points of a flat curve", n)
	}
}

func TestRates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		low := rapid.Uint64Range(1, marker.MaxRate).Draw(t, "low")
		high := rapid.Uint64Range(low, marker.MaxRate).Draw(t, "high")
		most := rapid.IntRange(2, 200).Draw(t, "most")
		rates := Rates(low, high, most)
		if len(rates) == 0 || len(rates) > most || !slices.IsSorted(rates) || len(slices.Compact(slices.Clone(rates))) != len(rates) {
			t.Fatalf("%v", rates)
		}
		if rates[0] > low || rates[len(rates)-1] < high || rates[len(rates)-1] > marker.MaxRate {
			t.Fatalf("%v do not span %d to %d", rates, low, high)
		}
	})
	if got := Rates(125_000, 1_250_000, 100); !slices.Equal(got, []uint64{125_000, 150_000, 200_000, 250_000, 300_000, 400_000, 500_000, 600_000, 700_000, 800_000, 1_000_000, 1_250_000}) {
		t.Errorf("from 1 to 10 Mbit/s: %v", got)
	}
}

// The least burst that loses at most so many loses no more, by the meter, and one byte less loses more.
func TestLeastBurstOfALoss(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		arrivals := drawArrivals(t, true)
		rate := rapid.Uint64Range(1, 1e8).Draw(t, "rate")
		allowed := uint64(rapid.IntRange(0, len(arrivals)).Draw(t, "allowed"))
		c := NewCurve([]uint64{rate})
		var b Bucket
		for _, a := range arrivals {
			c.Add(&b, a.Time, a.Cost)
		}
		high, _ := c.Burst(0)
		passes := 0
		got, err := LeastBurst(high, func(bursts []uint64) ([]bool, error) {
			passes++
			trials, err := NewTrials(rate, bursts)
			if err != nil {
				return nil, err
			}
			var state Trial
			for _, a := range arrivals {
				trials.Add(&state, a.Time, a.Cost)
			}
			good := make([]bool, len(bursts))
			for i := range bursts {
				good[i] = trials.Lost(i).Packets <= allowed
			}
			return good, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if n := reds(t, arrivals, rate, got); uint64(n) > allowed {
			t.Fatalf("burst %d: %d red, allowed %d", got, n, allowed)
		}
		if got > 1 && uint64(reds(t, arrivals, rate, got-1)) <= allowed {
			t.Fatalf("burst %d: one byte less is enough", got)
		}
		if allowed == 0 && got != high {
			t.Fatalf("no loss: %d, want %d", got, high)
		}
		if passes > 7 {
			t.Fatalf("%d passes", passes)
		}
	})
}

func TestMost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		arrivals := drawArrivals(t, false)
		window := rapid.Uint64Range(0, 1e12).Draw(t, "window")
		var want uint64
		for i := range arrivals {
			var sum uint64
			for _, a := range arrivals[i:] {
				if a.Time-arrivals[i].Time <= window {
					sum += a.Cost
				}
			}
			want = max(want, sum)
		}
		if got := Most(arrivals, window); got != want {
			t.Fatalf("%d, want %d", got, want)
		}
	})
}

func TestNeeds(t *testing.T) {
	for _, test := range []struct {
		need Need
		want uint64
	}{
		{Window(1_250_000, 40_000_000), 50_000}, {Window(1, 1), 1}, {Window(0, 5), 0}, {Window(marker.MaxRate, math.MaxUint64), math.MaxUint64},
		{Packet(1500, 14), 1514}, {Super(65536, 1500, 0), 65536 + 46*72}, {Super(65536, 1500, 38), 65536 + 46*110}, {Super(1, 1500, 0), 73}, {Super(10, 40, 0), 10 + 10*72},
	} {
		if test.need.Bytes != test.want {
			t.Errorf("%s: %d bytes, want %d", test.need.What, test.need.Bytes, test.want)
		}
	}
}
