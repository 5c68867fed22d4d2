package plot

import (
	"image/color"
	"strings"
	"unicode"
)

// Color is a series' colour: of Okabe and Ito's palette, which colour-blind readers can tell apart.
type Color uint8

// The colours. Green, Yellow and Red stand for those of packets.
const (
	Auto Color = iota // one that no other series of the panel has, as far as there are any
	Blue
	Red    // vermillion
	Green  // bluish green
	Yellow // orange: yellow is hard to see on white
	Purple // reddish
	Sky
	Black
	Grey
)

var rgb = []color.NRGBA{
	Blue: {0x00, 0x72, 0xb2, 0xff}, Red: {0xd5, 0x5e, 0x00, 0xff}, Green: {0x00, 0x9e, 0x73, 0xff},
	Yellow: {0xe6, 0x9f, 0x00, 0xff}, Purple: {0xcc, 0x79, 0xa7, 0xff}, Sky: {0x56, 0xb4, 0xe9, 0xff},
	Black: {0, 0, 0, 0xff}, Grey: {0x80, 0x80, 0x80, 0xff},
}

// Dash is a line's pattern.
type Dash uint8

// The patterns.
const (
	AutoDash Dash = iota
	Solid
	Dashed
	Dotted
	DashDot
	LongDash
	DashDotDot
)

// dashes are the patterns, in points.
var dashes = [][]float64{
	Solid: nil, Dashed: {6, 3}, Dotted: {1.5, 2.5}, DashDot: {7, 2.5, 1.5, 2.5}, LongDash: {12, 4},
	DashDotDot: {9, 2.5, 1.5, 2.5, 1.5, 2.5},
}

// Marker is the shape of a point.
type Marker uint8

// The shapes. NoMarker has a line stay without any.
const (
	AutoMarker Marker = iota
	Circle
	Square
	Triangle
	Diamond
	Cross
	Plus
	NoMarker
)

const lineMarkers = 9 // shapes that a line of many points has along it, about

// packetColors have the same dash and marker in each figure.
var packetColors = map[Color]struct {
	dash   Dash
	marker Marker
}{Green: {Solid, Circle}, Yellow: {Dashed, Triangle}, Red: {DashDot, Cross}}

// prepare is a copy of the figure in which each series has a colour, a dash and a marker that are its own in
// its panel, and texts have no control characters.
func (f *Figure) prepare() *Figure {
	out := *f
	out.Title, out.Subtitle = plainText(f.Title), plainText(f.Subtitle)
	out.X.Label = plainText(f.X.Label)
	out.Notes = nil
	for _, note := range f.Notes {
		out.Notes = append(out.Notes, plainText(note))
	}
	out.Panels = nil
	for _, p := range f.Panels {
		p.Title, p.Y.Label = plainText(p.Title), plainText(p.Y.Label)
		if p.X != nil {
			x := *p.X
			x.Label = plainText(x.Label)
			p.X = &x
		}
		marks := p.Marks
		p.Marks = nil
		for _, m := range marks {
			m.Text = plainText(m.Text)
			p.Marks = append(p.Marks, m)
		}
		p.Series = styled(p.Series)
		out.Panels = append(out.Panels, p)
	}
	return &out
}

// styled gives each series what it leaves open.
func styled(series []Series) []Series {
	out := make([]Series, len(series))
	var colors [Grey + 1]int
	var taken [DashDotDot + 1]int
	var shapes [Plus + 1]int
	for _, s := range series {
		colors[s.Color]++
		if fixed, ok := packetColors[s.Color]; ok {
			taken[fixed.dash]++
			shapes[fixed.marker]++
		}
	}
	// rarest is the first of those that were taken least.
	rarest := func(n []int) int {
		best := 1
		for i := 1; i < len(n); i++ {
			if n[i] < n[best] {
				best = i
			}
		}
		n[best]++
		return best
	}
	for i, s := range series {
		s.Name = plainText(s.Name)
		fixed, known := packetColors[s.Color]
		if s.Color == Auto {
			s.Color = Color(rarest(colors[:Grey]))
		}
		if s.Dash == AutoDash {
			if s.Dash = fixed.dash; !known {
				s.Dash = Dash(rarest(taken[:]))
			}
		}
		if s.Marker == AutoMarker {
			if s.Marker = fixed.marker; !known {
				s.Marker = Marker(rarest(shapes[:]))
			}
		}
		out[i] = s
	}
	return out
}

// plainText is a text of which every character can be drawn and written in XML: what controls a terminal or the
// direction of writing is shown as U+FFFD.
func plainText(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r >= 0xfffe {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(text, string(unicode.ReplacementChar)))
}
