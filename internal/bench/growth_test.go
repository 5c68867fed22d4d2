package main

import (
	"errors"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tricolor-policer/tricolor/internal/capture"
	"github.com/tricolor-policer/tricolor/internal/plot"
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

func TestLines(t *testing.T) {
	var l lines
	for _, x := range []float64{1, 10} {
		l.add("a", x, 2)
		l.add("b", x, 3)
	}
	want := lines{
		{Name: "a", Points: []plot.Point{{X: 1, Y: 2}, {X: 10, Y: 2}}},
		{Name: "b", Points: []plot.Point{{X: 1, Y: 3}, {X: 10, Y: 3}}},
	}
	if diff := cmp.Diff(want, l); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestDraw(t *testing.T) {
	t.Chdir(t.TempDir())
	var l lines
	l.add("a", 1, 2)
	l.add("a", 2, 3)
	if err := draw("figure", &plot.Figure{Title: "t", Panels: []plot.Panel{{Series: l}}}); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open("docs/img/figure.png")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := png.DecodeConfig(f); err != nil {
		t.Error(err)
	}
}
