package plot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/color"
	"image/png"
	"io"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// hostile is a name that would break out of each format that is written carelessly.
const hostile = "</script><script>alert(1)</script> \"'`&lt;${1}{{.}}\x00\x1b[31m\u202e\u2028 <img src=x onerror=alert(1)> ]]>"

// sample is a figure that uses all there is.
func sample() *Figure {
	var green, yellow, red, level, needs []Point
	for i := range 200 {
		x := float64(i) / 10
		green = append(green, Point{X: x, Y: 1.25e6 * (1 + .3*math.Sin(x))})
		yellow = append(yellow, Point{X: x, Y: 4e5 * (1 + math.Sin(x*1.7))})
		red = append(red, Point{X: x, Y: 2e6 * max(0, math.Sin(x*.7))})
		level = append(level, Point{X: x, Y: 98304 * math.Abs(math.Sin(x)), Low: 20000 * math.Abs(math.Sin(x))})
	}
	for r := 1e4; r < 1e8; r *= 1.3 {
		needs = append(needs, Point{X: r, Y: 1500 + 1e10/r})
	}
	return &Figure{
		Title: "What became of it", Subtitle: "a capture, by a policy", X: Axis{Label: "time", Unit: Seconds},
		Panels: []Panel{
			{
				Title: "By colour", Y: Axis{Label: "rate", Unit: Rate},
				Series: []Series{
					{Name: "green", Points: green, Kind: Step, Color: Green}, {Name: "yellow", Points: yellow, Kind: Step, Color: Yellow},
					{Name: "red", Points: red, Kind: Step, Color: Red},
				},
				Marks: []Mark{{X: 5, Text: "new policy", Line: true}, {X: 2.2, Y: 2e6, Text: "the worst"}},
			},
			{Y: Axis{Label: "tokens", Unit: Bytes}, Series: []Series{{Name: "level", Points: level, Kind: Band}, {Name: "of " + hostile, Points: level[:15], Kind: Markers}}},
			{
				Title: "What burst a rate needs", X: &Axis{Label: "rate", Unit: Rate, Log: true}, Y: Axis{Label: "burst", Unit: Bytes, Log: true},
				Series: []Series{{Name: "least burst", Points: needs}}, Marks: []Mark{{X: 1.25e6, Y: 9500, Text: "knee"}},
			},
		},
		Notes: []string{"Bins of 100 ms."},
	}
}

func write(t *testing.T, f *Figure, format Format) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := f.Write(&out, format); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestPNGDraws(t *testing.T) {
	img, err := png.Decode(bytes.NewReader(write(t, sample(), PNG)))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[color.NRGBA]int{}
	for y := range img.Bounds().Dy() {
		for x := range img.Bounds().Dx() {
			c, ok := color.NRGBAModel.Convert(img.At(x, y)).(color.NRGBA)
			if ok {
				seen[c]++
			}
		}
	}
	for _, c := range []Color{Green, Yellow, Red, Blue} {
		if seen[rgb[c]] < 50 {
			t.Errorf("%d pixels of colour %v, want a line of them", seen[rgb[c]], rgb[c])
		}
	}
}

func TestSVGIsXML(t *testing.T) {
	f := sample()
	f.Title, f.X.Label, f.Notes, f.Panels[0].Marks[0].Text = hostile, hostile, []string{hostile}, hostile
	d := xml.NewDecoder(bytes.NewReader(write(t, f, SVG)))
	texts := 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok {
			switch e.Name.Local {
			case "script", "img", "image":
				t.Errorf("a text became an element %s", e.Name.Local)
			case "text":
				texts++
			}
		}
	}
	if texts < 20 {
		t.Errorf("%d texts, want titles, labels, numbers and names", texts)
	}
}

func TestHTMLHoldsNoTextAsMarkup(t *testing.T) {
	f := sample()
	plain := strings.Count(string(write(t, f, HTML)), "<script>")
	f.Title, f.Subtitle, f.X.Label, f.Notes, f.Panels[0].Title = hostile, hostile, hostile, []string{hostile}, hostile
	f.Panels[0].Marks[0].Text, f.Panels[1].Series[0].Name, f.Panels[0].Y.Label = hostile, hostile, hostile
	out := string(write(t, f, HTML))
	if n := strings.Count(out, "<script>"); n != plain {
		t.Errorf("%d scripts begin, want %d", n, plain)
	}
	for _, bad := range []string{"<img", "alert(1)</script>", "\x00", "\x1b", "\u202e"} {
		if strings.Contains(out, bad) {
			t.Errorf("the page holds %q", bad)
		}
	}
}

// The page needs nothing from elsewhere.
func TestHTMLIsSelfContained(t *testing.T) {
	f := sample()
	f.Panels[1].Series[1].Name = "shapes"
	out := string(write(t, f, HTML))
	for _, bad := range []string{` src=`, `src="`, `href="http`, "@import", "url(", "fetch(", "XMLHttpRequest", "import("} {
		if strings.Contains(out, bad) {
			t.Errorf("the page holds %q", bad)
		}
	}
	if !strings.Contains(out, "default-src &#39;none&#39;") && !strings.Contains(out, "default-src 'none'") {
		t.Error("the page may load from elsewhere")
	}
	if !strings.Contains(out, "Leon Sorokin") {
		t.Error("uPlot's licence is not in the page")
	}
}

func TestEmptyFigures(t *testing.T) {
	for name, f := range map[string]*Figure{
		"no panel":  {Title: "none"},
		"no series": {Title: "none", Panels: []Panel{{}}},
		"no points": {Panels: []Panel{{Series: []Series{{Name: "none"}}}}},
		"one point": {Panels: []Panel{{Series: []Series{{Points: []Point{{X: 1, Y: 1}}}}}}},
		"no number": {Panels: []Panel{{Y: Axis{Log: true}, Series: []Series{{Points: []Point{{X: 1, Y: 0}, {X: math.NaN(), Y: math.Inf(1)}}}}}}},
		"log of 1":  {X: Axis{Log: true, Unit: Seconds}, Panels: []Panel{{Y: Axis{Log: true, Unit: Bytes}, Series: []Series{{Points: []Point{{X: 1, Y: 1}}}}}}},
	} {
		for _, format := range []Format{PNG, SVG, HTML} {
			if len(write(t, f, format)) == 0 {
				t.Errorf("%s: nothing is written", name)
			}
		}
	}
}

func TestFormatOf(t *testing.T) {
	for path, want := range map[string]Format{"a.png": PNG, "b.x.SVG": SVG, "/c/d.html": HTML} {
		if got, err := FormatOf(path); err != nil || got != want {
			t.Errorf("%s: %v, %v", path, got, err)
		}
	}
	for _, path := range []string{"", "png", "a.pdf", "a.htm"} {
		if _, err := FormatOf(path); err == nil || !strings.Contains(err.Error(), ".png, .svg or .html") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// Each series of a panel can be told from each other without its colour.
func TestSeriesDifferWithoutColor(t *testing.T) {
	series := styled([]Series{{}, {Color: Green}, {}, {Color: Red}, {}, {Color: Yellow}})
	dashesSeen, markersSeen := map[Dash]bool{}, map[Marker]bool{}
	for _, s := range series {
		dashesSeen[s.Dash], markersSeen[s.Marker] = true, true
		if s.Color == Auto || s.Dash == AutoDash || s.Marker == AutoMarker {
			t.Errorf("a series is left open: %+v", s)
		}
	}
	if len(dashesSeen) != len(series) || len(markersSeen) != len(series) {
		t.Errorf("of %d series: %d dashes, %d markers", len(series), len(dashesSeen), len(markersSeen))
	}
}

// Thinning keeps order, both ends, and each spike to its column.
func TestThin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		columns := rapid.IntRange(1, 40).Draw(t, "columns")
		n := rapid.IntRange(1, 500).Draw(t, "n")
		thin := NewThin(0, 100, columns)
		most, least := math.Inf(-1), math.Inf(1)
		var all []Point
		x := 0.
		for range n {
			x += float64(rapid.IntRange(0, 3).Draw(t, "gap"))
			p := Point{X: x, Y: float64(rapid.IntRange(-50, 50).Draw(t, "y"))}
			most, least = max(most, p.Y), min(least, p.Y)
			all = append(all, p)
			thin.Add(p)
		}
		got := thin.Points()
		if len(got) > 4*columns {
			t.Fatalf("%d points of %d columns", len(got), columns)
		}
		gotMost, gotLeast, from := math.Inf(-1), math.Inf(1), 0
		for _, p := range got {
			gotMost, gotLeast = max(gotMost, p.Y), min(gotLeast, p.Y)
			for from < len(all) && all[from] != p {
				from++
			}
			if from == len(all) {
				t.Fatalf("%v is not of the points, or out of order", p)
			}
		}
		if gotMost != most || gotLeast != least || got[0] != all[0] || got[len(got)-1] != all[n-1] {
			t.Fatalf("spans %v to %v, want %v to %v; %v of %v", gotLeast, gotMost, least, most, got, all)
		}
	})
}

func TestTicks(t *testing.T) {
	for _, test := range []struct {
		axis     Axis
		min, max float64
		want     string
	}{
		{Axis{Unit: Seconds}, 0, 20, "0 5 10 15 20"},
		{Axis{Unit: Bytes}, 0, 98304, "0 20 40 60 80"},
		{Axis{Unit: Rate}, 0, 2.5e6, "0 5 10 15 20"},
		{Axis{Unit: Seconds}, 0, .0008, "0 200 400 600 800"},
		{Axis{Unit: Share}, 0, 1, "0 20 40 60 80 100"},
		{Axis{Unit: Bytes, Log: true}, 1024, 65536, "1 KiB 4 KiB 16 KiB 64 KiB"},
		{Axis{Unit: Rate, Log: true}, 1250, 1.25e6, "10 kbit/s 100 kbit/s 1 Mbit/s 10 Mbit/s"},
	} {
		s := scale{axis: &test.axis, min: test.min, max: test.max, step: test.axis.Unit.pick(test.max)}
		var got []string
		for _, tick := range s.ticks(5) {
			if tick.label != "" {
				got = append(got, tick.label)
			}
		}
		if text := strings.Join(got, " "); text != test.want {
			t.Errorf("%v from %v to %v: %s, want %s", test.axis, test.min, test.max, text, test.want)
		}
	}
}

func TestFigures(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 1: "1", 1234567: "1,234,567", .1: "0.1", -2500: "-2,500", 1.5: "1.5", 98.30400001: "98.304"} {
		if got := figures(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
}
