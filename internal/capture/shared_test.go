package capture

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
)

// shared is a folder of captures beside the checkout, with an index.
const shared = "../../../shared/pcaps"

// refusedFiles are the captures of the index that are not read, and why.
var refusedFiles = map[string]struct {
	kind  error
	words string
}{
	"odd/libpcap__linktype-reserved-field-not-zero.pcap": {ErrDamaged, "link type 0x300000 has reserved bits set"},
	"odd/libpcap__pcap-invalid-version-1.pcap":           {ErrFormat, "version 1.4"},
	"odd/libpcap__pcap-invalid-version-2.pcap":           {ErrFormat, "version 2.5"},
	"odd/libpcap__pcapng-invalid-vers-1.pcapng":          {ErrFormat, "version 0.1"},
	"odd/libpcap__pcapng-invalid-vers-2.pcapng":          {ErrFormat, "version 1.1"},
	"odd/libpcap__shb-option-too-long.pcapng":            {ErrDamaged, "52 bytes at its start and 808464432 at its end"},
	"odd/libpcap__slip-bad-direction.pcap":               {ErrLinkType, "SLIP (8)"},
}

// index is the rows of the index, by column name.
func index(t testing.TB) []map[string]string {
	t.Helper()
	f, err := os.Open(filepath.Join(shared, "INDEX.tsv"))
	if err != nil {
		t.Skipf("no shared captures: %v", err)
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.Comma = '\t'
	r.LazyQuotes = true
	lines, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var rows []map[string]string
	for _, line := range lines[1:] {
		row := map[string]string{}
		for i, name := range lines[0] {
			row[name] = line[i]
		}
		rows = append(rows, row)
	}
	return rows
}

// Every capture of the index gives its number of records, with the link types
// and the format named there, or is refused for the reason above.
func TestIndexedCaptures(t *testing.T) {
	refused := 0
	for _, row := range index(t) {
		name := row["file"]
		want, err := strconv.Atoi(row["records"])
		if err != nil {
			t.Fatal(err)
		}
		r, err := Open(filepath.Join(shared, name))
		if golden, ok := refusedFiles[name]; ok {
			refused++
			if !errors.Is(err, golden.kind) || !strings.Contains(err.Error(), golden.words) {
				t.Errorf("%s: %v; want a refusal that says %q", name, err, golden.words)
			}
			continue
		}
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		var p Packet
		wire := 0
		for err = r.Next(&p); err == nil; err = r.Next(&p) {
			wire += p.Length
		}
		if err != io.EOF || int(r.in.records) != want {
			t.Errorf("%s: %d records, then %v; want %d", name, r.in.records, err, want)
		}
		if r.Offset() != r.Size() {
			t.Errorf("%s: %d of %d bytes read", name, r.Offset(), r.Size())
		}
		var links []string
		for _, l := range r.Links() {
			links = append(links, l.String())
		}
		if got := strings.Join(links, "+"); want > 0 && !sameSet(got, row["linktype"]) {
			t.Errorf("%s: link types %s, want %s", name, got, row["linktype"])
		}
		if want, _ := strconv.Atoi(row["wire_bytes"]); !strings.Contains(row["features"], "caplen>len") && wire != want {
			t.Errorf("%s: %d bytes on the wire, want %d", name, wire, want)
		}
		r.Close()
	}
	if refused != len(refusedFiles) {
		t.Errorf("%d refused files of the list are in the index, want %d", refused, len(refusedFiles))
	}
}

func sameSet(a, b string) bool {
	left, right := strings.Split(a, "+"), strings.Split(b, "+")
	for _, name := range left {
		if !strings.Contains("+"+b+"+", "+"+name+"+") {
			return false
		}
	}
	return len(left) == len(right)
}

// Where gopacket's pcapgo is right, both readers give the same packets.
func TestAgainstPcapgo(t *testing.T) {
	var files []string
	for _, pattern := range []string{"testdata/*.pcap*", filepath.Join(shared, "*.pcap*"), filepath.Join(shared, "odd", "*.pcap*")} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	compared := 0
	for _, path := range files {
		if strings.HasSuffix(path, ".tsv") || refusedFiles["odd/"+filepath.Base(path)].kind != nil {
			continue
		}
		compared += comparePcapgo(t, path)
	}
	if compared < 60 {
		t.Errorf("%d packets compared: too few to mean anything", compared)
	}
	t.Logf("%d packets compared", compared)
}

func comparePcapgo(t *testing.T, path string) (compared int) {
	r, err := Open(path)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer r.Close()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	next, link := pcapgoSource(t, path, bufio.NewReader(f))
	for {
		var p Packet
		ours := r.Next(&p)
		data, ci, theirs := next()
		if ours == nil && theirs != nil && p.Length == len(p.Data) && strings.Contains(theirs.Error(), "original packet length") {
			return compared // more captured than original bytes: their bug
		}
		if ours == io.EOF && theirs == io.EOF {
			return compared
		}
		if ours != nil || theirs != nil {
			t.Errorf("%s: packet %d: %v; pcapgo %v", path, p.Number, ours, theirs)
			return compared
		}
		compared++
		want := Packet{p.Number, p.Time, data, ci.Length, LinkType(link(ci.AncillaryData))}
		if !ci.Timestamp.IsZero() { // a Simple Packet Block has no time
			want.Time = uint64(ci.Timestamp.UnixNano())
		}
		if p.Link == LinkSLL2 {
			want.Link = LinkSLL2 // theirs has 8 bits
		}
		if !bytes.Equal(data, p.Data) || want.Time != p.Time || want.Length != p.Length || want.Link != p.Link {
			t.Errorf("%s: packet %d (-pcapgo +ours):\n%s", path, p.Number, cmp.Diff(want, p))
			return compared
		}
	}
}

// pcapgoSource reads f with pcapgo; link finds a packet's link type.
func pcapgoSource(t *testing.T, path string, f io.Reader) (next func() ([]byte, gopacket.CaptureInfo, error), link func([]any) layers.LinkType) {
	if strings.HasSuffix(path, "ng") {
		r, err := pcapgo.NewNgReader(f, pcapgo.NgReaderOptions{WantMixedLinkType: true})
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		return r.ReadPacketData, func(a []any) layers.LinkType { return a[0].(layers.LinkType) }
	}
	r, err := pcapgo.NewReader(f)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	r.SetSnaplen(maxCaptured)
	return r.ReadPacketData, func([]any) layers.LinkType { return r.LinkType() }
}

func BenchmarkReader(b *testing.B) {
	files, _ := filepath.Glob(filepath.Join(shared, "perf", "*.pcap"))
	if len(files) == 0 {
		b.Skip("no shared captures")
	}
	for _, path := range files {
		b.Run(filepath.Base(path), func(b *testing.B) {
			b.ReportAllocs()
			var p Packet
			r, err := Open(path)
			for b.Loop() {
				for err == nil {
					if err = r.Next(&p); err == nil {
						break
					}
					if err != io.EOF {
						b.Fatal(err)
					}
					r.Close()
					r, err = Open(path)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			r.Close()
		})
	}
}

func BenchmarkPcapng(b *testing.B) {
	start := join(ngSection(little), ngIface(little, 1, 0))
	file := append([]byte(nil), start...)
	for i := range uint64(100_000) {
		file = append(file, ngEnhanced(little, 0, i, 1500, string(make([]byte, 96)))...)
	}
	b.ReportAllocs()
	var p Packet
	r, err := openBytes(file)
	for b.Loop() {
		if err != nil {
			b.Fatal(err)
		}
		if r.Next(&p) == io.EOF {
			r, err = openBytes(file)
		}
	}
}
