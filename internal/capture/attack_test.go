package capture

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What is wrong with a file is said with the byte at which the record or block begins, and the records
// before it.
func TestFaultsSayWhere(t *testing.T) {
	file := pcapRecord(pcapBytes(big, 0xa1b2c3d4, 1), big, 0, 0, 3, "abc") // 24 + 16 + 3 bytes
	start := join(ngSection(big), ngIface(big, 1, 0), ngEnhanced(big, 0, 0, 1, "a"))
	if len(start) != 28+20+36 {
		t.Fatal(len(start))
	}
	little4G := join(ngSection(little), ngIface(little, 1, 0), ngEnhanced(little, 0, 0, 4, "abcd"),
		[]byte("\x06\x00\x00\x00\xfc\xff\xff\xffdata"))
	for _, c := range []struct {
		name string
		file []byte
		want string
	}{
		{"record of 4 GB", join(file, []byte("tttttttt\xff\xff\xff\xff\x00\x00\x00\x01")),
			"x: at byte 43: record 2 claims 4294967295 captured bytes, over the 262144 that any record may have"},
		{"the same, gzipped", zip(t, join(file, []byte("tttttttt\xff\xff\xff\xff\x00\x00\x00\x01"))),
			"x: at unzipped byte 43: record 2 claims 4294967295 captured bytes, over the 262144 that any record may have"},
		{"record cut in its header", join(file, []byte("ttttttt")), "x: at byte 43: record 2 is cut short: 16 bytes promised, 7 left"},
		{"record cut in its data", join(file, []byte("tttttttt\x00\x00\x00\x05\x00\x00\x00\x05abc")),
			"x: at byte 43: record 2 is cut short: 5 bytes promised, 3 left"},
		{"block of 0 bytes", join(start, []byte("\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00\x00\x00")),
			"x: at byte 84: the block after record 1 claims a length of 0 bytes: it must be a multiple of 4, at least 12"},
		{"section of the other order, then a block of 4 GB", join(start, little4G),
			"x: at byte 168: the packet block after record 2 claims a length of 4294967292 bytes: it has at least 32, and at most 1048576 are read"},
		{"unread block of 4 GB", join(start, []byte("\x00\x00\x0b\xad\xff\xff\xff\xfcdata")),
			"x: at byte 84: what follows record 1 is cut short: 4294967292 bytes promised, 12 left"},
		{"captured beyond its block", join(start, ngBlock(big, blockEnhanced, make([]byte, 20)), start)[:84+32+8],
			"x: at byte 116: what follows record 2 is cut short: 12 bytes promised, 8 left"},
		{"trailer", join(start, []byte("\x00\x00\x0b\xad\x00\x00\x00\x0c\x00\x00\x00\x10")),
			"x: at byte 84: the block after record 1 claims 12 bytes at its start and 16 at its end"},
		{"option beyond its block", join(start, ngBlock(big, blockInterface, []byte("\x00\x01\x00\x00\x00\x00\x00\x00\x00\x09\x00\x09"))),
			"x: at byte 84: interface 1 has an option of 9 bytes in a block with 0 left"},
		{"WLAN after Ethernet", join(start, ngIface(big, 105, 0), ngEnhanced(big, 1, 0, 1, "a")),
			"x: at byte 104: record 2 has the link type IEEE802_11 (105), which is not read; those read are " +
				"EN10MB, RAW, IPV4, IPV6, LINUX_SLL, LINUX_SLL2, NULL, LOOP, PPP, PPP_HDLC"},
		{"gzip cut", zip(t, join(start, make([]byte, 4096)))[:40], "x: at unzipped byte 0: the gzip stream after the file's start is cut short"},
	} {
		r, err := openBytes(c.file)
		if err == nil {
			_, err = readAll(r)
		}
		if err == nil || err.Error() != c.want {
			t.Errorf("%s:\n%v, not\n%s", c.name, err, c.want)
		}
	}
}

// hostileLengths are the claims that a length field may make.
var hostileLengths = []uint32{
	0, 1, 4, 11, 12, 13, 16, 20, 32, 36, windowSize, windowSize + 4, maxCaptured + 1,
	math.MaxInt32 - 3, math.MaxInt32, 1 << 31, math.MaxUint32 - 35, math.MaxUint32 - 3, math.MaxUint32,
}

// Whatever a block's or a record's length fields claim, in either byte order: what came before is
// delivered, the memory is bounded, and nothing is delivered that is not in the file.
func TestHostileLengths(t *testing.T) {
	for _, o := range []order{little, big} {
		before := join(ngSection(o), ngIface(o, 1, 0), ngEnhanced(o, 0, 7, 5, "first"))
		for _, kind := range []uint32{blockSection, blockInterface, blockPacket, blockSimple, 4, 5, blockEnhanced, 0xbad, math.MaxUint32} {
			for _, length := range hostileLengths {
				for _, body := range []int{0, 4, 20, 64} {
					block := o.AppendUint32(o.AppendUint32(nil, kind), length)
					block = o.AppendUint32(append(block, make([]byte, body)...), length)
					hostile(t, fmt.Sprintf("%v: block %#x of %d bytes that claims %d", o, kind, body+minBlock, length), join(before, block), 1)
				}
			}
		}
		for _, captured := range hostileLengths {
			for _, original := range []uint32{0, 7, windowSize, math.MaxUint32} {
				name := fmt.Sprintf("%v: %d of %d bytes captured", o, captured, original)
				block := ngEnhanced(o, 0, 8, original, "another")
				o.PutUint32(block[20:], captured)
				hostile(t, "enhanced block, "+name, join(before, block, ngSimple(o, original, "third")), 1)
				record := pcapBytes(o, 0xa1b2c3d4, 1)
				o.PutUint32(record[16:], captured) // the snap length, too
				record = pcapRecord(record, o, 0, 7, 5, "first")
				at := len(record) + 8
				record = pcapRecord(record, o, 0, 8, original, "another")
				o.PutUint32(record[at:], captured)
				hostile(t, "pcap, "+name, record, 1)
			}
			for _, snap := range hostileLengths {
				file := join(ngSection(o), ngIface(o, 1, snap), ngEnhanced(o, 0, 7, 5, "first"), ngSimple(o, captured, "another"))
				hostile(t, fmt.Sprintf("%v: simple block of %d bytes, snap length %d", o, captured, snap), file, 1)
			}
		}
	}
}

// hostile reads a file whose first packets are whole: "first" is what each holds.
func hostile(t *testing.T, name string, file []byte, whole int) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	all, err := allOf(file)
	runtime.ReadMemStats(&after)
	if len(all) < whole || string(all[0].Data) != "first" || all[0].Length != 5 {
		t.Errorf("%s: %d packets, then %v: the first is not there", name, len(all), err)
	}
	for _, p := range all[min(whole, len(all)):] {
		if !bytes.Contains(file, p.Data) || p.Length < len(p.Data) {
			t.Errorf("%s: a packet of %d bytes, %d captured, that are not in the file", name, p.Length, len(p.Data))
		}
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 2*windowSize {
		t.Errorf("%s: %d bytes allocated", name, used)
	}
}

func allOf(file []byte) ([]Packet, error) {
	r, err := openBytes(file)
	if err != nil {
		return nil, err
	}
	return readAll(r)
}

// Any byte of a file changed, to any of a few values: no panic, no end that never comes, and every packet
// that was whole before that byte is delivered as it was.
func TestAnyByteChanged(t *testing.T) {
	const first, second = "first", "the second"
	file := pcapBytes(little, 0xa1b23c4d, 1)
	pcapStarts := []int{len(file)}
	for _, data := range []string{first, "", second} {
		file = pcapRecord(file, little, 1, 2, 99, data)
		pcapStarts = append(pcapStarts, len(file))
	}
	var ng []byte
	var ngStarts []int // ends of the packets' blocks
	for _, b := range [][]byte{
		join(ngSection(big), ngIface(big, 1, 0, option{optionResolution, []byte{9}}), ngEnhanced(big, 0, 1, 99, first)),
		ngSimple(big, 3, "abc"),
		join(ngSection(little), ngIface(little, 101, 0), ngBlock(little, 4, []byte("names")), ngObsolete(little, 0, 1, 99, second)),
	} {
		ng = append(ng, b...)
		ngStarts = append(ngStarts, len(ng))
	}
	for _, c := range []struct {
		name string
		file []byte
		ends []int
	}{{"pcap", file, pcapStarts[1:]}, {"pcapng", ng, ngStarts}} {
		whole := mustRead(t, c.file)
		for at, was := range c.file {
			kept := 0
			for kept < len(c.ends) && c.ends[kept] <= at {
				kept++
			}
			for _, to := range []byte{0, 1, 0x0a, 0x7f, 0x80, 0xff, was ^ 1, was ^ 0x80, ^was} {
				c.file[at] = to
				all, err := allOf(c.file)
				if len(all) < kept {
					t.Errorf("%s, byte %d made %#02x: only %d packets before %v", c.name, at, to, len(all), err)
				} else if diff := cmp.Diff(whole[:kept], all[:kept], cmp.Transformer("nil", func(p []Packet) []Packet { return append([]Packet{}, p...) })); diff != "" {
					t.Errorf("%s, byte %d made %#02x: %s", c.name, at, to, diff)
				}
				var cut *CutError
				if err == nil || err != io.EOF && !errors.As(err, &cut) && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrFormat) && !errors.Is(err, ErrLinkType) {
					t.Errorf("%s, byte %d made %#02x: %v", c.name, at, to, err)
				}
			}
			c.file[at] = was
		}
	}
}

// A section may describe many interfaces, and a file have many sections: what they take is bounded too.
func TestManyInterfacesAreBounded(t *testing.T) {
	section := ngSection(little)
	for range maxInterfaces {
		section = append(section, ngIface(little, 1, 0)...)
	}
	file := bytes.Repeat(section, 8)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if all, err := allOf(file); err != io.EOF || len(all) != 0 {
		t.Errorf("%d packets, %v", len(all), err)
	}
	runtime.ReadMemStats(&after)
	// 32 bytes an interface, in a slice that grew.
	if used := after.TotalAlloc - before.TotalAlloc; used > windowSize+8*32*maxInterfaces {
		t.Errorf("%d bytes allocated", used)
	}
}
