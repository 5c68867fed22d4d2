// Package plot draws figures: a title, panels one above the other over a shared x axis, and series in them. It
// writes PNG and SVG by gonum/plot's canvases, and HTML as one page that holds all it needs (uPlot included),
// works offline, and zooms.
//
// A figure is told apart without colours too: each series has a dash pattern or a marker of its own.
package plot

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
)

// Figure is what is drawn. Its texts may hold any bytes: each writer escapes them.
type Figure struct {
	Title    string
	Subtitle string // one line below the title
	X        Axis   // of each panel that has none of its own
	Panels   []Panel
	Notes    []string // small print below, a line each
}

// Panel is one pair of axes.
type Panel struct {
	Title  string
	X      *Axis // nil: the figure's, zoomed along with it
	Y      Axis
	Series []Series
	Marks  []Mark
}

// Axis is one axis: what it shows, in which unit.
type Axis struct {
	Label string // without the unit
	Unit  Unit
	Log   bool    // logarithmic; values of 0 or less are left out
	Min   float64 // where Min < Max: the range to show, in the unit's base; else what the points span
	Max   float64
}

// Series is one line, or one set of markers.
type Series struct {
	Name   string  // in the legend
	Points []Point // by ascending X, in the units' bases
	Kind   Kind
	Color  Color
	Dash   Dash   // 0: one of its own
	Marker Marker // 0: one of its own
}

// Point is one value at X; Low is where a Band begins.
type Point struct{ X, Y, Low float64 }

// Kind is how a series is drawn.
type Kind uint8

// How a series is drawn.
const (
	Line    Kind = iota // straight from point to point
	Step                // each value holds until the next point
	Markers             // points alone
	Band                // what lies between Low and Y
)

// Mark is a text at a point; with Line, at a vertical line at X.
type Mark struct {
	X, Y float64
	Text string
	Line bool
}

// Format is a kind of file.
type Format uint8

// The kinds of file.
const (
	PNG Format = iota
	SVG
	HTML
)

var suffixes = []string{".png", ".svg", ".html"}

// FormatOf is the format that a file's suffix names. Its error says which there are.
func FormatOf(path string) (Format, error) {
	for f, suffix := range suffixes {
		if strings.EqualFold(filepath.Ext(path), suffix) {
			return Format(f), nil
		}
	}
	return 0, fmt.Errorf("%s: the suffix says what to draw: name a file that ends in .png, .svg or .html", path)
}

// Write draws the figure. Of more points than there are pixels it draws what can be seen: each column's first,
// least, greatest and last.
func (f *Figure) Write(w io.Writer, format Format) error {
	styled := f.prepare()
	if format == HTML {
		return writeHTML(w, styled)
	}
	return writeImage(w, styled, format)
}
