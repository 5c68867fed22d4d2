package marker

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
)

// policed makes a mirror of one class, colours marked af11 and af12, red dropped.
func policed(t testing.TB, params Params, change func(*Plan)) *Mirror {
	t.Helper()
	plan := *tiny(t, params, MinFlows, 1).Plan()
	plan.Classes[0].Actions = [Colors]Action{
		Green: {Verbs: VerbDSCP, DSCP: 10}, Yellow: {Verbs: VerbDSCP, DSCP: 12}, Red: {Verbs: VerbDrop},
	}
	if change != nil {
		change(&plan)
	}
	m, err := NewMirror(&plan, SeedsFrom(1))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// sized is a whole frame with an IPv4 packet of so many bytes.
func sized(total int) Frame {
	f := ethernet("0800", ip4(total, 17), udp, strings.Repeat("00", total-28))
	binary.BigEndian.PutUint16(f.Data[24:], checksumOf(f.Data[14:34]))
	f.Length = uint32(len(f.Data))
	return f
}

// A packet of each colour: what is decided, written, counted and kept.
func TestMirrorColors(t *testing.T) {
	m := policed(t, Params{Meter: SRTCM, CIR: 1000, CBS: 100, EBS: 60}, nil)
	for i, c := range []struct {
		bytes int
		want  Color
		dscp  byte
		left  Bucket
	}{
		{100, Green, 10, Bucket{Last: 1000, Tc: 0, Tx: 60 * Nano}},
		{61, Red, 46, Bucket{Last: 1000, Tc: 0, Tx: 60 * Nano}},
		{60, Yellow, 12, Bucket{Last: 1000}},
		{28, Red, 46, Bucket{Last: 1000}},
	} {
		f := sized(c.bytes)
		want := bytes.Clone(f.Data)
		if want[15] = c.dscp << 2; c.dscp != 46 {
			binary.BigEndian.PutUint16(want[24:], checksumOf(want[14:34]))
		}
		got := m.Packet(&f, 1000)
		slot := got.Slots[0]
		if got != (Outcome{Kind: Metered, Dropped: c.want == Red, Color: c.want, Cost: uint64(c.bytes), Slots: [MaxChain]uint32{slot, NoSet, NoSet}}) {
			t.Errorf("packet %d: %+v", i+1, got)
		}
		if !bytes.Equal(f.Data, want) {
			t.Errorf("packet %d:\n%x, not\n%x", i+1, f.Data, want)
		}
		if b := m.Sets()[slot/SetSlots][slot%SetSlots].Bucket; b != c.left {
			t.Errorf("packet %d: left %+v, not %+v", i+1, b, c.left)
		}
	}
	if got := m.Stats().Classes[0]; got != (ClassStats{Packets: [Colors]uint64{1, 1, 2}, Bytes: [Colors]uint64{100, 60, 89}}) {
		t.Errorf("counted %+v", got)
	}
}

// An aware meter takes the packet's colour from its DSCP, a blind one does not; both say what it was.
func TestMirrorArrival(t *testing.T) {
	for _, aware := range []bool{false, true} {
		for dscp, arrives := range map[byte]Color{10: Green, 12: Yellow, 14: Red, 46: Green} {
			m := policed(t, Params{Meter: TRTCM, CIR: 1000, CBS: 1000, PIR: 1000, PBS: 1000, Aware: aware}, nil)
			f := sized(100)
			f.Data[15] = dscp << 2
			want := Green
			if aware {
				want = arrives
			}
			if got := m.Packet(&f, 0); got.Color != want || got.Arrival != arrives {
				t.Errorf("aware %v, DSCP %d: %v, arrived %v", aware, dscp, got.Color, got.Arrival)
			}
		}
	}
}

// SPEC 4.4: what no meter sees is counted, spends nothing and is not written.
func TestMirrorUnmetered(t *testing.T) {
	drop := policed(t, slow, nil)
	pass := policed(t, slow, func(p *Plan) { p.Malformed = Action{} })
	none := policed(t, slow, func(p *Plan) { p.Rules, p.Classes = nil, nil })
	for _, c := range []struct {
		name  string
		m     *Mirror
		frame Frame
		want  Outcome
		stats PortStats
	}{
		{"ARP", drop, ethernet("0806", strings.Repeat("00", 46)), Outcome{Kind: NotIP}, PortStats{NotIP: 1}},
		{"malformed", drop, ethernet("0800", ip4(29, 17), udp), Outcome{Kind: Malformed, Dropped: true}, PortStats{Malformed: 1}},
		{"malformed, let through", pass, ethernet("0800", ip4(29, 17), udp), Outcome{Kind: Malformed}, PortStats{Malformed: 1}},
		{"no class", none, ethernet("0800", ip4(28, 17), udp), Outcome{Kind: Unmatched}, PortStats{Unmatched: 1}},
		{"no class, a super-packet", none, super(longer(ethernet("0800", ip4(3040, 6), tcp), 3054), 1448, 3), Outcome{Kind: Unmatched}, PortStats{Unmatched: 3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.m.stats = Stats{Classes: make([]ClassStats, MaxClasses)}
			f := c.frame
			f.Length = max(f.Length, uint32(len(f.Data)))
			data := bytes.Clone(f.Data)
			c.want.Class, c.want.Slots = NoClass, [MaxChain]uint32{NoSet, NoSet, NoSet}
			if got := c.m.Packet(&f, 5); got != c.want {
				t.Errorf("%+v, not %+v", got, c.want)
			}
			if !bytes.Equal(f.Data, data) {
				t.Errorf("written: %x", f.Data)
			}
			if got := c.m.Stats(); got.Port != c.stats || len(got.Classes) > 0 && got.Classes[0] != (ClassStats{}) {
				t.Errorf("counted %+v", got)
			}
			for i, s := range c.m.Sets() {
				if s != (Set{}) {
					t.Errorf("set %d was touched", i)
				}
			}
		})
	}
}

// A long chain of extension headers is counted and policed, its ports unread.
func TestMirrorLongChain(t *testing.T) {
	m := policed(t, slow, nil)
	f := ethernet("86dd", ip6(80, 60), strings.Repeat(extension(60, 8), 8), extension(17, 8), udp)
	f.Length = uint32(len(f.Data))
	got := m.Packet(&f, 0)
	if got.Kind != Metered || got.Cost != 120 || m.Stats().Port.LongChain != 1 {
		t.Errorf("%+v, %+v", got, m.Stats().Port)
	}
	k := m.Sets()[got.Slots[0]/SetSlots][got.Slots[0]%SetSlots].Key.Fields()
	if k.Proto != 60 || k.Sport != [2]byte{} || k.Dport != [2]byte{} {
		t.Errorf("key %+v", k)
	}
}

// SPEC 4.7: packets are those on the wire, bytes what they cost; of counted packets, their IP bytes.
func TestMirrorCountsSuperPackets(t *testing.T) {
	f := super(longer(ethernet("0800", ip4(3040, 6), tcp), 3054), 1448, 3)
	for count, want := range map[Count][2]uint64{CountL3: {3120, 3120}, CountL2: {3162, 3162}, CountPackets: {3, 3120}} {
		m := policed(t, Params{Meter: Token, CIR: 1000, CBS: 10_000}, func(p *Plan) { p.Classes[0].Count = count })
		got := m.Packet(&f, 0)
		s := m.Sets()[got.Slots[0]/SetSlots][got.Slots[0]%SetSlots]
		class := m.Stats().Classes[0]
		if got.Cost != want[0] || class.Packets[Green] != 3 || class.Bytes[Green] != want[1] || s.Packets[Green] != 3 || s.Bytes[Green] != want[1] {
			t.Errorf("%v: cost %d, class %+v, bucket %v %v", count, got.Cost, class, s.Packets, s.Bytes)
		}
		if s.Bucket.Tc != (10_000-want[0])*Nano {
			t.Errorf("%v: %d nanobytes left", count, s.Bucket.Tc)
		}
	}
}

// One bucket for a whole class: in its reserved set, full when first used, whatever the flow.
func TestMirrorPerClass(t *testing.T) {
	m := policed(t, slow, func(p *Plan) {
		p.Classes[0].Meters[0] = NewMeter(0, 0, PerClass, [2]int{})
		p.Classes[0].Meters[0].Reserved = p.Geometry.ReservedSet(0)
	})
	reserved := m.Plan().Classes[0].Meters[0].Reserved
	a, b := sized(600), sized(500)
	b.Data[29] = 77 // another source
	if got := m.Packet(&a, 7); got.Color != Green || got.Slots[0] != reserved*SetSlots {
		t.Errorf("%+v", got)
	}
	if got := m.Packet(&b, 7); got.Color != Red || got.Slots[0] != reserved*SetSlots {
		t.Errorf("%+v", got)
	}
	if s := m.Sets()[reserved][0]; s.Bucket != (Bucket{Last: 7, Tc: 400 * Nano}) || s.Key.Fields() != (KeyFields{Kind: uint8(PerClass)}) {
		t.Errorf("%+v", s)
	}
}

// Nothing is allocated for a packet, whatever becomes of it.
func TestMirrorAllocatesNothing(t *testing.T) {
	metered, arp, bad := sized(100), ethernet("0806", strings.Repeat("00", 46)), ethernet("0800", ip4(29, 17), udp)
	six := ethernet("86dd", ip6(32, 0), extension(44, 8), "1100 0001 00000001", udp, udp)
	gso := super(longer(ethernet("0800", ip4(3040, 6), tcp), 3054), 1448, 3)
	for name, f := range map[string]Frame{"metered": metered, "not IP": arp, "malformed": bad, "IPv6": six, "super-packet": gso} {
		m := policed(t, slow, nil)
		f.Length = max(f.Length, uint32(len(f.Data)))
		now := uint64(0)
		if n := testing.AllocsPerRun(100, func() { now += 1000; m.Packet(&f, now) }); n != 0 {
			t.Errorf("%s: %v allocations a packet", name, n)
		}
	}
	m := policed(t, slow, nil)
	f, flow := sized(100), uint32(0)
	// New keys, then more keys than slots: overflow, and forgetting as time goes on.
	if n := testing.AllocsPerRun(1000, func() {
		flow++
		binary.BigEndian.PutUint32(f.Data[26:], flow)
		m.Packet(&f, uint64(flow)*1000)
	}); n != 0 {
		t.Errorf("new keys: %v allocations a packet", n)
	}
	if over := m.Stats().Classes[0].Overflow; over == 0 || over == 1001 {
		t.Errorf("%d of 1001 in overflow", over)
	}
}
