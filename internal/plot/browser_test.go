package plot

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tricolor-policer/tricolor/internal/browsertest"
)

// save writes the page of a figure.
func save(t *testing.T, f *Figure) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "figure.html")
	if err := os.WriteFile(file, write(t, f, HTML), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestPageDraws(t *testing.T) {
	page := browsertest.Open(t, save(t, sample()))
	page.Drew(t, 3)
	if page.Title != "What became of it" {
		t.Errorf("the page's title is %q", page.Title)
	}
	// Each line's colour is somewhere in the first chart, and its number of pixels is that of a line.
	for _, c := range []Color{Green, Yellow, Red} {
		if n := browsertest.Evaluate[int](t, page, pixels(c)); n < 200 {
			t.Errorf("%d pixels of %v", n, rgb[c])
		}
	}
}

// pixels counts the pixels of a colour in the first chart.
func pixels(c Color) string {
	return `(() => { const canvas = document.querySelector(".u-wrap canvas");
		const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
		let n = 0;
		for (let i = 0; i < data.length; i += 4) n += Math.abs(data[i] - 0x` + hex(rgb[c].R) + `) + Math.abs(data[i + 1] - 0x` +
		hex(rgb[c].G) + `) + Math.abs(data[i + 2] - 0x` + hex(rgb[c].B) + `) < 12 && data[i + 3] > 200;
		return n; })()`
}

func hex(b uint8) string {
	const digits = "0123456789abcdef"
	return string([]byte{digits[b>>4], digits[b&15]})
}

// A drag zooms all panels that share the axis, and no other; a double click shows all again.
func TestPageZooms(t *testing.T) {
	page := browsertest.Open(t, save(t, sample()))
	page.Drew(t, 3)
	zoom := func(action string) [][2]float64 {
		return browsertest.Evaluate[[][2]float64](t, page, `(async () => {
			const over = document.querySelector(".u-over"), r = over.getBoundingClientRect();
			const at = (type, x, target) => target.dispatchEvent(new MouseEvent(type, {
				bubbles: true, clientX: r.left + r.width * x, clientY: r.top + r.height / 2, button: 0, movementX: 1 }));
			`+action+`
			await new Promise(done => setTimeout(done, 100));
			return charts.map(c => [c.chart.scales.x.min, c.chart.scales.x.max]);
		})()`)
	}
	before := zoom("")
	zoomed := zoom(`at("mouseenter", .2, over); at("mousemove", .2, over); at("mousedown", .2, over); at("mousemove", .5, over); at("mouseup", .5, over);`)
	after := zoom(`at("dblclick", .3, over);`)
	if len(before) != 3 || len(zoomed) != 3 || len(after) != 3 {
		t.Fatalf("%v, %v, %v", before, zoomed, after)
	}
	span := before[0][1] - before[0][0]
	if got := zoomed[0][1] - zoomed[0][0]; got > .35*span || got < .25*span {
		t.Errorf("from %v to %v: want 3 tenths", before[0], zoomed[0])
	}
	if zoomed[1] != zoomed[0] || zoomed[2] != before[2] {
		t.Errorf("the others went from %v to %v", before, zoomed)
	}
	for i := range after {
		if after[i] != before[i] {
			t.Errorf("panel %d: %v, want %v again", i+1, after[i], before[i])
		}
	}
	page.Drew(t, 3)
}

// Names from a capture or a policy stay text.
func TestPageEscapes(t *testing.T) {
	f := sample()
	f.Title, f.Subtitle, f.X.Label, f.Notes, f.Panels[0].Title = hostile, hostile, hostile, []string{hostile}, hostile
	f.Panels[0].Marks[0].Text, f.Panels[0].Y.Label = hostile, hostile
	for i := range f.Panels[0].Series {
		f.Panels[0].Series[i].Name = hostile
	}
	page := browsertest.Open(t, save(t, f))
	page.Drew(t, 3)
	elements := browsertest.Evaluate[int](t, page, `document.querySelectorAll("img, script:not(body > script)").length`)
	if elements != 0 {
		t.Errorf("%d elements came of a text", elements)
	}
	if page.Title != plainText(hostile) {
		t.Errorf("the title is %q, want %q", page.Title, plainText(hostile))
	}
}
