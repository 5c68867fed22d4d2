package main

import (
	"fmt"
	"strings"

	"github.com/tricolor-policer/tricolor/fit"
	"github.com/tricolor-policer/tricolor/internal/plot"
)

// keysDrawn is how many keys have a curve of their own in a figure at most.
const keysDrawn = 4

// figure draws each class's curve, a panel each.
func (f *fitter) figure() *plot.Figure {
	var files []string
	for _, file := range f.study.files {
		files = append(files, file.path)
	}
	figure := &plot.Figure{
		Title:    "The least burst for each rate: " + strings.Join(files, ", "),
		Subtitle: "on or above the curve nothing is red; below it, something is",
	}
	for _, t := range f.study.targets {
		if t.packets == 0 || len(t.points) == 0 {
			continue
		}
		rate, burst := plot.Rate, plot.Bytes
		if t.countsPackets() {
			rate, burst = plot.PacketRate, plot.Count
		}
		panel := plot.Panel{
			Title: fmt.Sprintf("class %s, %s, mean %s", t.class.Name, t.whose(), t.mean(t.cost)),
			X:     &plot.Axis{Label: "rate", Unit: rate, Log: true}, Y: plot.Axis{Label: "burst", Unit: burst, Log: true},
		}
		name := "least burst"
		if len(t.shown) > 0 {
			name = "of every key"
		}
		panel.Series = append(panel.Series, curveSeries(name, t.points))
		for _, k := range t.shown[:min(len(t.shown), keysDrawn)] {
			panel.Series = append(panel.Series, curveSeries(f.study.names.name(k.key.Fields(), false), fit.Trim(k.curve.Points())))
		}
		if t.knee >= 0 {
			panel.Marks = append(panel.Marks, markAt(t, t.points[t.knee], "knee"))
		}
		if f.rate != nil {
			panel.Marks = append(panel.Marks, markAt(t, t.chosen, "--cir"))
		}
		if t.cbs != t.chosen.Burst {
			panel.Marks = append(panel.Marks, markAt(t, fit.Point{Rate: t.chosen.Rate, Burst: t.cbs}, "cbs"))
		}
		figure.Panels = append(figure.Panels, panel)
	}
	return figure
}

func curveSeries(name string, points []fit.Point) plot.Series {
	s := plot.Series{Name: name}
	for _, p := range points {
		s.Points = append(s.Points, plot.Point{X: float64(p.Rate), Y: float64(p.Burst)})
	}
	return s
}

func markAt(t *target, p fit.Point, word string) plot.Mark {
	return plot.Mark{X: float64(p.Rate), Y: float64(p.Burst), Text: fmt.Sprintf("%s: %s, %s", word, t.rate(p.Rate), t.amount(p.Burst))}
}
