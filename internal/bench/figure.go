package main

import "slices"

// figure is one quantity, measured in several rounds.
type figure []float64

func (f figure) median() float64 {
	s := slices.Clone(f)
	slices.Sort(s)
	return s[len(s)/2]
}

// times is the figure multiplied.
func (f figure) times(factor float64) figure {
	out := make(figure, len(f))
	for i, v := range f {
		out[i] = v * factor
	}
	return out
}

// less is one figure less another, round by round.
func (f figure) less(other figure) figure {
	out := make(figure, len(f))
	for i, v := range f {
		out[i] = v - other[i]
	}
	return out
}

// by is one figure divided by another, round by round.
func (f figure) by(other figure) figure {
	out := make(figure, len(f))
	for i, v := range f {
		out[i] = v / other[i]
	}
	return out
}

// percentOf is one figure in parts of another, round by round.
func (f figure) percentOf(other figure) figure { return f.by(other).times(100) }
