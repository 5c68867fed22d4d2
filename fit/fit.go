// Package fit finds the least burst that traffic needs at a rate: it has no clock, no file and no float but for
// the knee of a curve.
//
// Traffic is packets of cost bytes (or whatever a meter counts) at times in nanoseconds. With A(s,t) what came
// from s to t, both included, nothing is red in a token bucket of rate r and burst B exactly where
//
//	B ≥ max over all s ≤ t of A(s,t) − r·(t−s)
//
// (R. Cruz, "A calculus for network delay", IEEE Trans. Inf. Theory 37 (1), 1991: the arrivals conform to the
// envelope B + r·T.) One pass finds that maximum: what a bucket lacks of being full never needs to look back.
package fit

import (
	"math"
	"math/bits"

	"github.com/tricolor-policer/tricolor/marker"
)

// Curve is the least burst at each of a number of rates, over all the buckets that were fed with it.
type Curve struct {
	rates []uint64 // bytes per second
	most  []uint64 // nanobytes: the most that any bucket lacked of being full
}

// Bucket is one bucket's state for each rate of a curve: what it lacks of being full. The zero Bucket is full.
type Bucket struct {
	last  uint64   // ns
	lacks []uint64 // nanobytes
}

// NewCurve makes a curve of rates (bytes per second).
func NewCurve(rates []uint64) *Curve {
	return &Curve{rates: rates, most: make([]uint64, len(rates))}
}

// Rates are the curve's, in bytes per second.
func (c *Curve) Rates() []uint64 { return c.rates }

// Add takes a packet of cost bytes (at most marker.MaxCost) at now (ns) into a bucket. As in a meter, a time
// before the bucket's last earns nothing.
func (c *Curve) Add(b *Bucket, now, cost uint64) {
	if b.lacks == nil {
		b.lacks, b.last = make([]uint64, len(c.rates)), now
	}
	var elapsed uint64
	if now > b.last {
		elapsed, b.last = now-b.last, now
	}
	cost *= marker.Nano
	for i, rate := range c.rates {
		high, earned := bits.Mul64(elapsed, rate)
		lacks := b.lacks[i]
		if high > 0 || earned >= lacks {
			lacks = 0
		} else {
			lacks -= earned
		}
		sum, over := bits.Add64(lacks, cost, 0)
		if over > 0 {
			sum = math.MaxUint64 // more than a meter holds, and stays so: see Burst
		}
		b.lacks[i] = sum
		c.most[i] = max(c.most[i], sum)
	}
}

// Burst is the least burst, in bytes, at the i-th rate with which nothing was red: at least 1. It is false where
// that is more than a meter can hold (marker.MaxBurst).
func (c *Curve) Burst(i int) (uint64, bool) {
	burst := c.most[i] / marker.Nano
	if c.most[i]%marker.Nano > 0 {
		burst++
	}
	return max(burst, 1), burst <= marker.MaxBurst
}

// Point is a rate (bytes per second) and the least burst (bytes) for it.
type Point struct{ Rate, Burst uint64 }

// Points are the curve's, by ascending rate, as far as a meter can hold their bursts.
func (c *Curve) Points() (points []Point) {
	for i, rate := range c.rates {
		if burst, ok := c.Burst(i); ok {
			points = append(points, Point{rate, burst})
		}
	}
	return points
}

// Trim drops the points at the end that need as much as the one before: from there on no rate saves anything.
func Trim(points []Point) []Point {
	n := len(points)
	for n > 1 && points[n-1].Burst == points[n-2].Burst {
		n--
	}
	return points[:n]
}

// Knee is the point beyond which more rate saves little burst, and before which more burst saves little rate: the
// one farthest below the straight line between the curve's ends, both axes logarithmic; the first
// where none is below. -1 of no points.
func Knee(points []Point) int {
	if len(points) < 3 {
		return len(points) - 1
	}
	place := func(p Point) (x, y float64) { return math.Log(float64(p.Rate)), math.Log(float64(p.Burst)) }
	x0, y0 := place(points[0])
	x1, y1 := place(points[len(points)-1])
	knee, farthest := 0, 0.
	for i, p := range points {
		x, y := place(p)
		if below := (y0-y)*(x1-x0) - (x-x0)*(y0-y1); below > farthest*(1+1e-12) {
			knee, farthest = i, below
		}
	}
	return knee
}

// decade are the steps of Rates: in bits per second 1, 1.2, 1.6, 2, 2.4, 3.2, 4, 4.8, 5.6, 6.4, 8.
var decade = []uint64{125, 150, 200, 250, 300, 400, 500, 600, 700, 800, 1000}

// Rates are round rates (bytes per second), ascending: from the last that is not over low to the first that is not
// under high, within what a meter takes; eleven each power of ten, not more than most of them, evenly left out.
func Rates(low, high uint64, most int) []uint64 {
	all := []uint64{1, 2, 3, 5, 8, 10, 15, 20, 25, 30, 40, 50, 60, 80, 100}
	for scale := uint64(1); all[len(all)-1] < marker.MaxRate; scale *= 10 {
		for _, r := range decade {
			if r *= scale; r < marker.MaxRate && r > all[len(all)-1] {
				all = append(all, r)
			} else if r >= marker.MaxRate {
				all = append(all, marker.MaxRate)
				break
			}
		}
	}
	from, to := 0, len(all)-1
	for from+1 < len(all) && all[from+1] <= low {
		from++
	}
	for to > from && all[to-1] >= high {
		to--
	}
	all = all[from : to+1]
	if len(all) <= most {
		return all
	}
	var some []uint64
	for i := range most {
		some = append(some, all[i*(len(all)-1)/max(most-1, 1)])
	}
	return some
}
