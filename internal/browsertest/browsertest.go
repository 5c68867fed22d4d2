// Package browsertest opens pages in a headless Chromium, for tests.
package browsertest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// requireChromium names the variable that turns the skipping of tests without Chromium into failures, when 1.
const requireChromium = "TRICOLOR_REQUIRE_CHROMIUM"

// patience is how long a page may take on a loaded machine.
const patience = 90 * time.Second

// Canvas is one of a page's canvases: its size and how many of its pixels are neither white nor transparent.
type Canvas struct {
	Width  int `json:"width"`
	Height int `json:"height"`
	Inked  int `json:"inked"`
}

// Page is what became of a page.
type Page struct {
	Title    string
	Canvases []Canvas // those of charts, not of legends
	Console  []string // messages, warnings and errors
	Requests []string // what it asked for beside itself

	context context.Context
	mutex   *sync.Mutex
}

// ink counts the pixels of each chart's canvas.
const ink = `[...document.querySelectorAll(".u-wrap canvas")].map(canvas => {
	const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
	let inked = 0;
	for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 0 && data[i] + data[i + 1] + data[i + 2] < 750) inked++;
	return { width: canvas.width, height: canvas.height, inked };
})`

// Open opens a file in a browser of its own, which ends with the test. Where there is no Chromium it skips t with
// the reason; under TRICOLOR_REQUIRE_CHROMIUM=1 it fails t instead.
func Open(t testing.TB, file string) *Page {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		reason := fmt.Sprintf("needs chromium: %v (apt install chromium)", err)
		if os.Getenv(requireChromium) == "1" {
			t.Fatal(reason)
		}
		t.Skip(reason)
	}
	file, err = filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()), chromedp.WindowSize(1200, 1000), chromedp.NoSandbox,
		chromedp.WSURLReadTimeout(patience),
	}
	for _, flag := range []string{
		"headless", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking", "disable-component-update",
		"disable-sync",
	} {
		options = append(options, chromedp.Flag(flag, true))
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	allocator, stop := chromedp.NewExecAllocator(ctx, options...)
	p := &Page{mutex: &sync.Mutex{}}
	own := "file://" + file
	tab, shut := chromedp.NewContext(allocator, chromedp.WithListener(func(event any) { p.note(event, own) }))
	t.Cleanup(func() { shut(); stop(); cancel() })
	p.context = tab
	if err := chromedp.Do(tab, chromedp.Navigate(own)); err != nil {
		t.Fatalf("%s in chromium: %v", file, err)
	}
	Evaluate[int](t, p, "new Promise(done => requestAnimationFrame(() => setTimeout(() => done(1), 50)))")
	p.Title = Evaluate[string](t, p, "document.title")
	p.Canvases = Evaluate[[]Canvas](t, p, ink)
	return p
}

// Evaluate runs an expression in the page, and waits for what it promises.
func Evaluate[T any](t testing.TB, p *Page, expression string) T {
	t.Helper()
	result, err := chromedp.Run(p.context, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return result
}

// note keeps what the browser tells of.
func (p *Page) note(event any, own string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		for _, arg := range e.Args {
			p.Console = append(p.Console, fmt.Sprintf("%v: %v %v", e.Type, arg.Value, arg.Description))
		}
	case *runtime.EventExceptionThrown:
		p.Console = append(p.Console, fmt.Sprintf("%v %v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception))
	case *log.EventEntryAdded:
		p.Console = append(p.Console, fmt.Sprintf("%v: %v", e.Entry.Level, e.Entry.Text))
	case *network.EventRequestWillBeSent:
		if e.Request.URL != own && e.Request.URL != "data:," {
			p.Requests = append(p.Requests, e.Request.URL)
		}
	}
}

// Shot is a picture of the whole page, PNG.
func (p *Page) Shot(t testing.TB) []byte {
	t.Helper()
	shot, err := chromedp.Run(p.context, chromedp.FullScreenshot(100))
	if err != nil {
		t.Fatal(err)
	}
	return shot
}

// Drew fails t unless the page has this many charts, each with ink, a clean console, and asked for nothing.
func (p *Page) Drew(t testing.TB, charts int) {
	t.Helper()
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if len(p.Canvases) != charts {
		t.Errorf("%d charts, want %d", len(p.Canvases), charts)
	}
	for i, c := range p.Canvases {
		if c.Inked < 1000 || c.Inked > c.Width*c.Height/2 {
			t.Errorf("chart %d has ink on %d of %d × %d pixels", i+1, c.Inked, c.Width, c.Height)
		}
	}
	for _, line := range p.Console {
		t.Errorf("console: %s", line)
	}
	for _, url := range p.Requests {
		t.Errorf("asked for %s", url)
	}
}
