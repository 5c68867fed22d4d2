package marker_test

import (
	"math/rand/v2"
	"testing"

	"github.com/tricolor-policer/tricolor/marker"
)

// benchMeters judge benchTrace, aware, at rates that give every colour its share.
var benchMeters = []struct {
	name   string
	params marker.Params
}{
	{"token", marker.Params{Meter: marker.Token, CIR: 60e6, CBS: 32e3}},
	{"srtcm", marker.Params{Meter: marker.SRTCM, CIR: 60e6, CBS: 32e3, EBS: 32e3}},
	{"trtcm", marker.Params{Meter: marker.TRTCM, CIR: 30e6, CBS: 32e3, PIR: 60e6, PBS: 32e3}},
	{"rfc4115", marker.Params{Meter: marker.RFC4115, CIR: 30e6, CBS: 32e3, EIR: 30e6, EBS: 32e3}},
	{"rfc4115-coupled", marker.Params{Meter: marker.RFC4115, Coupling: true, CIR: 30e6, CBS: 32e3, EIR: 30e6, EBS: 32e3}},
}

// benchTrace is packets of 770 bytes on average that come in bursts: 128 at about 3 Gbit/s, 128 at a
// quarter of a Gbit/s.
type benchTrace [4096]struct {
	gap, cost uint64 // ns, nanobytes
	in        marker.Color
}

func newBenchTrace(mixed bool) *benchTrace {
	r := rand.New(rand.NewPCG(1, 2))
	tr := new(benchTrace)
	for i := range tr {
		mean := []uint64{2_000, 25_000}[i/128%2]
		tr[i].gap, tr[i].cost = r.Uint64N(2*mean), (40+r.Uint64N(1461))*marker.Nano
		if !mixed {
			tr[i].cost /= 64 // far under the rate: every packet is green
		} else if in := r.IntN(8); in < 3 {
			tr[i].in = marker.Color(in)
		}
	}
	return tr
}

// judge takes n packets through the meter.
func (tr *benchTrace) judge(p *marker.Profile, b *marker.Bucket, n int) {
	for now := b.Last; n > 0; n -= len(tr) {
		for i := range tr[:min(n, len(tr))] {
			now += tr[i].gap
			p.Judge(b, now, tr[i].cost, tr[i].in)
		}
	}
}

// judgeNothing is the same loop without a meter: what the measuring itself costs.
func (tr *benchTrace) judgeNothing(p *marker.Profile, b *marker.Bucket, n int) {
	for now := b.Last; n > 0; n -= len(tr) {
		for i := range tr[:min(n, len(tr))] {
			now += tr[i].gap
			noMeter(p, b, now, tr[i].cost, tr[i].in)
		}
	}
}

//go:noinline
func noMeter(_ *marker.Profile, _ *marker.Bucket, _, _ uint64, in marker.Color) (marker.Color, bool) {
	return in, false
}

// colors takes the whole trace through the meter and counts the colours.
func (tr *benchTrace) colors(p *marker.Profile, b *marker.Bucket) (colors [marker.Colors]int) {
	now := b.Last
	for i := range tr {
		now += tr[i].gap
		color, _ := p.Judge(b, now, tr[i].cost, tr[i].in)
		colors[color]++
	}
	return colors
}

// BenchmarkMeter measures ns a packet of the meter alone: one bucket, a clock that moves unevenly. All
// include "empty": the loop and a call that judges nothing.
func BenchmarkMeter(b *testing.B) {
	b.Run("empty", func(b *testing.B) {
		profile, bucket := newBenchMeter(b, benchMeters[0].params)
		tr := newBenchTrace(false)
		b.ResetTimer()
		tr.judgeNothing(&profile, &bucket, b.N)
	})
	for _, m := range benchMeters {
		for _, mixed := range []bool{false, true} {
			name := map[bool]string{false: "green", true: "mixed"}[mixed]
			b.Run(m.name+"/"+name, func(b *testing.B) {
				profile, bucket := newBenchMeter(b, m.params)
				tr := newBenchTrace(mixed)
				b.ReportAllocs()
				b.ResetTimer()
				tr.judge(&profile, &bucket, b.N)
				b.StopTimer()
				for color, n := range tr.colors(&profile, &bucket) {
					b.ReportMetric(100*float64(n)/float64(len(tr)), marker.Color(color).String()+"%")
				}
			})
		}
	}
}

func newBenchMeter(t testing.TB, params marker.Params) (marker.Profile, marker.Bucket) {
	t.Helper()
	params.Aware = true
	profile, err := params.Compile()
	if err != nil {
		t.Fatal(err)
	}
	var bucket marker.Bucket
	profile.Init(&bucket, 1)
	return profile, bucket
}

// TestMeterAllocatesNothing also holds the benchmark to what it claims to measure: green alone, and
// every colour.
func TestMeterAllocatesNothing(t *testing.T) {
	for _, m := range benchMeters {
		for _, mixed := range []bool{false, true} {
			profile, bucket := newBenchMeter(t, m.params)
			tr := newBenchTrace(mixed)
			allocs := testing.AllocsPerRun(10, func() { tr.judge(&profile, &bucket, len(tr)) })
			if allocs != 0 {
				t.Errorf("%s, mixed %v: %v allocations in %d packets", m.name, mixed, allocs, len(tr))
			}
			for color, n := range tr.colors(&profile, &bucket) {
				want := mixed && (marker.Color(color) != marker.Yellow || m.params.Meter != marker.Token)
				if marker.Color(color) != marker.Green && (n > len(tr)/10) != want {
					t.Errorf("%s, mixed %v: %d of %d packets are %v", m.name, mixed, n, len(tr), marker.Color(color))
				}
			}
		}
	}
}
