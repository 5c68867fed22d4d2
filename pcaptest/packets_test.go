package pcaptest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/marker"
)

// Packets as they really come, and what must be made of each: written down by hand, and held against both
// implementations one by one, so that what both do wrong shows as well.

// A packetCase is a packet.
type packetCase struct {
	name   string
	frame  marker.Frame
	want   reading
	like   string // an earlier case whose bucket it shares
	unlike string // an earlier case whose bucket it must not have
}

// A reading is what must be made of a packet.
type reading struct {
	kind     marker.Kind // Metered: it is IP
	key      string      // of its flow
	fragment bool
	vlan     uint16
	long     bool // more extension headers than are walked: counted

	l3, l2, l1 uint64 // bytes charged; 0: what is not IP has no such unit
	packets    uint64 // on the wire
}

// ip is the reading of a single packet of so many bytes of IP and, without FCS, of frame.
func ip(key string, l3, l2 uint64) reading {
	return reading{kind: marker.Metered, key: key, l3: l3, l2: l2, l1: l2 + 24, packets: 1}
}

// fragment is ip of a fragment.
func fragment(key string, l3, l2 uint64) reading {
	r := ip(key, l3, l2)
	r.fragment = true
	return r
}

// cutInto is the reading of a super-packet.
func cutInto(packets uint64, key string, l3, l2, l1 uint64) reading {
	return reading{kind: marker.Metered, key: key, l3: l3, l2: l2, l1: l1, packets: packets}
}

// in is the reading of a packet in a VLAN.
func (r reading) in(vlan uint16) reading {
	r.vlan = vlan
	return r
}

// longChain is the reading of a packet with more extension headers than are walked.
func (r reading) longChain() reading {
	r.long = true
	return r
}

// notIP is the reading of a frame of so many bytes, without FCS, that is not IP.
func notIP(l2 uint64) reading {
	return reading{kind: marker.NotIP, l2: l2, l1: l2 + 24, packets: 1}
}

var malformed = reading{kind: marker.Malformed}

// packetTables is the table, by concern.
var packetTables = []struct {
	concern string
	cases   []packetCase
}{
	{"length", lengthPackets},
	{"super-packets", superPackets},
	{"fragments", fragmentPackets},
	{"IPv4 headers", ipv4HeaderPackets},
	{"IPv6 headers", ipv6HeaderPackets},
	{"transport", transportPackets},
	{"tunnels", tunnelPackets},
	{"tags", tagPackets},
	{"not IP", notIPPackets},
}

// Each packet of the table, by the mirror and by the kernel program.
func TestPackets(t *testing.T) {
	t.Run("mirror", func(t *testing.T) {
		plan := packetPlan(t)
		side, err := NewMirror(plan, marker.SeedsFrom(1))
		if err != nil {
			t.Fatal(err)
		}
		testPackets(t, side, plan)
	})
	t.Run("kernel", func(t *testing.T) {
		testutils.RequireKernel(t)
		plan := packetPlan(t)
		side, err := NewKernel(plan, marker.SeedsFrom(1))
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := side.Close(); err != nil {
				t.Error(err)
			}
		}()
		testPackets(t, side, plan)
	})
}

func testPackets(t *testing.T, side Side, plan *marker.Plan) {
	t.Helper()
	run := &packetRun{side: side, plan: plan, flows: map[string]uint32{}, buckets: map[uint32]string{}, slots: map[string]uint32{}}
	for _, table := range packetTables {
		t.Run(table.concern, func(t *testing.T) {
			for _, c := range table.cases {
				t.Run(c.name, func(t *testing.T) { run.packet(t, &c) })
			}
		})
	}
	stats, err := side.Stats()
	if err != nil {
		t.Fatal(err)
	}
	for i := range stats.Classes {
		if n := stats.Classes[i].Overflow; n != 0 {
			t.Errorf("%s: %d packets in an overflow bucket: the table is too small for the test", plan.Classes[i].Name, n)
		}
	}
}

// packetRun is one side on its way through the table.
type packetRun struct {
	side    Side
	plan    *marker.Plan
	flows   map[string]uint32 // bucket by class and key
	buckets map[uint32]string // and the other way round
	slots   map[string]uint32 // bucket of a case, in the first class
}

// packet holds what the side makes of a packet against what is written.
func (r *packetRun) packet(t *testing.T, c *packetCase) {
	if _, twice := r.slots[c.name]; twice {
		t.Fatal("two cases have one name")
	}
	r.slots[c.name] = marker.NoSet
	for i := range packetWays {
		w := &packetWays[i]
		if w.none != (c.want.kind == marker.NotIP) {
			continue
		}
		out := r.way(t, c, w, uint32(i+1))
		if i == 0 {
			r.slots[c.name] = out.Slots[0]
		}
	}
	r.noClass(t, c)
	if c.want.kind == marker.Metered {
		_, out := r.police(t, c, fragmentMark)
		if got, want := r.class(out), fmt.Sprintf("fragment-%t", c.want.fragment); got != want {
			t.Errorf("class %s, not %s", got, want)
		}
	}
	for name, shares := range map[string]bool{c.like: true, c.unlike: false} {
		if name == "" {
			continue
		}
		if other, ok := r.slots[name]; !ok {
			t.Errorf("no case %q before this one", name)
		} else if (other == r.slots[c.name]) != shares {
			t.Errorf("shares its bucket with %q: %t, must be %t", name, !shares, shares)
		}
	}
}

// police has the side police a packet, and returns the frame as it became. All is at one time: nothing is
// earned meanwhile, and nothing forgotten.
func (r *packetRun) police(t *testing.T, c *packetCase, mark uint32) (marker.Frame, *marker.Outcome) {
	t.Helper()
	f := c.frame
	f.Data, f.Mark = bytes.Clone(f.Data), mark
	out, err := r.side.Packet(&f, 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	return f, &out
}

func (r *packetRun) stats(t *testing.T) marker.Stats {
	t.Helper()
	stats, err := r.side.Stats()
	if err != nil {
		t.Fatal(err)
	}
	return stats
}

func (r *packetRun) class(out *marker.Outcome) string {
	if int(out.Class) < len(r.plan.Classes) {
		return r.plan.Classes[out.Class].Name
	}
	return "none"
}

// way polices a packet in one class: its cost, its counters, its buckets and its bytes.
func (r *packetRun) way(t *testing.T, c *packetCase, w *packetWay, mark uint32) *marker.Outcome {
	t.Helper()
	before := r.stats(t)
	f, out := r.police(t, c, mark)
	after := r.stats(t)
	want := before.Port
	if c.want.long {
		want.LongChain++
	}
	if c.want.kind == marker.Malformed {
		want.Malformed++
		if out.Kind != marker.Malformed || !out.Dropped || after.Port != want || !bytes.Equal(f.Data, c.frame.Data) {
			t.Errorf("%s: %v, dropped %t, counted %+v: want malformed, dropped, %+v", w.class, out.Kind, out.Dropped, after.Port, want)
		}
		return out
	}
	cost, counted := w.cost(&c.want)
	if out.Kind != marker.Metered || r.class(out) != w.class || out.Dropped {
		t.Fatalf("%s: %v, class %s, dropped %t: want it metered", w.class, out.Kind, r.class(out), out.Dropped)
	}
	if out.Cost != cost {
		t.Errorf("%s: costs %d, not %d", w.class, out.Cost, cost)
	}
	if c.want.kind == marker.NotIP { // a class may take it all the same; its l3 bytes are not defined
		if after.Port != want || !bytes.Equal(f.Data, c.frame.Data) {
			t.Errorf("%s: counted %+v, want %+v; bytes %x", w.class, after.Port, want, f.Data)
		}
		return out
	}
	counters := before.Classes[out.Class]
	counters.Packets[marker.Green] += c.want.packets
	counters.Bytes[marker.Green] += counted
	if after.Classes[out.Class] != counters || after.Port != want {
		t.Errorf("%s: counted %+v, %+v: want %+v, %+v", w.class, after.Classes[out.Class], after.Port, counters, want)
	}
	if out.Arrival != marker.Yellow || out.Color != marker.Green {
		t.Errorf("%s: arrived %v, left %v: want yellow by its AF12, and green", w.class, out.Arrival, out.Color)
	}
	if got := r.key(t, out.Slots[0]); got.String() != c.want.key {
		t.Errorf("%s: flow %v, want %s", w.class, got, c.want.key)
	}
	if got := r.key(t, out.Slots[1]); got.Per() != marker.PerVLAN || binary.BigEndian.Uint16(got.Sport[:]) != c.want.vlan {
		t.Errorf("%s: %v, want vlan %d", w.class, got, c.want.vlan)
	}
	r.bucketOfItsOwn(t, w.class+", "+c.want.key, out.Slots[0])
	if got, want := f.Data, c.marked(); !bytes.Equal(got, want) {
		t.Errorf("%s: marked\n%x, want\n%x", w.class, got[:min(len(got), 100)], want[:min(len(want), 100)])
	}
	return out
}

// noClass polices a packet that no class takes: it is counted as what it is.
func (r *packetRun) noClass(t *testing.T, c *packetCase) {
	t.Helper()
	want := r.stats(t).Port
	f, out := r.police(t, c, noClassMark)
	kind := c.want.kind
	switch kind {
	case marker.Metered:
		kind = marker.Unmatched
		want.Unmatched += c.want.packets
	case marker.NotIP:
		want.NotIP++
	default:
		want.Malformed++
	}
	if c.want.long {
		want.LongChain++
	}
	if got := r.stats(t).Port; got != want || out.Kind != kind {
		t.Errorf("without a class: %v, counted %+v: want %v, %+v", out.Kind, got, kind, want)
	}
	if dropped := kind == marker.Malformed; out.Dropped != dropped || !bytes.Equal(f.Data, c.frame.Data) {
		t.Errorf("without a class: dropped %t, want %t; bytes %x", out.Dropped, dropped, f.Data)
	}
}

func (r *packetRun) key(t *testing.T, slot uint32) marker.KeyFields {
	t.Helper()
	var set marker.Set
	if err := r.side.Set(slot/marker.SetSlots, &set); err != nil {
		t.Fatal(err)
	}
	return set[slot%marker.SetSlots].Key.Fields()
}

// bucketOfItsOwn fails where a flow has two buckets, or a bucket two flows.
func (r *packetRun) bucketOfItsOwn(t *testing.T, flow string, slot uint32) {
	t.Helper()
	if had, ok := r.flows[flow]; ok && had != slot {
		t.Errorf("%s: bucket %d, before %d", flow, slot, had)
	}
	if had, ok := r.buckets[slot]; ok && had != flow {
		t.Errorf("%s: the bucket of %s", flow, had)
	}
	r.flows[flow], r.buckets[slot] = slot, flow
}

// marked is the frame as AF11, ECT(0): nothing else has changed, and the checksum is right. Where the IP
// header is, the first source address tells, not a link header.
func (c *packetCase) marked() []byte {
	const tos = 10<<2 | 2
	b := bytes.Clone(c.frame.Data)
	v4, v6 := bytes.Index(b, octets("c00002")), bytes.Index(b, octets("20010db8"))
	if v6 >= 0 && (v4 < 0 || v6 < v4) {
		b = b[v6-8:]
		b[0], b[1] = 6<<4|tos>>4, tos<<4&0xff
	} else {
		b = b[v4-12:]
		header := b[:b[0]&0xf*4]
		header[1], header[10], header[11] = tos, 0, 0
		binary.BigEndian.PutUint16(header[10:], ^sum(header))
	}
	return slices.Concat(c.frame.Data[:len(c.frame.Data)-len(b)], b)
}

// The table has what it says it has.
func TestPacketTables(t *testing.T) {
	kinds := map[marker.Kind]int{}
	for _, table := range packetTables {
		if len(table.cases) == 0 {
			t.Errorf("%s: no packets", table.concern)
		}
		for _, c := range table.cases {
			kinds[c.want.kind]++
			if slices.Contains([]marker.Kind{marker.Metered, marker.NotIP}, c.want.kind) && c.want.l2 < 40 {
				t.Errorf("%s, %s: costs %d as a frame", table.concern, c.name, c.want.l2)
			}
		}
	}
	t.Logf("%v", kinds)
}
