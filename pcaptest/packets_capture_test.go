package pcaptest

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tricolor-policer/tricolor/internal/capture"
	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/marker"
)

// A record of a capture, and what must be made of it: its lengths may say what a frame's cannot.
type record struct {
	name   string
	data   []byte
	length int // as the record says it was on the wire
	want   reading
}

// records are the table's packets as a capture of a link type has them: all but those of which only a live
// hook can tell.
func records(link marker.Link) (out []record) {
	for _, table := range packetTables {
		for _, c := range table.cases {
			f := &c.frame
			if (f.Link == marker.LinkEthernet) == (link == marker.LinkEthernet) && f.GSOSize == 0 && f.VLAN == 0 &&
				!slices.Contains(notInRaw, c.name) {
				out = append(out, record{c.name, f.Data, int(f.Length), c.want})
			}
		}
	}
	return out
}

// notInRaw are packets that LINKTYPE_RAW takes for what their version says.
var notInRaw = []string{"version 6 on a device of IPv4", "version 4 on a device of IPv6"}

// Captures of the table's packets, and of what only captures have, through Verify: both implementations
// agree, and with what is written.
func TestPacketsInCaptures(t *testing.T) {
	testutils.RequireKernel(t)
	whole := ether("0800", datagram).Data
	padded := behind(ether("0800", ack), zeros(6)).Data
	fcs := octets("c704dd7b")
	for _, c := range []struct {
		name    string
		link    capture.LinkType
		fcs     uint32 // bytes that the file says are behind each frame
		records []record
	}{
		{name: "Ethernet", link: capture.LinkEthernet, records: records(marker.LinkEthernet)},
		{name: "raw", link: capture.LinkRaw, records: records(marker.LinkIPv4)},
		{name: "caplen over len", link: capture.LinkEthernet, records: []record{
			{"len 60", whole, 60, ip(udp4, 1000, 1014)},
			{"len 0", whole, 0, ip(udp4, 1000, 1014)},
			{"len one less", whole, 1013, ip(udp4, 1000, 1014)},
			{"len 34, padded", padded, 34, ip(tcp4, 40, 60)},
			{"len 0, IPv4 length 0", ether("0800", ip4{proto: 17, zero: true, body: udp(972)}.bytes()).Data, 0, ip(udp4, 1000, 1014)},
			{"len 100, IPv6", ether("86dd", six).Data, 100, ip(udp6, 1000, 1014)},
			{"len 100, total length beyond caplen", ether("0800", ip4{proto: 17, total: 1001, body: udp(972)}.bytes()).Data, 100, malformed},
			{"len 60, MPLS", ether("8847 00064140", datagram).Data, 60, notIP(1018)},
		}},
		{name: "FCS that the file announces", link: capture.LinkEthernet, fcs: 4, records: []record{
			{"whole", slices.Concat(whole, fcs), 1018, ip(udp4, 1000, 1014)},
			{"padded", slices.Concat(padded, fcs), 64, ip(tcp4, 40, 60)},
			{"cut by the snaplen", whole[:96], 1018, ip(udp4, 1000, 1014)},
			{"in a VLAN", slices.Concat(ether("8100 0064 0800", datagram).Data, fcs), 1022, ip(udp4, 1000, 1018).in(100)},
			{"IPv4 length 0", slices.Concat(ether("0800", ip4{proto: 17, zero: true, body: udp(972)}.bytes()).Data, fcs), 1018, ip(udp4, 1000, 1014)},
			{"total length reaches into the FCS", slices.Concat(ether("0800", ip4{proto: 17, total: 1001, body: udp(972)}.bytes()).Data, fcs), 1018, malformed},
			{"ports in the FCS are none", slices.Concat(ether("0800", ip4{proto: 17, total: 20}.bytes()).Data, fcs), 38, ip(of4("udp"), 20, 60)},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := writeRecords(t, c.link, c.fcs, c.records)
			for _, count := range []marker.Count{marker.CountL3, marker.CountL2, marker.CountL1, marker.CountPackets} {
				t.Run(count.String(), func(t *testing.T) { verifyRecords(t, path, c.records, count) })
			}
		})
	}
}

func writeRecords(t *testing.T, link capture.LinkType, fcs uint32, records []record) string {
	t.Helper()
	var file bytes.Buffer
	w, err := capture.NewWriter(&file, link)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range records {
		if err := w.Write(&capture.Packet{Number: int64(i + 1), Time: uint64(i), Link: link, Length: r.length}, r.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if fcs != 0 { // bit 26: the length of it is given, in units of 16 bits, in the four highest
		binary.LittleEndian.PutUint32(file.Bytes()[20:], uint32(link)|1<<26|fcs/2<<28)
	}
	path := filepath.Join(t.TempDir(), "packets.pcap")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func verifyRecords(t *testing.T, path string, records []record, count marker.Count) {
	t.Helper()
	plan := planOf(t, marker.Params{Meter: marker.Token, CIR: 1, CBS: 1 << 30}, marker.PerFlow, 1<<14)
	plan.Classes[0].Count = count
	m, err := NewMirror(plan, marker.SeedsFrom(1))
	if err != nil {
		t.Fatal(err)
	}
	k, err := NewKernel(plan, marker.SeedsFrom(1))
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	r, err := capture.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()

	at := 0
	way := packetWay{count: count}
	var want marker.PortStats
	v, err := Verify(context.Background(), r, VerifyOptions{File: filepath.Base(path), Plan: plan, Kernel: k, Mirror: &toldOf{m, func(out *marker.Outcome) {
		c := &records[at]
		at++
		cost, _ := way.cost(&c.want)
		switch c.want.kind {
		case marker.NotIP:
			want.NotIP++
			cost = 0 // no class takes it
		case marker.Malformed:
			want.Malformed++
		}
		if c.want.long {
			want.LongChain++
		}
		if out.Kind != c.want.kind || out.Cost != cost {
			t.Errorf("%s: %v, costs %d: want %v, %d", c.name, out.Kind, out.Cost, c.want.kind, cost)
		}
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if v.First != nil || v.Skipped != 0 || at != len(records) {
		t.Errorf("%d of %d records compared, %d skipped: %v", at, len(records), v.Skipped, v.First)
	}
	if v.Stats.Port != want {
		t.Errorf("counted %+v, want %+v", v.Stats.Port, want)
	}
}
