package plot

import (
	"image/color"
	"math"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

const (
	lineWidth    = 1.5
	markerRadius = 3
	legendLine   = 40 // a sample: long enough for the gaps of each dash pattern to be seen beside the marker
	legendSample = legendLine + 8
	legendGap    = 16
	bandOpacity  = 70 // of 255

	// strokePoints is how many points are stroked at once: the rasteriser's time grows with the square of those that
	// cross a row of pixels. A dash pattern begins anew with each stroke.
	strokePoints = 128
)

// series draws one series into the box.
func (p *pen) series(s *Series, b box, x, y *scale) {
	c := rgb[s.Color]
	runs := s.visible(x, y)
	clipped := p.Canvas
	p.Canvas = draw.Canvas{Canvas: p.Canvas.Canvas, Rectangle: vg.Rectangle{Min: at(b.left-1, b.bottom-1), Max: at(b.right+1, b.top+1)}}
	defer func() { p.Canvas = clipped }()
	for _, run := range runs {
		path := make([]vg.Point, 0, 2*len(run))
		for i, point := range run {
			place := at(b.x(x, point.X), b.y(y, point.Y))
			if s.Kind == Step && i > 0 {
				path = append(path, vg.Point{X: place.X, Y: path[len(path)-1].Y})
			}
			path = append(path, place)
		}
		switch s.Kind {
		case Markers:
			p.markers(s, path)
		case Band:
			for i := len(run) - 1; i >= 0; i-- {
				path = append(path, at(b.x(x, run[i].X), b.y(y, run[i].Low)))
			}
			c.A = bandOpacity
			p.FillPolygon(c, p.ClipPolygonXY(path))
		default:
			style := draw.LineStyle{Color: c, Width: lineWidth}
			for _, d := range dashes[s.Dash] {
				style.Dashes = append(style.Dashes, vg.Length(d))
			}
			for _, line := range p.ClipLinesXY(path) {
				for len(line) > strokePoints {
					p.StrokeLines(style, line[:strokePoints])
					line = line[strokePoints-1:]
				}
				p.StrokeLines(style, line)
			}
		}
	}
	if s.Kind == Line || s.Kind == Step {
		p.markers(s, s.along(runs, b, x, y))
	}
}

// visible is what of the series can be seen, in runs without a gap.
func (s *Series) visible(x, y *scale) (runs [][]Point) {
	var thin *Thin
	flush := func() {
		if thin != nil {
			runs = append(runs, thin.Points())
		}
		thin = nil
	}
	for _, point := range s.Points {
		if s.Kind == Band && !y.axis.shows(point.Low) {
			point.Low = y.min
		}
		if !x.axis.shows(point.X) || !y.axis.shows(point.Y) {
			flush()
			continue
		}
		if thin == nil {
			thin = newThin(x.min, x.max, columnsDrawn, x.axis.Log)
			thin.band = s.Kind == Band
		}
		thin.Add(point)
	}
	flush()
	return runs
}

// along are places on a line for its markers: each point where they are few, else some, each series at its own.
func (s *Series) along(runs [][]Point, b box, x, y *scale) (places []vg.Point) {
	gap := (b.right - b.left) / lineMarkers
	next := b.left + gap*float64(s.Marker)/float64(NoMarker)
	if len(s.Points) <= 2*lineMarkers {
		gap, next = markerRadius, b.left-1
	}
	for _, run := range runs {
		for _, point := range run {
			if place := b.x(x, point.X); place >= next {
				places = append(places, at(place, b.y(y, point.Y)))
				next = math.Max(next+gap, place+gap/2)
			}
		}
	}
	return places
}

func (p *pen) markers(s *Series, places []vg.Point) {
	if s.Marker == NoMarker {
		return
	}
	style := draw.GlyphStyle{Color: rgb[s.Color], Radius: markerRadius, Shape: shapes[s.Marker]}
	if s.Marker == Cross || s.Marker == Plus {
		style.Radius *= 1.3
	}
	for _, place := range places {
		p.DrawGlyph(style, place)
	}
}

var shapes = []draw.GlyphDrawer{
	Circle: draw.CircleGlyph{}, Square: polygon{1.25, []float64{45, 135, 225, 315}}, Triangle: polygon{1.35, []float64{90, 210, 330}},
	Diamond: polygon{1.35, []float64{0, 90, 180, 270}}, Cross: draw.CrossGlyph{}, Plus: draw.PlusGlyph{},
}

// polygon is a filled shape: its corners' distance, in radii, and their angles in degrees.
type polygon struct {
	size   float64
	angles []float64
}

// DrawGlyph implements draw.GlyphDrawer.
func (g polygon) DrawGlyph(c *draw.Canvas, s draw.GlyphStyle, place vg.Point) {
	var path vg.Path
	for i, angle := range g.angles {
		sin, cos := math.Sincos(angle * math.Pi / 180)
		r := s.Radius * vg.Length(g.size)
		corner := vg.Point{X: place.X + r*vg.Length(cos), Y: place.Y + r*vg.Length(sin)}
		if i == 0 {
			path.Move(corner)
		} else {
			path.Line(corner)
		}
	}
	path.Close()
	c.SetColor(s.Color)
	c.Fill(path)
}

// marks writes the panel's marks, each text where there is room for it.
func (p *pen) marks(marks []Mark, b box, x, y *scale) {
	var taken []box
	for _, m := range marks {
		if !x.axis.shows(m.X) || !m.Line && !y.axis.shows(m.Y) {
			continue
		}
		across, up := b.x(x, m.X), b.top-3
		if m.Line {
			p.line(ink, .9, []float64{2, 2}, at(across, b.bottom), at(across, b.top))
			up -= tickSize
		} else {
			up = b.y(y, m.Y)
			p.DrawGlyph(draw.GlyphStyle{Color: ink, Radius: markerRadius + 1.5, Shape: draw.RingGlyph{}}, at(across, up))
			up += 6
		}
		width := p.width(tickSize, m.Text)
		left := across + 6
		if left+width > b.right {
			left = across - 6 - width
		}
		up = min(up, b.top-tickSize-2)
		room := box{left, up - 2, left + width, up + tickSize + 1}
		for tries := 0; tries < 12; tries++ {
			moved := false
			for _, t := range taken {
				if room.left < t.right && t.left < room.right && room.bottom < t.top && t.bottom < room.top {
					by := room.top - t.bottom + 1
					room.bottom, room.top, moved = room.bottom-by, room.top-by, true
				}
			}
			if !moved {
				break
			}
		}
		taken = append(taken, room)
		white := color.NRGBA{0xff, 0xff, 0xff, 0xd0}
		p.FillPolygon(white, []vg.Point{at(room.left-2, room.bottom), at(room.right+2, room.bottom), at(room.right+2, room.top), at(room.left-2, room.top)})
		p.text(tickSize, room.left, room.bottom+2, 0, 0, m.Text)
	}
}

// legend is where the names of a panel's series stand, above it.
type legend struct {
	entries []legendEntry
	height  float64
}

type legendEntry struct {
	series *Series
	name   string
	x, row float64
}

// layLegend puts the names into rows.
func (p *pen) layLegend(panel *Panel) (l legend) {
	const left, right = margin + yAxisWidth, figureWidth - margin
	x, row := float64(left), 0.
	for i := range panel.Series {
		s := &panel.Series[i]
		if s.Name == "" {
			continue
		}
		name := p.fit(tickSize, right-left-legendSample, s.Name)
		width := legendSample + p.width(tickSize, name)
		if x > left && x+width > right {
			x, row = left, row+1
		}
		l.entries = append(l.entries, legendEntry{s, name, x, row})
		x += width + legendGap
	}
	if len(l.entries) > 0 {
		l.height = (row + 1) * tickSize * 1.5
	}
	return l
}

// legend draws the rows, the last of which stands on bottom.
func (p *pen) legend(l *legend, bottom float64) {
	for _, e := range l.entries {
		y := bottom + l.height - (e.row+.6)*tickSize*1.5
		c := rgb[e.series.Color]
		switch e.series.Kind {
		case Band:
			c.A = bandOpacity
			p.FillPolygon(c, []vg.Point{at(e.x, y-4), at(e.x+legendLine, y-4), at(e.x+legendLine, y+4), at(e.x, y+4)})
		case Markers:
			p.markers(e.series, []vg.Point{at(e.x+legendLine/2, y)})
		default:
			p.line(c, lineWidth, dashes[e.series.Dash], at(e.x, y), at(e.x+legendLine, y))
			p.markers(e.series, []vg.Point{at(e.x+legendLine/2, y)})
		}
		p.text(tickSize, e.x+legendSample-4, y, 0, -.45, e.name)
	}
}
