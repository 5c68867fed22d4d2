package plot

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"math"
	"strconv"
)

// The page's parts. uPlot is as its package has it.
var (
	//go:embed page.html
	pageText string
	//go:embed page.js
	pageScript string
	//go:embed page.css
	pageStyle string
	//go:embed uplot/uPlot.iife.min.js
	uplotScript string
	//go:embed uplot/uPlot.min.css
	uplotStyle string
	//go:embed uplot/LICENSE
	uplotLicense string
)

var page = template.Must(template.New("page").Parse(pageText))

// columnsPage is how many columns of a series the page holds: more than a screen has, so that it can be zoomed.
const columnsPage = 3000

// The figure as the page's script reads it. Values of a linear axis are in the unit of its ticks, those of a
// logarithmic one in the unit's smallest.
type (
	pagePanel struct {
		Title  string       `json:"title"`
		Shared bool         `json:"shared"` // its x axis moves with the others'
		X      pageAxis     `json:"x"`
		Y      pageAxis     `json:"y"`
		Series []pageSeries `json:"series"`
		Marks  []pageMark   `json:"marks"`
	}
	pageAxis struct {
		Label string  `json:"label"`
		Unit  string  `json:"unit"`  // of a linear axis
		Base  float64 `json:"base"`  // of a logarithmic axis; 0: linear
		Steps []step  `json:"steps"` // of a logarithmic axis
		Min   number  `json:"min"`
		Max   number  `json:"max"`
		Fixed bool    `json:"fixed"` // Min and Max are the figure's own
	}
	pageSeries struct {
		Name   string    `json:"name"`
		Kind   string    `json:"kind"`
		Color  string    `json:"color"`
		Dash   []float64 `json:"dash"`
		Marker string    `json:"marker"`
		X      numbers   `json:"xs"`
		Y      numbers   `json:"ys"`
		Low    numbers   `json:"lows"`
	}
	pageMark struct {
		X    number `json:"at"`
		Y    number `json:"y"`
		Text string `json:"text"`
		Line bool   `json:"line"`
	}
)

var (
	kindWords   = []string{Line: "line", Step: "step", Markers: "markers", Band: "band"}
	markerWords = []string{
		Circle: "circle", Square: "square", Triangle: "triangle", Diamond: "diamond", Cross: "cross", Plus: "plus", NoMarker: "",
	}
)

// number is a value to twelve figures; null where it is none.
type number float64

// MarshalJSON implements json.Marshaler.
func (n number) MarshalJSON() ([]byte, error) { return numbers{float64(n)}.append(nil), nil }

// numbers are values to twelve figures.
type numbers []float64

// MarshalJSON implements json.Marshaler.
func (n numbers) MarshalJSON() ([]byte, error) { return append(n.append([]byte{'['}), ']'), nil }

func (n numbers) append(text []byte) []byte {
	for i, v := range n {
		if i > 0 {
			text = append(text, ',')
		}
		if math.IsNaN(v) || math.IsInf(v, 0) {
			text = append(text, "null"...)
		} else {
			text = strconv.AppendFloat(text, v, 'g', 12, 64)
		}
	}
	return text
}

// writeHTML writes the page.
func writeHTML(w io.Writer, f *Figure) error {
	panels := []pagePanel{}
	shared := f.sharedX()
	for i := range f.Panels {
		panels = append(panels, f.pagePanel(i, shared))
	}
	data, err := json.Marshal(panels) // escapes <, > and &: no text ends the script
	if err != nil {
		return err
	}
	var out bytes.Buffer
	err = page.Execute(&out, map[string]any{
		"Figure": f, "License": uplotLicense,
		"Style":  template.CSS(uplotStyle + pageStyle),
		"Script": template.JS(uplotScript + "\n" + pageScript), // both are embedded here
		"Data":   template.JS(data),                            // as json.Marshal escapes it for HTML
	})
	if err != nil {
		return err
	}
	_, err = out.WriteTo(w)
	return err
}

func (f *Figure) pagePanel(i int, x scale) pagePanel {
	p := &f.Panels[i]
	if p.X != nil {
		x = p.scaleX()
	}
	y := p.scaleY()
	out := pagePanel{Title: p.Title, Shared: p.X == nil, X: x.page(), Y: y.page(), Series: []pageSeries{}, Marks: []pageMark{}}
	for s := range p.Series {
		out.Series = append(out.Series, p.Series[s].page(&x, &y))
	}
	for _, m := range p.Marks {
		out.Marks = append(out.Marks, pageMark{number(x.onPage(m.X)), number(y.onPage(m.Y)), m.Text, m.Line})
	}
	return out
}

// page is the axis for the page's script.
func (s *scale) page() pageAxis {
	a := pageAxis{
		Label: s.caption(s.axis.Label), Unit: s.step.Name, Min: number(s.onPage(s.min)), Max: number(s.onPage(s.max)),
		Fixed: s.axis.Min < s.axis.Max,
	}
	if s.axis.Log {
		a.Base, a.Unit = s.axis.Unit.base(), ""
		smallest := s.axis.Unit.steps()[0].Factor
		for _, unit := range s.axis.Unit.steps() {
			a.Steps = append(a.Steps, step{unit.Factor / smallest, unit.Name})
		}
	}
	return a
}

// onPage is a value in what the page counts; NaN where the axis has no place for it.
func (s *scale) onPage(v float64) float64 {
	switch {
	case !s.axis.shows(v):
		return math.NaN()
	case s.axis.Log:
		return v / s.axis.Unit.steps()[0].Factor
	}
	return v / s.step.Factor
}

// page is the series for the page's script, by strictly ascending X: where several points have one X, those
// that follow stand a hair to its right.
func (s *Series) page(x, y *scale) pageSeries {
	c := rgb[s.Color]
	out := pageSeries{
		Name: s.Name, Kind: kindWords[s.Kind], Marker: markerWords[s.Marker], Dash: append([]float64{}, dashes[s.Dash]...),
		Color: fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B), X: numbers{}, Y: numbers{}, Low: numbers{},
	}
	hair := (x.onPage(x.max) - x.onPage(x.min)) * 1e-9
	thin := newThin(x.min, x.max, columnsPage, x.axis.Log)
	thin.band = s.Kind == Band
	for _, point := range s.Points {
		if x.axis.shows(point.X) {
			thin.Add(point)
		}
	}
	last := math.Inf(-1)
	for _, point := range thin.Points() {
		at := x.onPage(point.X)
		if at <= last {
			at = last + max(hair, math.Abs(last)*1e-11)
		}
		last = at
		out.X = append(out.X, at)
		out.Y = append(out.Y, y.onPage(point.Y))
		if s.Kind == Band {
			low := y.onPage(point.Low)
			if math.IsNaN(low) {
				low = y.onPage(y.min)
			}
			out.Low = append(out.Low, low)
		}
	}
	return out
}
