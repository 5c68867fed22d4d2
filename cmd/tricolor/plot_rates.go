package main

import (
	"fmt"

	"github.com/tricolor-policer/tricolor/internal/plot"
	"github.com/tricolor-policer/tricolor/internal/units"
	"github.com/tricolor-policer/tricolor/marker"
	"github.com/tricolor-policer/tricolor/pcaptest"
)

// mostBins is how many bins of time a rate is drawn with at most.
const mostBins = 200

// rateBins adds up what packets cost, by colour and time.
type rateBins struct {
	first   uint64 // ns
	width   uint64 // ns
	last    uint64 // ns
	colors  [marker.Colors][]uint64
	passed  []uint64 // no meter saw it, let through
	packets bool     // packets are counted, not bytes
}

// newRateBins covers a span of time with bins of a round width. Packets are counted where all classes count them.
func newRateBins(first, last uint64, plans ...*marker.Plan) *rateBins {
	b := &rateBins{first: first, last: last, width: roundWidth((last - first) / mostBins), packets: true}
	for _, plan := range plans {
		for i := range plan.Classes {
			b.packets = b.packets && plan.Classes[i].Count == marker.CountPackets
		}
	}
	if first == last { // all at once
		b.width = marker.Nano
	}
	n := max(1, int((last-first)/b.width))
	for color := range b.colors {
		b.colors[color] = make([]uint64, n)
	}
	b.passed = make([]uint64, n)
	return b
}

// roundWidth is the next of 1, 2, 5, 10 … ns that is greater.
func roundWidth(least uint64) uint64 {
	for power := uint64(1); ; power *= 10 {
		for _, m := range []uint64{1, 2, 5} {
			if m*power > least {
				return m * power
			}
		}
		if power >= 1e19/10 {
			return least + 1
		}
	}
}

// add takes one packet.
func (b *rateBins) add(s *pcaptest.Step) {
	out := &s.Outcome
	amount := out.Cost
	if b.packets {
		amount = 1
	} else if out.Kind != marker.Metered || countsPackets(s) {
		amount = uint64(s.Packet.Length)
	}
	b.addBytes(s, amount)
}

// bin is that of a time. The last one is longer: what is left over is no bin of its own, which would seem a dip.
func (b *rateBins) bin(now uint64) int {
	return min(int((max(now, b.first)-b.first)/b.width), len(b.passed)-1)
}

// addBytes takes one packet, of an amount.
func (b *rateBins) addBytes(s *pcaptest.Step, amount uint64) {
	out, at := &s.Outcome, b.bin(s.Packet.Time)
	switch {
	case out.Kind == marker.Metered:
		b.colors[out.Color][at] += amount
	case !out.Dropped:
		b.passed[at] += amount
	}
}

// countsPackets reports whether a packet's cost is in packets.
func countsPackets(s *pcaptest.Step) bool {
	return s.Frame != nil && s.Plan.Classes[s.Outcome.Class].Count == marker.CountPackets
}

// unit is that of the rates.
func (b *rateBins) unit() plot.Unit {
	if b.packets {
		return plot.PacketRate
	}
	return plot.Rate
}

// points are one colour's rates, as steps from bin to bin.
func (b *rateBins) points(bins []uint64) []plot.Point {
	seconds := float64(b.width) / marker.Nano
	points := make([]plot.Point, 0, len(bins)+1)
	for i, n := range bins {
		points = append(points, plot.Point{X: float64(i) * seconds, Y: float64(n) / seconds})
	}
	end := max(float64(b.last-b.first)/marker.Nano, float64(len(bins))*seconds)
	last := &points[len(points)-1]
	last.Y = float64(bins[len(bins)-1]) / (end - last.X)
	return append(points, plot.Point{X: end, Y: last.Y})
}

// packetColors are the colours of packets in plots.
var packetColors = [marker.Colors]plot.Color{marker.Green: plot.Green, marker.Yellow: plot.Yellow, marker.Red: plot.Red}

// series are the rates by colour, of the colours that there were.
func (b *rateBins) series() (series []plot.Series) {
	for color, bins := range b.colors {
		if anyOf(bins) {
			series = append(series, plot.Series{
				Name: marker.Color(color).String(), Points: b.points(bins), Kind: plot.Step, Color: packetColors[color],
			})
		}
	}
	if anyOf(b.passed) {
		series = append(series, plot.Series{Name: "not policed", Points: b.points(b.passed), Kind: plot.Step, Color: plot.Grey})
	}
	return series
}

// note says how wide the bins are.
func (b *rateBins) note() string {
	return fmt.Sprintf("Rates are means over %s.", roundDuration(b.width))
}

func anyOf(bins []uint64) bool {
	for _, n := range bins {
		if n > 0 {
			return true
		}
	}
	return false
}

// roundDuration prints a round number of ns: "20 ms".
func roundDuration(ns uint64) string {
	for _, unit := range []struct {
		ns   uint64
		name string
	}{{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}} {
		if ns >= unit.ns {
			return units.FormatCount(ns/unit.ns) + " " + unit.name
		}
	}
	return fmt.Sprintf("%d ns", ns)
}
