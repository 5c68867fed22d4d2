package main

import (
	"errors"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gonum.org/v1/plot"

	"github.com/tricolor-policer/tricolor/internal/capture"
)

// The looped capture has its size, its packets are the others' in turn, and its time never goes back.
func TestLoopCapture(t *testing.T) {
	dir := t.TempDir()
	var from []string
	for i, name := range []string{"a.pcap", "b.pcap"} {
		from = append(from, filepath.Join(dir, name))
		if err := writeCapture(from[i], 10, 3+i); err != nil {
			t.Fatal(err)
		}
	}
	const size, record = 10_000, 16 + 96
	looped := filepath.Join(dir, "looped.pcap")
	packets, err := loopCapture(looped, from, size)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(looped)
	if err != nil {
		t.Fatal(err)
	}
	if want := 24 + int64(packets)*record; info.Size() != want || want < size || want >= size+record {
		t.Errorf("%d packets in %d bytes, want %d", packets, info.Size(), want)
	}
	r, err := capture.Open(looped)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var p capture.Packet
	var last uint64
	n := 0
	for ; ; n++ {
		err := r.Next(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if p.Time < last || p.Length != 800 {
			t.Fatalf("packet %d: %d bytes at %d, after %d", n, p.Length, p.Time, last)
		}
		last = p.Time
	}
	if n != packets {
		t.Errorf("%d packets are read of %d", n, packets)
	}
}

func TestLoopCaptureOfNothing(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.pcap")
	if err := writeCapture(empty, 1, 0); err != nil {
		t.Fatal(err)
	}
	if n, err := loopCapture(filepath.Join(dir, "looped.pcap"), []string{empty}, 1000); err == nil {
		t.Errorf("%d packets out of none", n)
	}
}

func TestPeak(t *testing.T) {
	const size = 64 << 20
	touch := func() error {
		b := make([]byte, size)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		return nil
	}
	nothing := func() error { return nil }
	during, err := peak(touch)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		t.Skip("the kernel forgets no peak:", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if during < size*0.9 || during > size*1.5 {
		t.Errorf("64 MiB are a peak of %g bytes", during)
	}
	if after, err := peak(nothing); err != nil || after > size*0.5 {
		t.Errorf("nothing has a peak of %g bytes, %v", after, err)
	}
}

func TestPicture(t *testing.T) {
	p := picture{title: "t", x: "x", y: "y", fromY: 10, toY: 5_000}
	for i := range styles {
		p.curve(short(float64(i))).add(1, 20)
	}
	for i := range styles {
		p.curve(short(float64(i))).add(4e6, 700)
	}
	if len(p.curves) != len(styles) {
		t.Fatalf("%d curves", len(p.curves))
	}
	plt, err := p.plot()
	if err != nil {
		t.Fatal(err)
	}
	if got := []float64{plt.X.Min, plt.X.Max, plt.Y.Min, plt.Y.Max}; !slices.Equal(got, []float64{1, 4e6 * 1.1, 10, 5_000}) {
		t.Errorf("axes %v", got)
	}
	name := filepath.Join(t.TempDir(), "p.png")
	if err := p.save(name); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c, err := png.DecodeConfig(f)
	if err != nil || c.Width != 1000 || c.Height != 600 {
		t.Errorf("%d by %d pixels, %v", c.Width, c.Height, err)
	}
}

func TestLogTicks(t *testing.T) {
	var labels []string
	ticks := logTicks(40, 1_500, 1, 2, 5)
	for _, tick := range ticks {
		if tick.Label != "" {
			labels = append(labels, tick.Label)
		}
	}
	if want := []string{"50", "100", "200", "500", "1k"}; !slices.Equal(labels, want) {
		t.Errorf("labels %q, want %q", labels, want)
	}
	if !slices.ContainsFunc(ticks, func(t plot.Tick) bool { return math.Abs(t.Value-700) < 1e-9 && t.IsMinor() }) {
		t.Errorf("no small tick at 700: %v", ticks)
	}
}

func TestShort(t *testing.T) {
	for v, want := range map[float64]string{
		1: "1", 10: "10", 900: "900", 1_000: "1k", 4_000_000: "4M", 1e9: "1G", 0.0005: "0.0005", 0.1: "0.1",
		math.Pow10(-3) * 10 * 10: "0.1", 2_500: "2.5k", 8_700_231: "8.7002M",
	} {
		if got := short(v); got != want {
			t.Errorf("short(%g) = %q, want %q", v, got, want)
		}
	}
}
