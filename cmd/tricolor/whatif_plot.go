package main

import (
	"fmt"

	"github.com/tricolor-policer/tricolor/internal/plot"
)

// shiftBins adds up over time what is newly red, and what is red no more.
type shiftBins struct {
	like          *rateBins // whose bins these are as wide as
	newly, noMore []uint64
}

func newShiftBins(like *rateBins) *shiftBins {
	n := len(like.passed)
	return &shiftBins{like, make([]uint64, n), make([]uint64, n)}
}

func (b *shiftBins) add(now uint64, from, to end, bytes uint64) {
	at := b.like.bin(now)
	switch {
	case to.lost() && !from.lost():
		b.newly[at] += bytes
	case from.lost() && !to.lost():
		b.noMore[at] += bytes
	}
}

// figure draws the rates by colour before and after, on the same scale, and what is otherwise.
func (w *whatIf) figure() *plot.Figure {
	f := &plot.Figure{
		Title: w.files[0] + " by two policies",
		Subtitle: fmt.Sprintf("newly red: %s; red no more: %s; of %s",
			plural(w.all.newly.Packets, "packet", "packets"), plural(w.all.noMore.Packets, "packet", "packets"), plural(w.records, "packet", "packets")),
		X:     plot.Axis{Label: "time since the first packet", Unit: plot.Seconds},
		Notes: []string{w.sides[0].rates.note() + " Bytes are those of the frames."},
	}
	most := 0.
	for i, word := range []string{"Before: ", "After: "} {
		panel := plot.Panel{Title: word + w.sides[i].file, Y: plot.Axis{Label: "rate", Unit: plot.Rate}, Series: w.sides[i].rates.series()}
		for _, s := range panel.Series {
			for _, p := range s.Points {
				most = max(most, p.Y)
			}
		}
		f.Panels = append(f.Panels, panel)
	}
	for i := range f.Panels {
		f.Panels[i].Y.Max = most * 1.06
	}
	shifts := plot.Panel{Title: "What fares otherwise", Y: plot.Axis{Label: "rate", Unit: plot.Rate}}
	for _, s := range []struct {
		name  string
		bins  []uint64
		color plot.Color
	}{{"newly red", w.shifts.newly, plot.Red}, {"red no more", w.shifts.noMore, plot.Blue}} {
		shifts.Series = append(shifts.Series, plot.Series{Name: s.name, Points: w.shifts.like.points(s.bins), Kind: plot.Step, Color: s.color})
	}
	f.Panels = append(f.Panels, shifts)
	return f
}
