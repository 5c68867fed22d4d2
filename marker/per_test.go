package marker

import (
	"strings"
	"testing"
)

// SPEC 3.1: who shares a bucket, per VLAN and per DSCP.
func TestPerVLANAndDSCP(t *testing.T) {
	dscp0 := whole(udpFrame)
	dscp0.Data[15] = 3 // CE, DSCP 0
	for _, c := range []struct {
		name   string
		per    Per
		shared [][]Frame // one bucket each
		fields []KeyFields
	}{
		{"vlan", PerVLAN, [][]Frame{
			{udpFrame, udp6Frame, tcpFrame, priorityTag, arpFrame, tagged(udpFrame, 0)},
			{vlan100, tagged(udpFrame, 100), tagged(udp6Frame, 0x2064), tagged(arpFrame, 100), vlan100ARP},
			{vlan100in200, tagged(vlan100, 200)},
			{tagged(udpFrame, 4095)},
		}, []KeyFields{{}, {Sport: [2]byte{0, 100}}, {Sport: [2]byte{0, 200}}, {Sport: [2]byte{0x0f, 0xff}}}},
		{"dscp", PerDSCP, [][]Frame{{udpFrame, udp6Frame, tcpFrame, vlan100}, {dscp0}}, []KeyFields{{Sport: [2]byte{0, 46}}, {}}},
	} {
		for position := range MaxChain {
			meters := []testMeter{{number: 3, per: PerClass, params: token(1e6)}, {number: 4, per: PerInterface, params: token(1e6)}}[:position]
			meters = append(meters, testMeter{number: 1, family: 7, per: c.per, params: token(1e6)})
			m := mirrorOf(t, planOf(t, testClass{
				name: "a", meters: meters, rules: []func(*Rule){only(FamilyIP | FamilyNone)},
				change: func(c *Class) {
					c.Count, c.Actions[Green] = CountL2, Action{Verbs: VerbMark, Mark: 1}
				},
			}))
			seen := map[uint32]bool{}
			for i, frames := range c.shared {
				first := uint32(0)
				for j, f := range frames {
					f = whole(f)
					at := m.Packet(&f, 0).Slots[position]
					if j == 0 {
						first = at
					}
					if at != first || j == 0 && seen[at] {
						t.Errorf("%s, position %d: frame %d of bucket %d is in slot %d, the first in %d", c.name, position, j+1, i+1, at, first)
					}
				}
				seen[first] = true
				want := c.fields[i]
				want.Kind, want.Class = uint8(c.per)|uint8(position)<<4, 7
				s := m.Sets()[first/SetSlots][first%SetSlots]
				if got := s.Key.Fields(); got != want || s.Packets[Green] != uint64(len(frames)) {
					t.Errorf("%s, position %d: %+v with %d packets, not %+v with %d", c.name, position, got, s.Packets[Green], want, len(frames))
				}
			}
		}
	}
}

// The DSCP is that on arrival, though the packet leaves with another.
func TestPerDSCPOnArrival(t *testing.T) {
	m := mirrorOf(t, planOf(t, testClass{
		name: "a", meters: []testMeter{{per: PerDSCP, params: token(150)}},
		change: func(c *Class) { c.Actions[Green] = Action{Verbs: VerbDSCP, DSCP: 10} },
	}))
	wantChain(t, "ef", m, from(1, 100), 0, Green, 50, 0)
	wantChain(t, "ef of another flow", m, from(2, 50), 0, Green, 0, 0)
	f := from(1, 100)
	f.Data[15] = 10 << 2
	wantChain(t, "af11", m, f, 0, Green, 50, 0)
}

// An interface's key is its profile's alone: no position.
func TestPerInterfaceKey(t *testing.T) {
	for position := range MaxChain {
		m := NewMeter(9, position, PerInterface, [2]int{})
		for _, family := range []uint8{FamilyIPv4, FamilyIPv6, FamilyNone} {
			k := keyOf(&m, &packet{key: Key{1, 2, 3, 4, 5}, header: header{family: family}, vlan: 7, dscp: 8})
			if got := k.Fields(); got != (KeyFields{Kind: uint8(PerInterface), Class: 9}) {
				t.Errorf("position %d: %+v", position, got)
			}
		}
	}
	for per := PerFlow; per <= PerClass; per++ { // any other has
		a, b := NewMeter(9, 0, per, [2]int{32, 64}), NewMeter(9, 1, per, [2]int{32, 64})
		if p := (packet{header: header{family: FamilyIPv4}}); keyOf(&a, &p) == keyOf(&b, &p) {
			t.Errorf("per %v: two positions, one key", per)
		}
	}
}

// SPEC 4.4 and 5: classes of what is not IP, and what a frame costs there.
func TestNotIP(t *testing.T) {
	long := ethernet("0806", strings.Repeat("00", 186))     // 200 bytes
	short := ethernet("0806", strings.Repeat("00", 28))     // 42
	mpls := ethernet("8847", "0000 01ff", ip4(28, 17), udp) // 46
	bare := Frame{Data: unhex(strings.Repeat("00", 30)), Link: LinkOther}
	cut := longer(ethernet("0806"), 1514)
	for _, c := range []struct {
		name   string
		frame  Frame
		l2, l1 uint64
	}{
		{"200 bytes", long, 200, 224},
		{"42 bytes", short, 60, 84},
		{"MPLS", mpls, 60, 84},
		{"an offloaded tag", tagged(long, 100), 204, 228},
		{"42 bytes, an offloaded tag", tagged(short, 100), 60, 84},
		{"a tag in the data", ethernet("8100 0064 0806", strings.Repeat("00", 182)), 200, 224},
		{"cut short by the snaplen", cut, 1514, 1538},
		{"without link header", bare, 30, 54},
		{"PPPoE discovery", ethernet("8863", strings.Repeat("00", 100)), 114, 138},
	} {
		for count, want := range map[Count]uint64{CountL2: c.l2, CountL1: c.l1, CountPackets: 1} {
			for _, overhead := range []int64{0, 4, -8} {
				m := mirrorOf(t, planOf(t,
					testClass{name: "none", rules: []func(*Rule){only(FamilyNone)}, meters: []testMeter{{per: PerClass, params: token(1e6)}},
						change: func(c *Class) { c.Count, c.Overhead = count, overhead }},
					testClass{name: "ip", stats: 1, meters: []testMeter{{number: 1, params: token(1e6)}}},
				))
				f := whole(c.frame)
				out := m.Packet(&f, 0)
				cost := uint64(max(int64(want)+overhead, 0))
				counted := cost
				if count == CountPackets {
					counted = uint64(f.Length)
				}
				stats := m.Stats()
				if out.Kind != Metered || out.Class != 0 || out.Cost != cost || out.Arrival != Green || stats.Port.NotIP != 0 {
					t.Errorf("%s, %v, overhead %d: %+v, %+v, not cost %d", c.name, count, overhead, out, stats.Port, cost)
				}
				if got := stats.Classes[0]; got != (ClassStats{Packets: [Colors]uint64{1}, Bytes: [Colors]uint64{counted}}) {
					t.Errorf("%s, %v, overhead %d: counted %+v, not %d bytes", c.name, count, overhead, got, counted)
				}
			}
		}
	}
}

// Such a class takes no IP and nothing malformed; its packets are coloured, dropped and marked as others.
func TestNotIPTakesNothingElse(t *testing.T) {
	m := mirrorOf(t, planOf(t, testClass{
		name: "none", rules: []func(*Rule){only(FamilyNone)}, meters: []testMeter{{per: PerVLAN, params: token(150)}},
		change: func(c *Class) {
			c.Count, c.Actions[Green] = CountL2, Action{Verbs: VerbMark | VerbPriority, Mark: 1, Priority: 2}
		},
	}))
	wantChain(t, "ARP", m, whole(arpFrame), 0, Green, 90, 0)
	f := whole(arpFrame)
	if m.Packet(&f, 0); f.Mark != 1 || f.Priority != 2 {
		t.Errorf("mark %d, priority %d", f.Mark, f.Priority)
	}
	if out := wantChain(t, "the third", m, whole(arpFrame), 0, Red, 30, 0); !out.Dropped {
		t.Error("red, and not dropped")
	}
	wantChain(t, "another VLAN", m, whole(vlan100ARP), 0, Green, 90, 0)
	f = whole(udpFrame)
	if out := m.Packet(&f, 0); out.Kind != Unmatched {
		t.Errorf("IP: %+v", out)
	}
	f = whole(ethernet("0800", ip4(29, 17), udp))
	if out := m.Packet(&f, 0); out.Kind != Malformed {
		t.Errorf("malformed: %+v", out)
	}
	if got := m.Stats().Port; got != (PortStats{Unmatched: 1, Malformed: 1}) {
		t.Errorf("counted %+v", got)
	}
}
