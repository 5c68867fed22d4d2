package capture

import (
	"bytes"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// FuzzReader: no content makes the reader panic, loop, or give a packet that
// is out of bounds; a pcap written from what was read reads back the same.
func FuzzReader(f *testing.F) {
	seeds, err := filepath.Glob("testdata/*.pcap*")
	if err != nil || len(seeds) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, path := range seeds {
		content, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content)
	}
	f.Add(zip(f, pcapRecord(pcapBytes(big, 0xa1b23c4d, 9), big, 1, 2, 3, "\xff\x03\x00\x21")))
	f.Add(join(ngSection(big), ngIface(big, 12, 1, option{optionResolution, []byte{0xff}}), ngSimple(big, 9, "0123456789")))
	f.Fuzz(func(t *testing.T, content []byte) {
		r, err := openBytes(content)
		if err != nil {
			return
		}
		var p Packet
		var copied bytes.Buffer
		var w *Writer
		written := 0
		for n := int64(1); ; n++ {
			if err := r.Next(&p); err != nil {
				break
			}
			if p.Number != n || p.Length < len(p.Data) || len(p.Data) > maxCaptured || !p.Link.supported() {
				t.Fatalf("packet %d: %d of %d bytes, %v", p.Number, len(p.Data), p.Length, p.Link)
			}
			family, ip, length := p.Network()
			if family != 0 && family != 4 && family != 6 || length < len(ip) || len(ip) > len(p.Data) {
				t.Fatalf("packet %d: family %d, %d of %d bytes", n, family, len(ip), length)
			}
			if w == nil {
				if w, err = NewWriter(&copied, p.Link); err != nil {
					t.Fatal(err)
				}
			}
			err := w.Write(&p, p.Data)
			fits := p.Link == w.link && p.Time/1e9 <= math.MaxUint32
			if fits != (err == nil) {
				t.Fatalf("packet %d: %v", n, err)
			}
			if err == nil {
				written++
			}
		}
		if w == nil {
			return
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		if again := mustRead(t, copied.Bytes()); len(again) != written {
			t.Fatalf("%d packets written, %d read back", written, len(again))
		}
	})
}

// FuzzTrace: no text makes the trace reader panic or loop.
func FuzzTrace(f *testing.F) {
	for _, seed := range []string{"time_ns,bytes\n1,2\n", "1,2,red\r\n\n#c\n3,4", "\ufeff1,2", "18446744073709551616,1", "1,18446744074", ",,,"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		in, err := newInput("x", bytes.NewReader(content), int64(len(content)))
		if err != nil {
			return
		}
		trace := &Trace{in: in}
		var row TraceRow
		for line := 0; trace.Next(&row) == nil; line = row.Line {
			if row.Line <= line || row.Bytes > maxBytes || row.Color > Red {
				t.Fatalf("row %+v after line %d", row, line)
			}
		}
	})
}

// Whatever a file claims, reading it takes the window and little more.
func TestMemoryIsBounded(t *testing.T) {
	claims := pcapBytes(little, 0xa1b2c3d4, 1)
	little.PutUint32(claims[16:], math.MaxUint32) // snap length
	claims = pcapRecord(claims, little, 0, 0, math.MaxUint32, "a")
	for name, file := range map[string][]byte{
		"snap length 4 GB": claims,
		"interface with snap length 4 GB": join(ngSection(little), ngIface(little, 1, math.MaxUint32),
			ngEnhanced(little, 0, 0, math.MaxUint32, "a"), ngSimple(little, math.MaxUint32, "a")),
		"custom block of 4 GB": append(ngSection(little), "\xad\x0b\x00\x00\xfc\xff\xff\xff\x00\x00\x00\x00"...),
		"gzip bomb":            zip(t, join(ngSection(little), ngBlock(little, 0xbad, make([]byte, 64<<20)))),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if r, err := openBytes(file); err != nil {
			t.Errorf("%s: %v", name, err)
		} else if _, err := readAll(r); err == nil {
			t.Errorf("%s: no end", name)
		}
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 3*windowSize {
			t.Errorf("%s: %d bytes allocated", name, used)
		}
	}
}

func TestNextAllocatesNothing(t *testing.T) {
	file := pcapBytes(little, 0xa1b2c3d4, 1)
	ng := join(ngSection(little), ngIface(little, 1, 0))
	for range 3000 {
		file = pcapRecord(file, little, 0, 0, 900, string(make([]byte, 900)))
		ng = append(ng, ngEnhanced(little, 0, 0, 900, string(make([]byte, 900)))...)
	}
	for name, file := range map[string][]byte{"pcap": file, "pcapng": ng} {
		r, err := openBytes(file)
		if err != nil {
			t.Fatal(err)
		}
		var p Packet
		if n := testing.AllocsPerRun(2900, func() { err = r.Next(&p) }); n != 0 || err != nil && err != io.EOF {
			t.Errorf("%s: %v allocations a packet, %v", name, n, err)
		}
	}
}
