package plot

import "math"

// scale takes values of one axis to places on paper.
type scale struct {
	axis     *Axis
	min, max float64
	step     step // of a linear axis's ticks
}

// tick is a place on an axis and what stands there; minor ones have no text.
type tick struct {
	at    float64
	label string
}

// newScale spans the values that are drawn. Where there are none it spans 0 to 1.
func newScale(a *Axis, values func(yield func(float64) bool)) scale {
	low, high := math.Inf(1), math.Inf(-1)
	for v := range values {
		if a.shows(v) {
			low, high = min(low, v), max(high, v)
		}
	}
	if a.Min < a.Max {
		low, high = a.Min, a.Max
	}
	switch {
	case low > high && a.Log:
		low, high = 1, 10
	case low > high:
		low, high = 0, 1
	case low == high && a.Log:
		low, high = low/2, high*2
	case low == 0 && high == 0:
		high = a.Unit.pick(1).Factor
	case low == high:
		margin := max(math.Abs(low)/2, a.Unit.steps()[0].Factor/2)
		low, high = low-margin, high+margin
	}
	return scale{axis: a, min: low, max: high, step: a.Unit.pick(max(math.Abs(low), math.Abs(high)))}
}

// shows reports whether the axis has a place for the value.
func (a *Axis) shows(v float64) bool {
	return !math.IsNaN(v) && !math.IsInf(v, 0) && (!a.Log || v > 0)
}

// widen makes room: down to 0 where all is positive and that is linear, and a little at the ends.
func (s *scale) widen() {
	if s.axis.Min < s.axis.Max {
		return
	}
	if s.axis.Log {
		s.min, s.max = s.min/1.2, s.max*1.3
		return
	}
	if s.min > 0 {
		s.min = 0
	}
	margin := (s.max - s.min) * .06
	s.max += margin
	if s.min < 0 {
		s.min -= margin
	}
}

// part is where a value lies between the ends, 0 to 1.
func (s *scale) part(v float64) float64 {
	if s.axis.Log {
		return math.Log(v/s.min) / math.Log(s.max/s.min)
	}
	return (v - s.min) / (s.max - s.min)
}

// ticks are about as many as asked for, at round values.
func (s *scale) ticks(about int) []tick {
	if s.axis.Log {
		return s.logTicks(about)
	}
	f := s.step.Factor
	distance := roundStep((s.max - s.min) / f / float64(about))
	var ticks []tick
	for i := math.Ceil(s.min/f/distance - 1e-9); i*distance*f <= s.max+1e-9*(s.max-s.min); i++ {
		ticks = append(ticks, tick{i * distance * f, figures(i * distance)})
	}
	return ticks
}

// roundStep is the next of 1, 2, 5, 10 … that is not less.
func roundStep(least float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(least)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= least*(1-1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// logTicks are at powers of the unit's base; where those are few, at 2 and 5 times them too.
func (s *scale) logTicks(about int) []tick {
	unit := s.axis.Unit
	smallest, base := unit.steps()[0].Factor, unit.base()
	power := func(v float64) float64 { return math.Log(v/smallest) / math.Log(base) }
	low, high := math.Ceil(power(s.min)-1e-9), math.Floor(power(s.max)+1e-9)
	every := max(1, math.Ceil((high-low+1)/float64(about)))
	between := []float64{1}
	if base == 10 && high-low < 3 {
		low--
		between = []float64{1, 2, 5}
	}
	var ticks []tick
	for p := low; p <= high; p++ {
		for _, m := range between {
			at := smallest * math.Pow(base, p) * m
			if at < s.min*(1-1e-9) || at > s.max*(1+1e-9) {
				continue
			}
			t := tick{at: at}
			if math.Mod(p-low, every) == 0 {
				t.label = unit.format(at)
			}
			ticks = append(ticks, t)
		}
	}
	return ticks
}
