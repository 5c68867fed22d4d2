package plot

import (
	"math"
	"strconv"
	"strings"
)

// Unit is what an axis counts.
type Unit uint8

// What an axis counts, and the base that its values are in.
const (
	Number     Unit = iota // bare
	Count                  // things
	Seconds                // seconds
	Bytes                  // bytes, shown in KiB and so on
	Rate                   // bytes per second, shown in bits per second
	PacketRate             // packets per second
	Share                  // 0 to 1, shown in per cent
)

// step is a unit and how much of the base it is.
type step struct {
	Factor float64 `json:"factor"`
	Name   string  `json:"name"`
}

// unitSteps are each unit's, smallest first.
var unitSteps = [][]step{
	Number:     {{1, ""}},
	Count:      {{1, ""}, {1e6, "million"}, {1e9, "billion"}},
	Seconds:    {{1e-9, "ns"}, {1e-6, "us"}, {1e-3, "ms"}, {1, "s"}, {60, "min"}, {3600, "h"}, {86400, "days"}},
	Bytes:      {{1, "B"}, {1 << 10, "KiB"}, {1 << 20, "MiB"}, {1 << 30, "GiB"}, {1 << 40, "TiB"}},
	Rate:       {{1. / 8, "bit/s"}, {1e3 / 8, "kbit/s"}, {1e6 / 8, "Mbit/s"}, {1e9 / 8, "Gbit/s"}, {1e12 / 8, "Tbit/s"}},
	PacketRate: {{1, "pps"}, {1e3, "kpps"}, {1e6, "Mpps"}},
	Share:      {{.01, "%"}},
}

func (u Unit) steps() []step { return unitSteps[u] }

// base is how many ticks of a logarithmic axis make the next larger.
func (u Unit) base() float64 {
	if u == Bytes {
		return 2
	}
	return 10
}

// pick is the unit in which values up to most read best.
func (u Unit) pick(most float64) step {
	steps := u.steps()
	best := steps[0]
	for _, s := range steps {
		least := s.Factor
		if u == Seconds && s.Factor >= 60 { // 90 s rather than 1.5 min
			least = 3 * s.Factor
		}
		if most >= least {
			best = s
		}
	}
	return best
}

// format prints a value of the base with its unit: "64 KiB".
func (u Unit) format(v float64) string {
	s := u.pick(math.Abs(v) * (1 + 1e-9))
	return strings.TrimSpace(figures(v/s.Factor) + " " + s.Name)
}

// figures prints a value with at most six figures, and a comma between each three digits.
func figures(v float64) string {
	text := strconv.FormatFloat(v, 'f', max(0, 5-int(math.Floor(math.Log10(math.Max(math.Abs(v), 1e-9))))), 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	whole, fraction, _ := strings.Cut(text, ".")
	digits := strings.TrimPrefix(whole, "-")
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	if strings.HasPrefix(whole, "-") && text != "-0" {
		digits = "-" + digits
	}
	if fraction != "" {
		digits += "." + fraction
	}
	return digits
}

// caption is an axis's label with its unit, where all ticks share one.
func caption(label string, s step) string {
	if s.Name == "" {
		return label
	}
	return label + " (" + s.Name + ")"
}
