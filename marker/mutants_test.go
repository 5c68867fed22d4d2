package marker_test

import (
	"slices"
	"testing"

	"github.com/tricolor-policer/tricolor/internal/vectors"
	"github.com/tricolor-policer/tricolor/marker"
)

// mutant breaks a meter in one way.
type mutant struct {
	name   string
	meters []marker.MeterType
	wreck  func(m machine) machine
}

var (
	withE  = []marker.MeterType{marker.SRTCM, marker.RFC4115}
	withX  = []marker.MeterType{marker.SRTCM, marker.TRTCM, marker.RFC4115}
	trtcm  = []marker.MeterType{marker.TRTCM}
	srtcm  = []marker.MeterType{marker.SRTCM}
	coupld = []marker.MeterType{marker.RFC4115}
)

var mutants = []mutant{
	{"> for >= in C", meterTypes, colors(func(b *marker.Bucket, cost uint64) { b.Tc -= isExact(b.Tc, cost) })},
	{"> for >= in E or P", withX, colors(func(b *marker.Bucket, cost uint64) { b.Tx -= isExact(b.Tx, cost) })},
	{"one nanobyte too generous", meterTypes, colors(func(b *marker.Bucket, _ uint64) { b.Tc++; b.Tx++ })},
	{"E judged by C", withE, colors(func(b *marker.Bucket, _ uint64) { b.Tx = b.Tc })},
	{"P judged by C", trtcm, colors(func(b *marker.Bucket, _ uint64) { b.Tx = b.Tc })},
	{"never green", meterTypes, arrives(func(c marker.Color) marker.Color { return max(c, marker.Yellow) })},
	{"red arrivals taken as yellow", withX, arrives(func(c marker.Color) marker.Color { return min(c, marker.Yellow) })},
	{"yellow arrivals taken as green", meterTypes, arrives(func(c marker.Color) marker.Color {
		if c == marker.Yellow {
			return marker.Green
		}
		return c
	})},
	{"blind looks, aware does not", meterTypes, func(m machine) machine {
		m.color = func(p *marker.Profile, b *marker.Bucket, cost uint64, in marker.Color) marker.Color {
			other := *p
			other.Aware = !p.Aware
			return other.Color(b, cost, in)
		}
		return m
	}},
	{"red spends C", meterTypes, spends(marker.Red, func(b *marker.Bucket, cost uint64) { b.Tc -= min(b.Tc, cost) })},
	{"red spends E or P", withX, spends(marker.Red, func(b *marker.Bucket, cost uint64) { b.Tx -= min(b.Tx, cost) })},
	{"yellow spends C", withX, spends(marker.Yellow, func(b *marker.Bucket, cost uint64) { b.Tc -= min(b.Tc, cost) })},
	{"yellow spends nothing", withX, spends(marker.Yellow, func(b *marker.Bucket, cost uint64) { b.Tx += cost })},
	{"green spends nothing", meterTypes, spends(marker.Green, func(b *marker.Bucket, cost uint64) { b.Tc += cost })},
	{"green spends C alone", trtcm, spends(marker.Green, func(b *marker.Bucket, cost uint64) { b.Tx += cost })},
	{"green spends E too", withE, spends(marker.Green, func(b *marker.Bucket, cost uint64) { b.Tx -= min(b.Tx, cost) })},
	{"spill lost", srtcm, refills(func(_ *marker.Profile, before, b *marker.Bucket) { b.Tx = before.Tx })},
	{"not coupled", coupld, profiles(func(p *marker.Profile) { p.Coupling = false })},
	{"always coupled", coupld, profiles(func(p *marker.Profile) { p.Coupling = true })},
	{"E earns CIR", coupld, profiles(func(p *marker.Profile) { p.XIR = p.CIR })},
	{"P earns CIR", trtcm, profiles(func(p *marker.Profile) { p.XIR = p.CIR })},
	{"bursts swapped at a fill", srtcm, refills(func(p *marker.Profile, _, b *marker.Bucket) { b.Tc, b.Tx = min(b.Tc, p.XBS), min(b.Tx, p.CBS) })},
	{"rate of 32 bits", meterTypes, profiles(func(p *marker.Profile) { p.CIR = uint64(uint32(p.CIR)) })},
	{"full one ns early", meterTypes, profiles(func(p *marker.Profile) { p.CFill -= min(p.CFill, 1) })},
	{"never full without multiplying", meterTypes, profiles(func(p *marker.Profile) { p.CFill, p.XFill = 1<<64-1, 1<<64-1 })},
	{"fractions of a byte lost", meterTypes, refills(func(p *marker.Profile, before, b *marker.Bucket) {
		if b.Tc < p.CBS {
			b.Tc = before.Tc + (b.Tc-before.Tc)/marker.Nano*marker.Nano
		}
	})},
	{"C over its burst", meterTypes, refills(func(p *marker.Profile, before, b *marker.Bucket) {
		if before.Tc < p.CBS && b.Tc == p.CBS {
			b.Tc++
		}
	})},
	{"a step back rewinds", meterTypes, steppingBack(func(_ *marker.Profile, b *marker.Bucket, now uint64) { b.Last = now })},
	{"a step back earns", meterTypes, steppingBack(func(p *marker.Profile, b *marker.Bucket, now uint64) { p.Refill(b, 2*b.Last-now) })},
	{"a step back fills", meterTypes, steppingBack(func(p *marker.Profile, b *marker.Bucket, _ uint64) { b.Tc, b.Tx = p.CBS, p.XBS })},
}

func isExact(tokens, cost uint64) uint64 {
	if tokens == cost && cost > 0 {
		return 1
	}
	return 0
}

// colors judges by buckets that wrong has changed.
func colors(wrong func(b *marker.Bucket, cost uint64)) func(machine) machine {
	return func(m machine) machine {
		m.color = func(p *marker.Profile, b *marker.Bucket, cost uint64, in marker.Color) marker.Color {
			other := *b
			wrong(&other, cost)
			return p.Color(&other, cost, in)
		}
		return m
	}
}

// arrives judges by another arrival colour.
func arrives(wrong func(marker.Color) marker.Color) func(machine) machine {
	return func(m machine) machine {
		m.color = func(p *marker.Profile, b *marker.Bucket, cost uint64, in marker.Color) marker.Color {
			if !p.Aware {
				in = marker.Green
			}
			aware := *p
			aware.Aware = true
			return aware.Color(b, cost, wrong(in))
		}
		return m
	}
}

// spends adds wrong to what packets of one colour spend.
func spends(color marker.Color, wrong func(b *marker.Bucket, cost uint64)) func(machine) machine {
	return func(m machine) machine {
		m.spend = func(p *marker.Profile, b *marker.Bucket, cost uint64, c marker.Color) {
			p.Spend(b, cost, c)
			if c == color {
				wrong(b, cost)
			}
		}
		return m
	}
}

// refills changes what a refill leaves.
func refills(wrong func(p *marker.Profile, before, b *marker.Bucket)) func(machine) machine {
	return func(m machine) machine {
		m.refill = func(p *marker.Profile, b *marker.Bucket, now uint64) bool {
			before := *b
			back := p.Refill(b, now)
			if !back {
				wrong(p, &before, b)
			}
			return back
		}
		return m
	}
}

// profiles refills by another profile.
func profiles(wrong func(p *marker.Profile)) func(machine) machine {
	return func(m machine) machine {
		m.refill = func(p *marker.Profile, b *marker.Bucket, now uint64) bool {
			other := *p
			wrong(&other)
			return other.Refill(b, now)
		}
		return m
	}
}

// steppingBack does something where the clock steps back.
func steppingBack(wrong func(p *marker.Profile, b *marker.Bucket, now uint64)) func(machine) machine {
	return func(m machine) machine {
		m.refill = func(p *marker.Profile, b *marker.Bucket, now uint64) bool {
			back := p.Refill(b, now)
			if back {
				wrong(p, b, now)
			}
			return back
		}
		return m
	}
}

// TestMutantsAreSeen: each broken meter is seen by at least two of three: the oracle, the properties
// and the vectors. The shipped one is seen by none.
func TestMutantsAreSeen(t *testing.T) {
	files := vectors.Load(t)
	judges := []struct {
		name  string
		holds func(m machine, meter marker.MeterType) bool
	}{
		{"oracle", func(m machine, meter marker.MeterType) bool { return holdsForTraces(m, meter, agreesWithOracle) }},
		{"properties", holdsProperties},
		{"vectors", func(m machine, meter marker.MeterType) bool { return holdsVectors(m, meter, files) }},
	}
	for _, mu := range mutants {
		for _, meter := range mu.meters {
			t.Run(mu.name+"/"+meter.String(), func(t *testing.T) {
				m := mu.wreck(shipped)
				var seen, missed []string
				for _, judge := range judges {
					if judge.holds(m, meter) {
						missed = append(missed, judge.name)
					} else {
						seen = append(seen, judge.name)
					}
				}
				if len(seen) < 2 {
					t.Errorf("seen by %v alone; missed by %v", seen, missed)
				} else if len(missed) > 0 {
					t.Logf("missed by %v", missed)
				}
			})
		}
	}
	for _, meter := range meterTypes {
		for _, judge := range judges {
			if !judge.holds(shipped, meter) {
				t.Errorf("the shipped %v fails by the %s", meter, judge.name)
			}
		}
	}
}

func holdsProperties(m machine, meter marker.MeterType) bool {
	for _, p := range properties {
		if slices.Contains(p.meters, meter) && !holdsForTraces(m, meter, p.holds) {
			return false
		}
	}
	return true
}

func holdsForTraces(m machine, meter marker.MeterType, holds func(machine, trace) error) bool {
	for i := range uint64(300) {
		if holds(m, genTrace(fromSeed(uint64(meter), i), meter, widest)) != nil {
			return false
		}
	}
	return true
}

func holdsVectors(m machine, meter marker.MeterType, files []vectors.File) bool {
	for _, f := range files {
		for _, c := range f.Cases {
			if c.Meter.Type != meter.String() {
				continue
			}
			if _, err := holdsVector(m, c); err != nil {
				return false
			}
		}
	}
	return true
}
