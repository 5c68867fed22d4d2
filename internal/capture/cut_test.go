package capture

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Cut anywhere, a file gives every whole record before the cut, and says so
// unless the cut falls between two records (or blocks).
func TestCutAnywhere(t *testing.T) {
	pcapFile := pcapBytes(little, 0xa1b2c3d4, 1)
	pcapEnds := []int{len(pcapFile)}
	for _, data := range []string{"first", "", "the third of them"} {
		pcapFile = pcapRecord(pcapFile, little, 1, 2, 99, data)
		pcapEnds = append(pcapEnds, len(pcapFile))
	}
	var ngFile []byte
	var ngEnds, ngPackets []int // where a block ends, and how many packets by then
	for _, b := range []struct {
		block  []byte
		packet int
	}{
		{ngSection(big), 0}, {ngIface(big, 1, 0, option{1, []byte("comment")}), 0},
		{ngEnhanced(big, 0, 1, 99, "first"), 1}, {ngBlock(big, 0xbad, []byte("custom")), 0},
		{ngSimple(big, 3, "abc"), 1}, {ngSection(little), 0}, {ngIface(little, 0, 0), 0},
		{ngObsolete(little, 0, 1, 99, "third"), 1},
	} {
		ngFile = append(ngFile, b.block...)
		ngEnds = append(ngEnds, len(ngFile))
		before := 0
		if len(ngPackets) > 0 {
			before = ngPackets[len(ngPackets)-1]
		}
		ngPackets = append(ngPackets, before+b.packet)
	}
	for _, c := range []struct {
		name    string
		file    []byte
		ends    []int
		packets []int
	}{
		{"pcap", pcapFile, pcapEnds, []int{0, 1, 2, 3}},
		{"pcapng", ngFile, ngEnds, ngPackets},
	} {
		whole := mustRead(t, c.file)
		for n := 1; n < len(c.file); n++ {
			want, begins, boundary := 0, 0, false
			for i, end := range c.ends {
				if end <= n {
					want, begins = c.packets[i], end
					boundary = end == n
				}
			}
			var all []Packet
			r, err := openBytes(c.file[:n])
			if err == nil {
				all, err = readAll(r)
			}
			if boundary != (err == io.EOF) {
				t.Errorf("%s cut at %d: %v; at a boundary: %v", c.name, n, err, boundary)
			}
			var cut *CutError
			if !boundary && (!errors.As(err, &cut) || !errors.Is(err, io.ErrUnexpectedEOF) ||
				cut.Left >= cut.Promised || cut.Record != int64(want+1) && cut.Record != 0 || cut.File != "x") {
				t.Errorf("%s cut at %d: %#v", c.name, n, err)
			}
			if cut != nil && ((cut.Record == 0) != (n < c.ends[0]) || cut.Offset != int64(begins)) {
				t.Errorf("%s cut at %d: record %d at byte %d, not %d", c.name, n, cut.Record, cut.Offset, begins)
			}
			if diff := cmp.Diff(whole[:want], all, cmp.Transformer("nil", func(p []Packet) []Packet { return append([]Packet{}, p...) })); diff != "" {
				t.Errorf("%s cut at %d: %s", c.name, n, diff)
			}
		}
		// Gzipped and cut: some prefix of the packets, never a clean end.
		zipped := zip(t, c.file)
		for n := 3; n < len(zipped); n++ {
			var all []Packet
			r, err := openBytes(zipped[:n])
			if err == nil {
				all, err = readAll(r)
			}
			var cut *CutError
			if !errors.As(err, &cut) || len(all) > len(whole) {
				t.Errorf("gzipped %s cut at %d: %d packets, %v", c.name, n, len(all), err)
			}
			if diff := cmp.Diff(whole[:len(all)], append([]Packet{}, all...)); diff != "" {
				t.Errorf("gzipped %s cut at %d: %s", c.name, n, diff)
			}
		}
	}
}

func TestCutSays(t *testing.T) {
	file := pcapBytes(little, 0xa1b2c3d4, 1)
	for range 16 {
		file = pcapRecord(file, little, 0, 0, 4, "abcd")
	}
	file = pcapRecord(file, little, 0, 0, 60, strings.Repeat("x", 60))
	r, err := openBytes(file[:len(file)-48])
	if err != nil {
		t.Fatal(err)
	}
	_, err = readAll(r)
	if got, want := err.Error(), "x: at byte 344: record 17 is cut short: 60 bytes promised, 12 left"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
