package main

import (
	"fmt"
	"image/color"
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// curve is one line of a picture: its name in the legend, and its points.
type curve struct {
	name   string
	points plotter.XYs
}

// add appends a point.
func (c *curve) add(x, y float64) { c.points = append(c.points, plotter.XY{X: x, Y: y}) }

// picture is a log-log plot.
type picture struct {
	title, x, y string  // y and x with their units
	fromY, toY  float64 // what the y axis shows at least
	curves      []*curve
}

// curve is the picture's curve of that name, a new one where it has none.
func (p *picture) curve(name string) *curve {
	for _, c := range p.curves {
		if c.name == name {
			return c
		}
	}
	p.curves = append(p.curves, &curve{name: name})
	return p.curves[len(p.curves)-1]
}

// styles tell curves apart by colour (Okabe and Ito's palette, safe for the colour-blind), dashes and
// marker, each enough alone.
var styles = []struct {
	color  color.RGBA
	dashes []vg.Length
	marker draw.GlyphDrawer
}{
	{color.RGBA{0x00, 0x72, 0xb2, 255}, nil, draw.CircleGlyph{}},
	{color.RGBA{0xd5, 0x5e, 0x00, 255}, []vg.Length{8, 3}, draw.BoxGlyph{}},
	{color.RGBA{0x00, 0x9e, 0x73, 255}, []vg.Length{2, 2}, draw.PyramidGlyph{}},
	{color.RGBA{0xcc, 0x79, 0xa7, 255}, []vg.Length{8, 3, 2, 3}, draw.CrossGlyph{}},
	{color.RGBA{0x00, 0x00, 0x00, 255}, []vg.Length{12, 4}, draw.RingGlyph{}},
	{color.RGBA{0xe6, 0x9f, 0x00, 255}, []vg.Length{4, 2, 1, 2, 1, 2}, draw.SquareGlyph{}},
}

// Of a picture: 1000 by 600 pixels at the 96 a vg.Inch has.
const (
	pictureWidth  = 1000 * vg.Inch / 96
	pictureHeight = 600 * vg.Inch / 96
)

// save draws the picture and writes it to a PNG file.
func (p *picture) save(file string) error {
	plt, err := p.plot()
	if err != nil {
		return err
	}
	return plt.Save(pictureWidth, pictureHeight, file)
}

func (p *picture) plot() (*plot.Plot, error) {
	plt := plot.New()
	plt.Title.Text = p.title
	plt.Title.TextStyle.Font.Variant = "Sans"
	plt.Title.TextStyle.Font.Size = 16
	plt.Title.Padding = 10
	for axis, label := range map[*plot.Axis]string{&plt.X: p.x, &plt.Y: p.y} {
		axis.Label.Text = label
		axis.Label.TextStyle.Font.Variant = "Sans"
		axis.Label.TextStyle.Font.Size = 13
		axis.Label.Padding = 6
		axis.Tick.Label.Font.Variant = "Sans"
		axis.Tick.Label.Font.Size = 12
		axis.Scale = plot.LogScale{}
	}
	plt.X.Tick.Marker = plot.TickerFunc(func(from, to float64) []plot.Tick { return logTicks(from, to, 1) })
	plt.Y.Tick.Marker = plot.TickerFunc(func(from, to float64) []plot.Tick { return logTicks(from, to, 1, 2, 5) })
	grid := plotter.NewGrid()
	grid.Horizontal.Color = color.Gray{215}
	grid.Vertical.Color = color.Gray{215}
	plt.Add(grid)
	plt.Legend.Top = true
	plt.Legend.Left = true
	plt.Legend.XOffs = 10
	plt.Legend.YOffs = -6
	plt.Legend.Padding = 4
	plt.Legend.ThumbnailWidth = 48
	plt.Legend.TextStyle.Font.Variant = "Sans"
	plt.Legend.TextStyle.Font.Size = 12
	for i, c := range p.curves {
		line, points, err := plotter.NewLinePoints(c.points)
		if err != nil {
			return nil, fmt.Errorf("draw %s: %w", c.name, err)
		}
		s := styles[i%len(styles)]
		line.Color, line.Dashes, line.Width = s.color, s.dashes, 1.8
		points.Color, points.Shape, points.Radius = s.color, s.marker, 4.5
		plt.Add(line, points)
		plt.Legend.Add(c.name, line, points)
	}
	plt.X.Max *= 1.1 // room for the last markers
	if p.fromY > 0 {
		plt.Y.Min, plt.Y.Max = min(plt.Y.Min, p.fromY), max(plt.Y.Max, p.toY)
	}
	return plt, nil
}

// logTicks are ticks with labels at steps × powers of ten, and ones without at each whole step.
func logTicks(from, to float64, steps ...int) (ticks []plot.Tick) {
	for decade := math.Pow10(int(math.Floor(math.Log10(from)))); decade <= to; decade *= 10 {
		for step := 1; step < 10; step++ {
			t := plot.Tick{Value: decade * float64(step)}
			if t.Value < from*0.999 || t.Value > to*1.001 {
				continue
			}
			for _, s := range steps {
				if s == step {
					t.Label = short(t.Value)
				}
			}
			ticks = append(ticks, t)
		}
	}
	return ticks
}

// short writes a number as people do: 4M, 100k, 0.01.
func short(v float64) string {
	suffix := ""
	for _, s := range []string{"k", "M", "G"} {
		if math.Round(v*1000)/1000 < 1000 {
			break
		}
		v /= 1000
		suffix = s
	}
	text := strconv.FormatFloat(v, 'f', 4, 64)
	return strings.TrimRight(strings.TrimRight(text, "0"), ".") + suffix
}
