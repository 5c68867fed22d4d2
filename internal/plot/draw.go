package plot

import (
	"image/color"
	"io"
	"math"

	"codeberg.org/go-fonts/liberation/liberationsansregular"
	"golang.org/x/image/font/opentype"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Sizes on paper, in points.
const (
	figureWidth  = 800
	panelHeight  = 210 // of the axes alone
	margin       = 14
	yAxisWidth   = 74
	titleSize    = 15
	labelSize    = 10.5
	tickSize     = 9.5
	noteSize     = 9.5
	lineHeight   = 1.45 // of a text's size
	dotsPerInch  = 144
	columnsDrawn = figureWidth - yAxisWidth - 2*margin // one a point
)

var (
	ink  = color.NRGBA{0x22, 0x22, 0x22, 0xff}
	pale = color.NRGBA{0xe4, 0xe4, 0xe4, 0xff}
)

// pen draws on a canvas of which the origin is the lower left corner.
type pen struct {
	draw.Canvas
	handler text.Handler
}

// newHandler reads the one font that figures are written in.
func newHandler() (text.Handler, error) {
	f, err := opentype.Parse(liberationsansregular.TTF)
	if err != nil {
		return nil, err
	}
	return text.Plain{Fonts: font.NewCache(font.Collection{{Font: sans(0), Face: f}})}, nil
}

func sans(size float64) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: font.Length(size)}
}

func (p *pen) style(size float64) text.Style {
	return text.Style{Color: ink, Font: sans(size), Handler: p.handler}
}

// text writes at x, y; across and up say which part of the text is there: -1 its right or upper end, -0.5 its middle,
// 0 its left or lower end.
func (p *pen) text(size, x, y float64, across text.XAlignment, up text.YAlignment, words string) {
	s := p.style(size)
	s.XAlign, s.YAlign = across, up
	p.FillText(s, vg.Point{X: vg.Length(x), Y: vg.Length(y)}, words)
}

func (p *pen) width(size float64, words string) float64 {
	s := p.style(size)
	return float64(s.Width(words))
}

// fit shortens words to what a width holds.
func (p *pen) fit(size, width float64, words string) string {
	if p.width(size, words) <= width {
		return words
	}
	runes := []rune(words)
	for len(runes) > 0 && p.width(size, string(runes)+"…") > width {
		runes = runes[:len(runes)-1]
	}
	return string(runes) + "…"
}

func (p *pen) line(c color.Color, width float64, dash []float64, points ...vg.Point) {
	s := draw.LineStyle{Color: c, Width: vg.Length(width)}
	for _, d := range dash {
		s.Dashes = append(s.Dashes, vg.Length(d))
	}
	p.StrokeLines(s, points)
}

func at(x, y float64) vg.Point { return vg.Point{X: vg.Length(x), Y: vg.Length(y)} }

// writeImage lays the figure out from top to bottom, and draws it.
func writeImage(w io.Writer, f *Figure, format Format) error {
	handler, err := newHandler()
	if err != nil {
		return err
	}
	p := &pen{handler: handler}
	legends := make([]legend, len(f.Panels))
	height := 2.*margin + titleSize*lineHeight
	if f.Subtitle != "" {
		height += labelSize * lineHeight
	}
	for i := range f.Panels {
		legends[i] = p.layLegend(&f.Panels[i])
		height += p.above(&f.Panels[i], &legends[i]) + panelHeight + p.below(f, i)
	}
	height += float64(len(f.Notes)) * noteSize * lineHeight

	var canvas vg.CanvasWriterTo
	if format == SVG {
		canvas = vgsvg.New(figureWidth, vg.Length(height))
	} else {
		canvas = vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(figureWidth, vg.Length(height)), vgimg.UseDPI(dotsPerInch))}
	}
	p.Canvas = draw.New(canvas)
	p.FillPolygon(color.White, []vg.Point{at(0, 0), at(figureWidth, 0), at(figureWidth, height), at(0, height)})

	y := height - margin
	p.text(titleSize, margin, y, 0, -1, p.fit(titleSize, figureWidth-2*margin, f.Title))
	y -= titleSize * lineHeight
	if f.Subtitle != "" {
		p.text(labelSize, margin, y, 0, -1, p.fit(labelSize, figureWidth-2*margin, f.Subtitle))
		y -= labelSize * lineHeight
	}
	shared := f.sharedX()
	for i := range f.Panels {
		panel := &f.Panels[i]
		x := shared
		if panel.X != nil {
			x = panel.scaleX()
		}
		y -= p.above(panel, &legends[i])
		if panel.Title != "" {
			p.text(labelSize+.5, margin+yAxisWidth, y+legends[i].height+5, 0, 0, p.fit(labelSize+.5, figureWidth-yAxisWidth-2*margin, panel.Title))
		}
		p.legend(&legends[i], y+4)
		y -= panelHeight
		p.panel(f, i, box{margin + yAxisWidth, y, figureWidth - margin - 14, y + panelHeight}, x)
		y -= p.below(f, i)
	}
	for _, note := range f.Notes {
		p.text(noteSize, margin, y, 0, -1, p.fit(noteSize, figureWidth-2*margin, note))
		y -= noteSize * lineHeight
	}
	_, err = canvas.WriteTo(w)
	return err
}

// above is the room for a panel's title and legend.
func (p *pen) above(panel *Panel, l *legend) float64 {
	height := l.height + 8
	if panel.Title != "" {
		height += labelSize*lineHeight + 4
	}
	return height
}

// below is the room for a panel's x axis: its numbers and label stand under the last of those that share it.
func (p *pen) below(f *Figure, i int) float64 {
	if !f.namesX(i) {
		return 10
	}
	return (tickSize+labelSize)*lineHeight + 14
}

// namesX reports whether a panel's x axis is written under it.
func (f *Figure) namesX(i int) bool {
	return i == len(f.Panels)-1 || f.Panels[i].X != nil || f.Panels[i+1].X != nil
}

// sharedX spans all panels that have no x axis of their own.
func (f *Figure) sharedX() scale {
	return newScale(&f.X, func(yield func(float64) bool) {
		for i := range f.Panels {
			if f.Panels[i].X == nil && !f.Panels[i].eachX(yield) {
				return
			}
		}
	})
}

func (p *Panel) scaleX() scale {
	return newScale(p.X, func(yield func(float64) bool) { p.eachX(yield) })
}

// eachX yields each X of the panel.
func (p *Panel) eachX(yield func(float64) bool) bool {
	for i := range p.Series {
		for _, point := range p.Series[i].Points {
			if !yield(point.X) {
				return false
			}
		}
	}
	for _, m := range p.Marks {
		if !yield(m.X) {
			return false
		}
	}
	return true
}

// scaleY spans each Y of the panel.
func (p *Panel) scaleY() scale {
	s := newScale(&p.Y, func(yield func(float64) bool) {
		for i := range p.Series {
			for _, point := range p.Series[i].Points {
				if !yield(point.Y) || p.Series[i].Kind == Band && !yield(point.Low) {
					return
				}
			}
		}
		for _, m := range p.Marks {
			if !m.Line && !yield(m.Y) {
				return
			}
		}
	})
	s.widen()
	return s
}

// box is a rectangle on paper.
type box struct{ left, bottom, right, top float64 }

func (b *box) x(s *scale, v float64) float64 { return b.left + s.part(v)*(b.right-b.left) }
func (b *box) y(s *scale, v float64) float64 { return b.bottom + s.part(v)*(b.top-b.bottom) }

// panel draws one pair of axes and what is in it.
func (p *pen) panel(f *Figure, i int, b box, x scale) {
	panel := &f.Panels[i]
	y := panel.scaleY()
	named := f.namesX(i)
	var free float64 // where the next number of the x axis may begin
	for _, t := range x.ticks(8) {
		place := b.x(&x, t.at)
		p.line(pale, .6, nil, at(place, b.bottom), at(place, b.top))
		if half := p.width(tickSize, t.label) / 2; named && t.label != "" && place-half > free {
			p.text(tickSize, place, b.bottom-4, -.5, -1, t.label)
			free = place + half + 6
		}
	}
	free = 0
	for _, t := range y.ticks(5) {
		place := b.y(&y, t.at)
		p.line(pale, .6, nil, at(b.left, place), at(b.right, place))
		if t.label != "" && place-tickSize/2 > free {
			p.text(tickSize, b.left-5, place, -1, -.45, t.label)
			free = place + tickSize/2
		}
	}
	if named {
		axis := &f.X
		if panel.X != nil {
			axis = panel.X
		}
		p.text(labelSize, (b.left+b.right)/2, b.bottom-6-tickSize*lineHeight, -.5, -1, x.caption(axis.Label))
	}
	label := p.style(labelSize)
	label.XAlign, label.YAlign, label.Rotation = -.5, -1, math.Pi/2
	p.FillText(label, at(margin, (b.bottom+b.top)/2), p.fit(labelSize, panelHeight, y.caption(panel.Y.Label)))
	p.line(ink, .8, nil, at(b.left, b.top), at(b.left, b.bottom), at(b.right, b.bottom))
	for s := range panel.Series {
		p.series(&panel.Series[s], b, &x, &y)
	}
	p.marks(panel.Marks, b, &x, &y)
}

// caption is the axis's label; on a logarithmic one each tick has its unit itself.
func (s *scale) caption(label string) string {
	if s.axis.Log {
		return label
	}
	return caption(label, s.step)
}
