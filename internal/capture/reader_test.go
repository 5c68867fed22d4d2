package capture

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPcap(t *testing.T) {
	for _, c := range []struct {
		name  string
		order order
		magic uint32
		scale uint64
	}{
		{"little-endian microseconds", little, 0xa1b2c3d4, 1000},
		{"big-endian microseconds", big, 0xa1b2c3d4, 1000},
		{"little-endian nanoseconds", little, 0xa1b23c4d, 1},
		{"big-endian nanoseconds", big, 0xa1b23c4d, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := pcapBytes(c.order, c.magic, 1)
			file = pcapRecord(file, c.order, 5, 7, 60, "captured")
			file = pcapRecord(file, c.order, math.MaxUint32, math.MaxUint32, 3, "more than its length")
			file = pcapRecord(file, c.order, 0, 0, 1500, "")
			want := []Packet{
				{1, 5e9 + 7*c.scale, []byte("captured"), 60, LinkEthernet},
				{2, math.MaxUint32*1e9 + math.MaxUint32*c.scale, []byte("more than its length"), 20, LinkEthernet},
				{3, 0, []byte{}, 1500, LinkEthernet},
			}
			if diff := cmp.Diff(want, mustRead(t, file)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(want, mustRead(t, zip(t, file))); diff != "" {
				t.Errorf("gzipped: %s", diff)
			}
		})
	}
}

func TestPcapngSectionsAndInterfaces(t *testing.T) {
	secondsOnly := option{optionResolution, []byte{0}}
	nano := option{optionResolution, []byte{9}}
	binary20 := option{optionResolution, []byte{0x80 | 20}}
	later := func(o order) option { return option{optionOffset, o.AppendUint64(nil, 1000)} }
	earlier := func(o order) option { return option{optionOffset, o.AppendUint64(nil, 1<<64-2)} }
	comment := option{1, []byte("hello")}
	section := func(o order) []byte {
		return join(
			ngSection(o),
			ngOthers(o),
			ngIface(o, 1, 4, comment),
			ngIface(o, 101, 0, comment, nano, later(o)),
			ngIface(o, 12, 0, secondsOnly),
			ngIface(o, 276, 0, binary20, earlier(o)),
			ngSimple(o, 9, "cut!"),
			ngEnhanced(o, 0, 2_000_001, 4, "abcde"),
			ngEnhanced(o, 1, 77, 60, "raw"),
			ngEnhanced(o, 2, 3, 60, ""),
			ngObsolete(o, 3, 5<<20|1<<19, 60, "sll2"),
			ngSimple(o, 3, "abc"),
		)
	}
	want := func(first int64, before uint64) []Packet {
		return []Packet{
			{first, before, []byte("cut!"), 9, LinkEthernet},
			{first + 1, 2_000_001_000, []byte("abcde"), 5, LinkEthernet},
			{first + 2, 1000e9 + 77, []byte("raw"), 60, LinkRaw},
			{first + 3, 3e9, []byte{}, 60, LinkRaw},
			{first + 4, 3_500_000_000, []byte("sll2"), 60, LinkSLL2},
			{first + 5, 3_500_000_000, []byte("abc"), 3, LinkEthernet},
		}
	}
	file := join(section(little), section(big), section(little))
	all := append(append(want(1, 0), want(7, 3_500_000_000)...), want(13, 3_500_000_000)...)
	if diff := cmp.Diff(all, mustRead(t, file)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(all, mustRead(t, zip(t, file))); diff != "" {
		t.Errorf("gzipped: %s", diff)
	}
}

// ngOthers is blocks that are no packets.
func ngOthers(o order) []byte {
	return join(ngBlock(o, 4, []byte("names")), ngBlock(o, 0xbad, nil), ngBlock(o, 5, make([]byte, 3<<20)))
}

func TestTimeStamps(t *testing.T) {
	for _, c := range []struct {
		stamp      uint64
		resolution uint8
		offset     int64
		want       uint64
	}{
		{1, 0, 0, 1e9},
		{1, 3, 0, 1e6},
		{1, 9, 0, 1},
		{1999, 12, 0, 1},
		{math.MaxUint64, 28, 0, 1},
		{math.MaxUint64, 29, 0, 0},
		{math.MaxUint64, 127, 0, 0},
		{math.MaxUint64, 9, 0, math.MaxUint64},
		{math.MaxUint64, 6, 0, math.MaxUint64},
		{7, 0x80, 0, 7e9},
		{3, 0x80 | 1, 0, 1_500_000_000},
		{1 << 32, 0x80 | 32, 0, 1e9},
		{1 << 63, 0x80 | 63, 0, 1e9},
		{1 << 63, 0x80 | 64, 0, 5e8},
		{math.MaxUint64, 0x80 | 127, 0, 0},
		{math.MaxUint64, 0x80, 0, math.MaxUint64},
		{5, 9, -1, 0},
		{5e9, 9, -2, 3e9},
		{5, 9, math.MinInt64, 0},
		{5, 9, math.MaxInt64, math.MaxUint64},
		{math.MaxUint64, 9, 1, math.MaxUint64},
		{1<<63 - 1, 0, -1000, math.MaxUint64},
		{math.MaxUint64, 0x80, math.MinInt64, math.MaxUint64},
		{math.MaxUint64, 0, math.MaxInt64, math.MaxUint64},
		{1 << 63, 0, math.MinInt64, 0},
		{1<<63 + 5, 0, math.MinInt64, 5e9},
		{1<<53 | 512, 0x80 | 10, -1 << 43, 5e8},
		{1 << 34, 0, -1<<34 + 1<<32, (1 << 32) * 1e9},
	} {
		i := ngInterface{resolution: c.resolution, offset: c.offset}
		if got := i.nanoseconds(c.stamp); got != c.want {
			t.Errorf("stamp %d, resolution %#x, offset %d: %d ns, want %d", c.stamp, c.resolution, c.offset, got, c.want)
		}
	}
}

// A frame check sequence that the file announces is no part of the packet.
func TestCheckSequence(t *testing.T) {
	file := pcapBytes(little, 0xa1b2c3d4, 0x24000001) // two times 16 bits
	file = pcapRecord(file, little, 0, 0, 12, "8 bytes.FCS.")
	file = pcapRecord(file, little, 0, 0, 100, "8 bytes.")
	file = pcapRecord(file, little, 0, 0, 3, "abc")
	iface := ngIface(big, 1, 0, option{optionFCS, []byte{4}})
	ng := join(ngSection(big), iface, ngEnhanced(big, 0, 0, 12, "8 bytes.FCS."), ngEnhanced(big, 0, 0, 100, "8 bytes."), ngEnhanced(big, 0, 0, 3, "abc"))
	for name, file := range map[string][]byte{"pcap": file, "pcapng": ng} {
		want := []Packet{
			{1, 0, []byte("8 bytes."), 8, LinkEthernet},
			{2, 0, []byte("8 bytes."), 96, LinkEthernet},
			{3, 0, []byte{}, 0, LinkEthernet},
		}
		if diff := cmp.Diff(want, mustRead(t, file)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestLinks(t *testing.T) {
	for link, want := range map[uint32]LinkType{
		0: LinkNull, 1: LinkEthernet, 9: LinkPPP, 12: LinkRaw, 14: LinkRaw, 50: LinkPPPSerial, 101: LinkRaw,
		108: LinkLoop, 113: LinkSLL, 228: LinkIPv4, 229: LinkIPv6, 276: LinkSLL2,
	} {
		file := pcapRecord(pcapBytes(big, 0xa1b2c3d4, link), big, 0, 0, 4, "abcd")
		if got := mustRead(t, file)[0].Link; got != want {
			t.Errorf("pcap of link type %d: %v, want %v", link, got, want)
		}
		file = join(ngSection(big), ngIface(big, uint16(link), 0), ngSimple(big, 4, "abcd"))
		if got := mustRead(t, file)[0].Link; got != want {
			t.Errorf("pcapng of link type %d: %v, want %v", link, got, want)
		}
		if !strings.HasPrefix(want.String(), strings.ToUpper(want.String())) || want.String() == "" {
			t.Errorf("link type %d has the name %q", link, want)
		}
	}
	r, err := openBytes(join(ngSection(big), ngIface(big, 1, 0), ngIface(big, 0, 0),
		ngEnhanced(big, 1, 0, 1, "a"), ngEnhanced(big, 0, 0, 1, "a"), ngEnhanced(big, 1, 0, 1, "a")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := readAll(r); err != io.EOF {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]LinkType{LinkNull, LinkEthernet}, r.Links()); diff != "" {
		t.Error(diff)
	}
	for _, l := range readLinks {
		if !l.supported() {
			t.Errorf("%v is named as read, and is not", l)
		}
	}
}

func TestRefused(t *testing.T) {
	header := pcapBytes(little, 0xa1b2c3d4, 1)
	version := append([]byte(nil), header...)
	version[6] = 5
	interfaces := ngSection(little)
	for range maxInterfaces + 1 {
		interfaces = append(interfaces, ngIface(little, 1, 0)...)
	}
	start := join(ngSection(little), ngIface(little, 1, 0), ngEnhanced(little, 0, 0, 1, "a"))
	raw := func(words ...uint32) []byte {
		b := append([]byte(nil), start...)
		for _, w := range words {
			b = little.AppendUint32(b, w)
		}
		return b
	}
	for _, c := range []struct {
		name  string
		file  []byte
		kind  error
		words string
		whole int // packets delivered before
	}{
		{"nothing", nil, ErrEmpty, "empty", 0},
		{"gzip of nothing", zip(t, nil), ErrEmpty, "holds nothing", 0},
		{"text", []byte("hello, this is text"), ErrFormat, "68 65 6c", 0},
		{"two bytes", []byte{0xd4, 0xc3}, io.ErrUnexpectedEOF, "header is cut short: 4 bytes promised, 2 left", 0},
		{"modified pcap", []byte("\x34\xcd\xb2\xa1and more"), ErrFormat, "Kuznetzov|convert", 0},
		{"snoop", []byte("snoop\x00\x00\x00"), ErrFormat, "snoop", 0},
		{"gzip in gzip", zip(t, zip(t, header)), ErrFormat, "twice", 0},
		{"pcap 2.5", version, ErrFormat, "2.5|2.4", 0},
		{"WLAN", pcapBytes(little, 0xa1b2c3d4, 105), ErrLinkType, "IEEE802_11 (105)|EN10MB", 0},
		{"unnamed link", pcapBytes(little, 0xa1b2c3d4, 9999), ErrLinkType, "link type 9999,", 0},
		{"reserved link bits", pcapBytes(little, 0xa1b2c3d4, 0x30000), ErrDamaged, "reserved", 0},
		{"record of 4 GB", append(pcapRecord(header, little, 0, 0, 1, "a"), "tttttttt\xff\xff\xff\xff\xff\xff\xff\xff"...), ErrDamaged, "record 2|4294967295", 1},
		{"gzip checksum", func() []byte { b := zip(t, start); b[len(b)-5] ^= 1; return b }(), ErrDamaged, "gzip|record 1", 1},
		{"gzip trailing garbage", append(zip(t, start), "garbage"...), nil, "", 1},
		{"block of 0 bytes", raw(6, 0, 0), ErrDamaged, "0 bytes|multiple of 4", 1},
		{"block of 13 bytes", raw(6, 13, 0), ErrDamaged, "13 bytes", 1},
		{"packet block of 4 GB", raw(6, 0xfffffffc, 0), ErrDamaged, "4294967292", 1},
		{"packet block too small", raw(6, 28, 0, 0, 0, 0, 28), ErrDamaged, "28 bytes", 1},
		{"interface block of 4 GB", raw(1, 0xfffffffc, 0), ErrDamaged, "interface block|4294967292", 1},
		{"section too small", raw(blockSection, 24, byteOrderMagic, 1, 0, 24), ErrDamaged, "24 bytes", 1},
		{"section without magic", raw(blockSection, 28, 0, 1, 0, 0, 28), ErrDamaged, "byte-order", 1},
		{"section of version 7.0", raw(blockSection, 28, byteOrderMagic, 7, 0, 0, 28), ErrFormat, "7.0", 1},
		{"trailer", raw(0xbad, 12, 16), ErrDamaged, "12 bytes|16", 1},
		{"packet trailer", raw(3, 20, 1, 0, 24), ErrDamaged, "20 bytes|24", 1},
		{"captured beyond its block", raw(6, 32, 0, 0, 0, 1, 1, 32), ErrDamaged, "record 2|1 captured", 1},
		{"captured 4 GB", raw(6, 32, 0, 0, 0, 0xffffffff, 1, 32), ErrDamaged, "record 2|4294967295", 1},
		{"simple beyond its block", raw(3, 16, 1, 16), ErrDamaged, "record 2|1 captured", 1},
		{"no such interface", raw(6, 32, 1, 0, 0, 0, 1, 32), ErrDamaged, "interface 1 of 1", 1},
		{"interface of a section before", append(start, join(ngSection(big), ngSimple(big, 1, "a"))...), ErrDamaged, "interface 0 of 0", 1},
		{"option beyond its block", raw(1, 24, 1, 0, 9|8<<16, 24), ErrDamaged, "option of 8", 1},
		{"resolution of two bytes", append(start, ngIface(little, 1, 0, option{optionResolution, []byte{6, 6}})...), ErrDamaged, "option 9", 1},
		{"too many interfaces", interfaces, ErrDamaged, "65536", 0},
		{"WLAN in pcapng", append(start, join(ngIface(little, 105, 0), ngEnhanced(little, 1, 0, 1, "a"))...), ErrLinkType, "record 2|IEEE802_11 (105)", 1},
	} {
		var all []Packet
		r, err := openBytes(c.file)
		if err == nil {
			all, err = readAll(r)
			if again := r.Next(new(Packet)); again != err {
				t.Errorf("%s: the error %v is followed by %v", c.name, err, again)
			}
		}
		if len(all) != c.whole {
			t.Errorf("%s: %d packets before the error, want %d", c.name, len(all), c.whole)
		}
		if c.kind == nil {
			continue
		}
		if !errors.Is(err, c.kind) {
			t.Errorf("%s: error %v; want one that wraps %v", c.name, err, c.kind)
			continue
		}
		for _, word := range append(strings.Split(c.words, "|"), "x: ") {
			if !strings.Contains(err.Error(), word) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: error %q does not say %q in one line", c.name, err, word)
			}
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, kind := range map[string]error{
		dir:                             ErrNotRegular,
		fifo:                            ErrNotRegular,
		"/dev/null":                     ErrNotRegular,
		filepath.Join(dir, "none.pcap"): fs.ErrNotExist,
		writeFile(t, "empty.pcap", nil): ErrEmpty,
	} {
		for name, open := range map[string]func() error{
			"Open":      func() error { _, err := Open(path); return err },
			"OpenTrace": func() error { _, err := OpenTrace(path); return err },
			"Sniff":     func() error { _, err := Sniff(path); return err },
		} {
			if err := open(); !errors.Is(err, kind) || !strings.HasPrefix(err.Error(), path+": ") {
				t.Errorf("%s(%s): %v; want an error that wraps %v and names the file", name, path, err, kind)
			}
		}
	}
}

func TestOffset(t *testing.T) {
	file := pcapRecord(pcapBytes(big, 0xa1b2c3d4, 1), big, 0, 0, 4, "abcd")
	file = pcapRecord(file, big, 0, 0, 4, "efgh")
	for _, c := range []struct {
		file  []byte
		first int64
	}{{file, 44}, {zip(t, file), int64(len(zip(t, file)))}} {
		r, err := Open(writeFile(t, "x", c.file))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if err := r.Next(new(Packet)); err != nil {
			t.Fatal(err)
		}
		if r.Size() != int64(len(c.file)) || r.Offset() != c.first {
			t.Errorf("size %d, offset %d; want %d, %d", r.Size(), r.Offset(), len(c.file), c.first)
		}
	}
}

func TestSniff(t *testing.T) {
	file := pcapBytes(big, 0xa1b2c3d4, 1)
	trace := []byte("# a comment — with a dash\n1,2\n")
	for _, c := range []struct {
		file []byte
		want Kind
	}{
		{file, KindCapture}, {zip(t, file), KindCapture}, {ngSection(little), KindCapture},
		{trace, KindTrace}, {zip(t, trace), KindTrace}, {[]byte("\n"), KindTrace},
	} {
		if got, err := Sniff(writeFile(t, "x", c.file)); got != c.want || err != nil {
			t.Errorf("%.20q: %v, %v; want %v", c.file, got, err, c.want)
		}
	}
	if _, err := Sniff(writeFile(t, "x", []byte("\x7fELF\x01\x02"))); !errors.Is(err, ErrFormat) {
		t.Errorf("a program: %v", err)
	}
}
