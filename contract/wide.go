package contract

import (
	"math"
	"math/big"
	"math/bits"
)

// wide is a whole number of 128 bits.
type wide struct{ hi, lo uint64 }

// product is a × b.
func product(a, b uint64) wide {
	hi, lo := bits.Mul64(a, b)
	return wide{hi, lo}
}

func (w wide) plus(v wide) wide {
	lo, carry := bits.Add64(w.lo, v.lo, 0)
	hi, _ := bits.Add64(w.hi, v.hi, carry)
	return wide{hi, lo}
}

// minus is w - v; 0 where that is negative.
func (w wide) minus(v wide) wide {
	lo, borrow := bits.Sub64(w.lo, v.lo, 0)
	hi, borrow := bits.Sub64(w.hi, v.hi, borrow)
	if borrow != 0 {
		return wide{}
	}
	return wide{hi, lo}
}

func (w wide) less(v wide) bool { return w.hi < v.hi || w.hi == v.hi && w.lo < v.lo }

func (w wide) max(v wide) wide {
	if w.less(v) {
		return v
	}
	return w
}

// over is w / d, rounded up; at most the largest uint64.
func (w wide) over(d uint64) uint64 {
	if w.hi >= d {
		return math.MaxUint64
	}
	q, rest := bits.Div64(w.hi, w.lo, d)
	if rest > 0 && q < math.MaxUint64 {
		q++
	}
	return q
}

// big is w for a report.
func (w wide) big() *big.Int {
	n := new(big.Int).Lsh(new(big.Int).SetUint64(w.hi), 64)
	return n.Or(n, new(big.Int).SetUint64(w.lo))
}
