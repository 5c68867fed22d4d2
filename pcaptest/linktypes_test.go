package pcaptest

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tricolor-policer/tricolor/internal/capture"
	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/marker"
)

// A linkPacket is a packet as any link may carry it.
type linkPacket struct {
	family   int // 4, 6; 0: neither
	ip       []byte
	captured int // bytes of ip that the snaplen left
}

// linkPackets are packets of each family that repeat, so that all colours come.
func linkPackets() (packets []linkPacket) {
	v4 := func(proto byte, fragment uint16, options, payload int, tos byte) []byte {
		b := make([]byte, 20+options+payload)
		b[0], b[1], b[8], b[9] = 0x45+byte(options/4), tos, 64, proto
		binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
		binary.BigEndian.PutUint16(b[6:], fragment)
		copy(b[12:], []byte{192, 0, 2, 1, 198, 51, 100, 7})
		for i := range options {
			b[20+i] = 1
		}
		copy(b[20+options:], []byte{0x0f, 0xa0, 0x13, 0x88})
		freshChecksum(b)
		return b
	}
	v6 := func(next byte, tos byte, rest ...byte) []byte {
		b := make([]byte, 40, 40+len(rest)+60)
		b[0], b[1], b[3], b[6], b[7] = 0x60|tos>>4, tos<<4|0xa, 0xbc, next, 64
		copy(b[8:], []byte{0x20, 1, 0xd, 0xb8, 15: 1, 16: 0x20, 17: 1, 18: 0xd, 19: 0xb8, 31: 2})
		b = append(append(b, rest...), 0x0f, 0xa0, 0x13, 0x88)
		b = append(b, make([]byte, 56)...)
		binary.BigEndian.PutUint16(b[4:], uint16(len(b)-40))
		return b
	}
	long := v4(17, 0, 0, 40, 0)
	binary.BigEndian.PutUint16(long[2:], 61)
	tunnel := v4(4, 0, 0, 40, 0)
	for _, c := range []linkPacket{
		{4, v4(17, 0, 0, 40, 0xb9), 1 << 16},
		{4, v4(6, 0, 8, 100, 0), 1 << 16},
		{4, v4(17, 0x2000, 0, 64, 40), 1 << 16},
		{4, v4(17, 8, 0, 13, 40), 1 << 16},
		{4, v4(132, 0, 0, 1000, 0), 96},
		{4, tunnel, 1 << 16},
		{4, long, 1 << 16},               // longer than its frame: malformed
		{4, v4(17, 0, 0, 40, 0), 19},     // cut in its header: malformed
		{4, v4(17, 0, 0, 40, 0), 0},      // not captured: malformed
		{4, v4(17, 0, 0, 0, 0)[:20], 20}, // no ports
		{6, v6(17, 0xb9), 1 << 16},
		{6, v6(0, 0, 6, 0, 1, 4, 0, 0, 0, 0), 1 << 16},
		{6, v6(44, 0x30, 17, 0, 0, 1, 0, 0, 0, 7), 1 << 16},
		{6, v6(58, 0), 48},
		{6, v6(17, 0), 30}, // cut: malformed
		{0, []byte{0x90, 1, 2, 3}, 1 << 16},
	} {
		c.captured = min(c.captured, len(c.ip))
		packets = append(packets, c)
	}
	return slices.Concat(packets, packets, packets, packets, packets)
}

// A linkHeader is a way in which packets of a link type can begin.
type linkHeader struct {
	name            string
	link            uint16
	v4, v6, neither string // in hexadecimal; "-": cannot be
}

// linkHeaders are all of them, for the link types that are read.
var linkHeaders = []linkHeader{
	{"EN10MB", 1, "020000000001020000000002 0800", "020000000001020000000002 86dd", "020000000001020000000002 0806"},
	{"RAW", 101, "", "", ""},
	{"RAW, as 12", 12, "", "", ""},
	{"RAW, as 14", 14, "", "", ""},
	{"IPV4", 228, "", "-", "-"},
	{"IPV6", 229, "-", "", "-"},
	{"LINUX_SLL", 113, "0000 0001 0006 0200000000020000 0800", "0004 0001 0006 0200000000020000 86dd", "0000 0304 0000 0000000000000000 0004"},
	{"LINUX_SLL2", 276, "0800 0000 00000003 0001 00 06 0200000000020000", "86dd 0000 00000003 0001 04 06 0200000000020000", "0806 0000 00000003 0001 00 06 0200000000020000"},
	{"NULL, little-endian", 0, "02000000", "0a000000", "07000000"},
	{"NULL, big-endian", 0, "00000002", "0000000a", "00000007"},
	{"NULL of NetBSD", 0, "02000000", "18000000", "10000000"},
	{"NULL of FreeBSD", 0, "02000000", "1c000000", "10000000"},
	{"NULL of macOS", 0, "02000000", "1e000000", "10000000"},
	{"LOOP", 108, "00000002", "00000018", "00000010"},
	{"PPP with address and control", 9, "ff03 0021", "ff03 0057", "ff03 c021"},
	{"PPP without", 9, "0021", "0057", "c021"},
	{"PPP with compressed protocols", 9, "21", "57", "c223"},
	{"PPP_HDLC", 50, "ff03 0021", "ff03 0057", "ff03 8021"},
}

// linkReading is what became of a packet, whatever link carried it.
type linkReading struct {
	Packet  int // of linkPackets
	Kind    marker.Kind
	Flow    string
	Cost    uint64
	In, Out marker.Color
	Dropped bool
	IP      string // as it came out
	Tc, Tx  uint64
}

// readLinks replays a capture of those packets.
func readLinks(t *testing.T, path string, plan *marker.Plan, packets []linkPacket, which []int) (all []linkReading) {
	t.Helper()
	result, err := ReplayCapture(context.Background(), path, ReplayOptions{Plan: plan, Seeds: marker.SeedsFrom(1), Each: func(s *Step) error {
		i := which[len(all)]
		p := &packets[i]
		r := linkReading{Packet: i, Kind: s.Outcome.Kind, Cost: s.Outcome.Cost, In: s.Outcome.Arrival, Out: s.Outcome.Color, Dropped: s.Outcome.Dropped}
		if s.Seen.IP {
			r.Flow = s.Seen.Flow.String()
			r.IP = fmt.Sprintf("%x", s.Frame.Data[len(s.Frame.Data)-p.captured:])
		}
		if s.Bucket != nil {
			r.Tc, r.Tx = s.Bucket.Bucket.Tc, s.Bucket.Bucket.Tx
		}
		all = append(all, r)
		return nil
	}})
	if err != nil || len(all) != len(which) || result.Forgotten != 0 {
		t.Fatalf("%d packets of %d, %d buckets forgotten: %v", len(all), len(which), result.Forgotten, err)
	}
	return all
}

// The same packets, as captures of every link type have them, in each byte order, in pcap and pcapng: the
// same keys, costs, colours and marks, and no difference between mirror and kernel.
func TestLinkTypesAgree(t *testing.T) {
	testutils.RequireKernel(t)
	plan := planOf(t, marker.Params{Meter: marker.SRTCM, CIR: 100, CBS: 150, EBS: 100}, marker.PerFlow, 4096)
	packets := linkPackets()
	// With its link header, if it can be carried.
	frame := func(link int, p *linkPacket) ([]byte, bool) {
		h := linkHeaders[link]
		header := map[int]string{4: h.v4, 6: h.v6, 0: h.neither}[p.family]
		if header == "-" {
			return nil, false
		}
		return append(octets(header), p.ip...), true
	}
	at := func(i int) uint64 { return 1e18 + uint64(i)*50e6 }
	var reference []linkReading
	check := func(t *testing.T, file []byte, which []int) {
		t.Helper()
		path := writeCapture(t, file)
		got := readLinks(t, path, plan, packets, which)
		if reference == nil {
			reference = got
		}
		var want []linkReading
		for _, i := range which {
			want = append(want, reference[i])
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("-Ethernet +this\n%s", diff)
		}
		forgotten := 0
		v, err := verifyFile(t, path, plan, &forgotten)
		if err != nil || v.First != nil || v.Compared != int64(len(which)) {
			t.Errorf("%d packets compared: %v %v", v.Compared, v.First, err)
		}
	}
	for link, h := range linkHeaders {
		for n, o := range []byteOrder{binary.LittleEndian, binary.BigEndian} {
			if n != link%2 && link != 0 {
				continue // each in one of the orders
			}
			t.Run(fmt.Sprintf("%s, %v", h.name, o), func(t *testing.T) {
				pcap := pcapOf(o, uint32(h.link))
				ng := appendInterface(appendSection(nil, o), o, h.link, 9, 0)
				var which []int
				for i := range packets {
					b, ok := frame(link, &packets[i])
					if !ok {
						continue
					}
					which = append(which, i)
					whole, missing := len(b), len(packets[i].ip)-packets[i].captured
					pcap = appendRecord(pcap, o, at(i), b[:whole-missing], whole)
					ng = appendPacket(ng, o, 0, at(i), b[:whole-missing], whole)
				}
				check(t, pcap, which)
				check(t, ng, which)
			})
		}
	}
	// All of them in one file, each packet from another interface than the one before.
	t.Run("all at once", func(t *testing.T) {
		o := binary.LittleEndian
		ng := appendSection(nil, o)
		for _, h := range linkHeaders {
			ng = appendInterface(ng, o, h.link, 9, 0)
		}
		var which []int
		link := 0
		for i := range packets {
			b, ok := frame(link, &packets[i])
			for ; !ok; b, ok = frame(link, &packets[i]) {
				link = (link + 1) % len(linkHeaders)
			}
			which = append(which, i)
			whole, missing := len(b), len(packets[i].ip)-packets[i].captured
			ng = appendPacket(ng, o, link, at(i), b[:whole-missing], whole)
			link = (link + 1) % len(linkHeaders)
		}
		check(t, ng, which)
	})
	// What the reference holds, lest all agree on nothing.
	kinds, colors, flows := map[marker.Kind]int{}, map[marker.Color]int{}, map[string]bool{}
	for i := range reference {
		kinds[reference[i].Kind]++
		flows[reference[i].Flow] = true
		if reference[i].Kind == marker.Metered {
			colors[reference[i].Out]++
			if want := uint64(len(packets[reference[i].Packet].ip)); reference[i].Cost != want {
				t.Errorf("packet %d costs %d, not %d", i, reference[i].Cost, want)
			}
		}
	}
	if kinds[marker.NotIP] != 5 || kinds[marker.Malformed] != 5*4 || len(colors) != int(marker.Colors) || len(flows) < 8 {
		t.Errorf("kinds %v, colours %v, flows %v", kinds, colors, flows)
	}
}

// Capture files of link types that are read are the ones above: a link type that is added belongs there.
func TestLinkTypesAreAllThere(t *testing.T) {
	for link := range 400 { // the registry ends before
		r, err := capture.Open(writeCapture(t, pcapOf(binary.LittleEndian, uint32(link))))
		listed := slices.ContainsFunc(linkHeaders, func(h linkHeader) bool { return int(h.link) == link })
		if listed != (err == nil) {
			t.Errorf("link type %d: listed %v, %v", link, listed, err)
		}
		if err == nil {
			r.Close()
		}
	}
}
