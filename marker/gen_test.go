package marker_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/tricolor-policer/tricolor/marker"
	"pgregory.net/rapid"
)

var meterTypes = []marker.MeterType{marker.Token, marker.SRTCM, marker.TRTCM, marker.RFC4115}

// arrival is a packet as a meter sees it.
type arrival struct {
	now   uint64 // ns
	bytes uint64
	in    marker.Color
}

// trace is a meter and the packets it judges.
type trace struct {
	params  marker.Params
	packets []arrival
}

// String prints a trace so that a failing one can be read and typed in.
func (tr trace) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%+v\n", tr.params)
	for i, a := range tr.packets {
		fmt.Fprintf(&out, "  %d: t %d ns, %d bytes, arrives %v\n", i+1, a.now, a.bytes, a.in)
	}
	return out.String()
}

// draw picks a number from 0 to most, both included.
type draw func(most uint64) uint64

// fromRapid draws what rapid can shrink.
func fromRapid(t *rapid.T) draw {
	return func(most uint64) uint64 { return rapid.Uint64Range(0, most).Draw(t, "n") }
}

// fromSeed draws the same numbers for the same seed.
func fromSeed(seed1, seed2 uint64) draw {
	r := rand.New(rand.NewPCG(seed1, seed2))
	return func(most uint64) uint64 {
		if most == math.MaxUint64 {
			return r.Uint64()
		}
		return r.Uint64N(most + 1)
	}
}

func (d draw) yes() bool { return d(1) == 1 }

// shape bounds a trace.
type shape struct {
	packets uint64 // at most
	bytes   uint64 // of a packet, at most
	gap     uint64 // ns between two packets, at most
}

var widest = shape{packets: 40, bytes: marker.MaxCost, gap: 1 << 63}

// genTrace makes a legal meter of the type and packets for it.
func genTrace(d draw, meter marker.MeterType, s shape) trace {
	tr := trace{params: genParams(d, meter)}
	now := []uint64{0, 1, d(1e15), 1 << 61}[d(3)]
	for n := 1 + d(s.packets-1); n > 0; n-- {
		tr.packets = append(tr.packets, arrival{now, genBytes(d, tr.params, s.bytes), marker.Color(d(2))})
		if d(31) == 0 {
			now = tr.drain(d, now, s)
		}
		if d(7) == 0 {
			now -= min(now, genGap(d, tr.params, s.gap)) // the clock steps back
		} else {
			now += min(math.MaxUint64-now, genGap(d, tr.params, s.gap))
		}
	}
	return tr
}

// drain adds packets that take all there is, and then one byte a ns too early and one just in time.
func (tr *trace) drain(d draw, now uint64, s shape) uint64 {
	p := tr.params
	in := marker.Color(d(1))
	for _, burst := range []uint64{p.CBS, p.EBS, p.PBS - min(p.PBS, p.CBS)} {
		tr.packets = append(tr.packets, arrival{now, min(burst, s.bytes), in})
	}
	rates := []uint64{max(1, p.CIR), max(1, p.PIR+p.EIR)}
	rate := rates[d(1)]
	wait := (marker.Nano + rate - 1) / rate
	for _, gap := range []uint64{max(wait, 1) - 1, 1} {
		now += min(math.MaxUint64-now, gap)
		tr.packets = append(tr.packets, arrival{now, 1, in})
	}
	return now
}

// genParams makes legal parameters, from a few bytes to the ends of the range.
func genParams(d draw, meter marker.MeterType) marker.Params {
	p := marker.Params{Meter: meter, Aware: d.yes()}
	rate, burst := genRate, genBurst
	if d.yes() { // small ones, which a few packets empty and a few seconds fill
		rate = func(d draw) uint64 { return []uint64{1, 1 + d(2000)}[d(1)] }
		burst = func(d draw, most uint64) uint64 { return min(most, d(3000)) }
	}
	p.CIR = rate(d)
	switch meter {
	case marker.Token:
		p.CBS = max(1, burst(d, marker.MaxBurst))
	case marker.SRTCM:
		p.CBS = burst(d, marker.MaxBurst)
		p.EBS = burst(d, marker.MaxBurst-p.CBS)
		if p.CBS+p.EBS == 0 {
			p.EBS = 1
		}
	case marker.TRTCM:
		p.CBS, p.PBS = max(1, burst(d, marker.MaxBurst)), max(1, burst(d, marker.MaxBurst))
		p.PIR = rate(d)
		p.CIR, p.PIR = min(p.CIR, p.PIR), max(p.CIR, p.PIR)
	case marker.RFC4115:
		p.Coupling = d.yes()
		p.EIR = rate(d)
		switch d(4) { // one rate may be 0
		case 0:
			p.CIR = 0
		case 1:
			p.EIR = 0
		}
		p.CBS = burst(d, marker.MaxBurst-1)
		if p.CIR > 0 {
			p.CBS = max(1, p.CBS)
		}
		p.EBS = burst(d, marker.MaxBurst-p.CBS)
		if p.EIR > 0 {
			p.EBS = max(1, p.EBS)
		} else if !p.Coupling {
			p.EBS = 0
		}
	}
	return p
}

func genRate(d draw) uint64 {
	return []uint64{1, marker.MaxRate, 1 << d(37), 1 + d(1e6), 1 + d(marker.MaxRate-1)}[d(4)]
}

func genBurst(d draw, most uint64) uint64 {
	return min(most, []uint64{0, 1, most, 1 << d(33), d(1e5), d(most)}[d(5)])
}

// genBytes leans towards what decides: nothing, one byte, a burst exactly or one byte off.
func genBytes(d draw, p marker.Params, most uint64) uint64 {
	bursts := []uint64{p.CBS, p.EBS + p.PBS}
	burst := bursts[d(1)]
	return min(most, []uint64{
		0, 1, 1, 2, burst, burst + 1, max(burst, 1) - 1, burst / 2, burst / 3,
		d(burst), d(2 * burst), d(1500), d(most), most,
	}[d(13)])
}

// genGap leans towards what decides: no time at all, the time that fills a bucket or earns a few
// bytes exactly, or one ns off.
func genGap(d draw, p marker.Params, most uint64) uint64 {
	rates := []uint64{p.CIR, p.PIR + p.EIR}
	rate := max(1, rates[d(1)])
	burst := []uint64{p.CBS, p.EBS + p.PBS, p.CBS + p.EBS}[d(2)]
	fill := (burst*marker.Nano + rate - 1) / rate
	return min(most, []uint64{
		0, 0, 1, d(1000), d(1e10), fill, fill + 1, max(fill, 1) - 1, fill / 2, d(fill),
		(1 + d(2)) * marker.Nano / rate, (1+d(2))*marker.Nano/rate - min(1, marker.Nano/rate), d(most), most,
	}[d(13)])
}
