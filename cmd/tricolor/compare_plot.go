package main

import (
	"cmp"

	"github.com/tricolor-policer/tricolor/contract"
	"github.com/tricolor-policer/tricolor/internal/plot"
	"github.com/tricolor-policer/tricolor/marker"
)

// compareCurves are what arrived and what each contract let go on, added up over time, and what a bucket would have
// had to hold for it.
type compareCurves struct {
	first   uint64 // ns: where time begins
	last    uint64 // ns: the latest arrival
	began   bool
	arrived curve
	curves  [contract.Kinds]curve
	held    [contract.Kinds]curve
}

// arrive notes an arrival; it comes before its admissions.
func (c *compareCurves) arrive(a contract.Arrival) {
	if !c.began {
		c.first, c.began = a.Time, true
	}
	c.last = max(c.last, a.Time) // a clock that steps back stands still
	c.arrived.sum += a.Cost
	c.arrived.add(c.seconds(c.last), c.arrived.sum)
}

// admit notes what a contract lets go on.
func (c *compareCurves) admit(a contract.Admission) {
	x, sum := c.seconds(a.Leaves), &c.curves[a.Contract]
	sum.sum += a.Cost
	sum.add(x, sum.sum)
	held := &c.held[a.Contract]
	held.most = heldMost
	held.add(x, a.Held-min(a.Held, a.Cost))
	held.add(x, a.Held)
}

// seconds are a time as it is drawn.
func (c *compareCurves) seconds(ns uint64) float64 { return float64(ns-c.first) / marker.Nano }

// savePlot draws an input where it is asked for.
func (c *comparer) savePlot(run *compared) error {
	if run.curves == nil {
		return nil
	}
	if run.file != "" {
		return c.plot.save(run.curves.figure(run.file, c.terms), run.file)
	}
	return c.plot.save(run.curves.figure("Scenario "+run.scenario, c.terms))
}

// figure draws them beside what the token bucket promises.
func (c *compareCurves) figure(title string, t compareTerms) *plot.Figure {
	unit, word := plot.Bytes, "bytes"
	if t.packets {
		unit, word = plot.Count, "packets"
	}
	sums := plot.Panel{Title: "Let through since the first packet", Y: plot.Axis{Label: word, Unit: unit}}
	held := plot.Panel{Title: "Burst in use: over B, some interval T had more than B + rT", Y: plot.Axis{Label: word, Unit: unit}}
	end := c.arrived.end()
	for kind := range contract.Kinds {
		end = max(end, c.curves[kind].end())
	}
	line := func(name string, y, slope float64) plot.Series {
		return plot.Series{
			Name: name, Color: plot.Black, Dash: plot.Solid, Marker: plot.NoMarker,
			Points: []plot.Point{{X: 0, Y: y}, {X: end, Y: y + slope*end}},
		}
	}
	sums.Series = append(sums.Series, plot.Series{
		Name: "arrived", Kind: plot.Step, Points: c.arrived.until(end), Color: plot.Grey, Dash: plot.Solid, Marker: plot.NoMarker,
	})
	for kind := range contract.Kinds {
		look := contractLooks[kind]
		s := plot.Series{Name: kind.String(), Kind: plot.Step, Points: c.curves[kind].until(end), Color: look.color, Dash: look.dash, Marker: look.marker}
		sums.Series = append(sums.Series, s)
		s.Kind, s.Points = plot.Line, c.held[kind].points
		held.Series = append(held.Series, s)
	}
	sums.Series = append(sums.Series, line("B + rT", float64(t.Burst), float64(t.Rate)))
	held.Series = append(held.Series, line("B", float64(t.Burst), 0))
	return &plot.Figure{
		Title: title, Subtitle: t.String(), X: plot.Axis{Label: "time since the first packet", Unit: plot.Seconds},
		Panels: []plot.Panel{sums, held}, Notes: []string{"Token bucket and GCRA are one line."},
	}
}

// contractLooks tell the contracts apart, without colours too.
var contractLooks = [contract.Kinds]struct {
	color  plot.Color
	dash   plot.Dash
	marker plot.Marker
}{
	contract.Token:   {plot.Green, plot.Solid, plot.Circle},
	contract.GCRA:    {plot.Blue, plot.Dotted, plot.Plus},
	contract.Fixed:   {plot.Red, plot.Dashed, plot.Square},
	contract.Log:     {plot.Purple, plot.DashDot, plot.Triangle},
	contract.Counter: {plot.Sky, plot.LongDash, plot.Diamond},
	contract.Shaper:  {plot.Yellow, plot.DashDotDot, plot.Cross},
}

// How many points a curve keeps at most, an even number: of sums, and of what goes up and down with each packet, of
// which more would be a blot.
const (
	curveMost = 1 << 13
	heldMost  = 1 << 9
)

// curve is values over time. Of too many it keeps the greatest of each few that are neighbours, so that memory
// is bounded and peaks survive.
type curve struct {
	points []plot.Point
	sum    uint64 // of a curve of sums
	most   int    // points; 0: curveMost
	every  uint64 // values a point; 0: one
	count  uint64 // values in the last point
}

func (c *curve) add(x float64, value uint64) {
	y := float64(value)
	if c.count > 0 && c.count < c.every {
		c.count++
		if last := &c.points[len(c.points)-1]; y >= last.Y {
			last.X, last.Y = x, y
		}
		return
	}
	if n := len(c.points); n == cmp.Or(c.most, curveMost) {
		for i := range n / 2 {
			c.points[i] = c.points[2*i]
			if other := c.points[2*i+1]; other.Y >= c.points[i].Y {
				c.points[i] = other
			}
		}
		c.points = c.points[:n/2]
		c.every = max(2, 2*c.every)
	}
	c.points = append(c.points, plot.Point{X: x, Y: y})
	c.count = 1
}

// end is the last x; 0 where there is none.
func (c *curve) end() float64 {
	if len(c.points) == 0 {
		return 0
	}
	return c.points[len(c.points)-1].X
}

// until is a curve of sums from 0, where nothing has come, to x.
func (c *curve) until(x float64) []plot.Point {
	points := append([]plot.Point{{}}, c.points...)
	return append(points, plot.Point{X: x, Y: float64(c.sum)})
}
