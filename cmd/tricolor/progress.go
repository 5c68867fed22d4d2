package main

import (
	"io"
	"os"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"
)

// progress shows on a terminal how far a file was read; elsewhere it is silent.
type progress struct {
	container *mpb.Progress
	bar       *mpb.Bar
	shown     int64 // bytes
}

// progressStep is how many bytes pass between two changes of the bar.
const progressStep = 1 << 16

// newProgress begins to show file's progress on w. Close it before anything else is printed.
func newProgress(w io.Writer, file string) *progress {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return &progress{}
	}
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() {
		return &progress{}
	}
	container := mpb.New(mpb.WithOutput(f), mpb.WithWidth(64))
	bar := container.AddBar(info.Size(),
		mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.Name(printable(file)+" ")),
		mpb.AppendDecorators(decor.Percentage()),
	)
	return &progress{container: container, bar: bar}
}

// at notes that offset bytes of the file were read.
func (p *progress) at(offset int64) {
	if p.bar != nil && offset-p.shown >= progressStep {
		p.shown = offset
		p.bar.SetCurrent(offset)
	}
}

// close takes the bar away.
func (p *progress) close() {
	if p.bar != nil {
		p.bar.Abort(true)
		p.container.Wait()
	}
}
