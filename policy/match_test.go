package policy

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tricolor-policer/tricolor/marker"
)

// wire is a packet by what a match looks at.
type wire struct {
	src, dst     netip.Addr // not valid: it is not IP
	proto, dscp  uint8
	sport, dport uint16
	vlan         uint16
	mark         uint32
	fragment     bool
}

// frame is the packet on an Ethernet.
func (w *wire) frame() *marker.Frame {
	b := make([]byte, 12, 80)
	u16 := func(v uint16) { b = binary.BigEndian.AppendUint16(b, v) }
	if w.vlan != 0 {
		u16(0x8100)
		u16(w.vlan)
	}
	payload := 8
	if w.fragment && w.src.Is6() {
		payload += 8
	}
	switch {
	case !w.src.IsValid():
		u16(0x0806)
	case w.src.Is4():
		u16(0x0800)
		b = append(b, 0x45, w.dscp<<2)
		u16(uint16(20 + payload))
		u16(1)
		if w.fragment {
			u16(0x2000) // the first of several
		} else {
			u16(0x4000)
		}
		b = append(b, 64, w.proto, 0, 0)
	default:
		u16(0x86dd)
		b = append(b, 0x60|w.dscp>>2, w.dscp<<6, 0, 0)
		u16(uint16(payload))
		next := w.proto
		if w.fragment {
			next = 44
		}
		b = append(b, next, 64)
	}
	b = append(append(b, w.src.AsSlice()...), w.dst.AsSlice()...)
	if w.fragment && w.src.Is6() {
		b = append(b, w.proto, 0, 0, 1, 0, 0, 0, 1)
	}
	u16(w.sport)
	u16(w.dport)
	u16(8)
	u16(0)
	return &marker.Frame{Data: b, Length: uint32(len(b)), Mark: w.mark}
}

// matches is what a match says of a packet, read as the specification has it.
func (m *Match) matches(w *wire) bool {
	anyOf := func(n int, is func(i int) bool) bool {
		for i := range n {
			if is(i) {
				return true
			}
		}
		return n == 0
	}
	inSet := func(s *Set, a netip.Addr) bool {
		return s == nil || slices.ContainsFunc(s.Entries, func(e SetEntry) bool { return e.Prefix.Contains(a) })
	}
	has := func(r Range, v uint16) bool { return r.From <= v && v <= r.To }
	if !anyOf(len(m.VLAN), func(i int) bool { return has(m.VLAN[i], w.vlan) }) || !anyOf(len(m.Mark), func(i int) bool { return m.Mark[i] == w.mark }) {
		return false
	}
	if !w.src.IsValid() {
		return m.Families&marker.FamilyNone != 0
	}
	family := uint8(marker.FamilyIPv4)
	if w.src.Is6() {
		family = marker.FamilyIPv6
	}
	ports := (w.proto == 6 || w.proto == 17) && !w.fragment
	return m.families()&family != 0 &&
		anyOf(len(m.Src), func(i int) bool { return m.Src[i].Contains(w.src) }) && inSet(m.SrcSet, w.src) &&
		anyOf(len(m.Dst), func(i int) bool { return m.Dst[i].Contains(w.dst) }) && inSet(m.DstSet, w.dst) &&
		anyOf(len(m.Proto), func(i int) bool { return m.Proto[i] == w.proto }) &&
		anyOf(len(m.DSCP), func(i int) bool { return m.DSCP[i] == w.dscp }) &&
		(m.Fragment == 0 || (m.Fragment == marker.FragmentYes) == w.fragment) &&
		(ports || len(m.Sport)+len(m.Dport) == 0) &&
		anyOf(len(m.Sport), func(i int) bool { return has(m.Sport[i], w.sport) }) &&
		anyOf(len(m.Dport), func(i int) bool { return has(m.Dport[i], w.dport) })
}

// drawWire draws a packet that the policies of legalFile are about.
func drawWire(t *rapid.T) *wire {
	w := &wire{
		vlan:  rapid.SampledFrom([]uint16{0, 1, 99, 100, 4095}).Draw(t, "VLAN"),
		mark:  rapid.SampledFrom([]uint32{0, 5, 6, 0x105, 1<<32 - 1}).Draw(t, "mark"),
		dscp:  rapid.SampledFrom([]uint8{0, 10, 46, 63, 3}).Draw(t, "DSCP"),
		proto: rapid.SampledFrom([]uint8{1, 6, 17, 17, 47}).Draw(t, "protocol"),
		sport: rapid.SampledFrom([]uint16{0, 53, 1023, 1024, 8080}).Draw(t, "source port"),
		dport: rapid.SampledFrom([]uint16{52, 53, 53, 54}).Draw(t, "destination port"),
	}
	pick := func(addresses ...string) (netip.Addr, netip.Addr) {
		draw := func(name string) netip.Addr { return netip.MustParseAddr(rapid.SampledFrom(addresses).Draw(t, name)) }
		return draw("source"), draw("destination")
	}
	switch rapid.SampledFrom([]int{4, 4, 4, 6, 6, 0}).Draw(t, "IP") {
	case 4:
		w.src, w.dst = pick("10.0.0.1", "10.0.1.255", "10.0.2.0", "11.0.0.1", "192.0.2.1", "192.0.2.2")
	case 6:
		w.src, w.dst = pick("2001:db8::1", "2001:db8:0:100::1", "2001:db9::1", "::ffff:10.0.0.1")
	}
	w.fragment = w.src.IsValid() && rapid.IntRange(0, 3).Draw(t, "fragment") == 0
	return w
}

// A plan's rules take for each class what the file says of it.
func TestRulesMatchAsWritten(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text, f := legalFile(rt)
		p, err := parseText(text, f)
		if err != nil {
			rt.Fatal(err)
		}
		p.Flows = marker.MinFlows
		plan, err := p.Compile()
		if err != nil {
			rt.Fatal(err)
		}
		mirror, err := marker.NewMirror(plan, marker.SeedsFrom(1))
		if err != nil {
			rt.Fatal(err)
		}
		for range 20 {
			w := drawWire(rt)
			want, in := uint16(marker.NoClass), marker.Green
			for i := range p.Classes {
				if c := &p.Classes[i]; c.Match.matches(w) {
					want = uint16(i)
					if w.src.IsValid() {
						in = marker.Color(c.Arrival[0]>>w.dscp&1) | marker.Color(c.Arrival[1]>>w.dscp&1)<<1
					}
					break
				}
			}
			out := mirror.Packet(w.frame(), 1)
			if out.Class != want || want != marker.NoClass && out.Arrival != in {
				rt.Fatalf("%s\n%+v: %+v, want class %d, %v", text, *w, out, want, in)
			}
		}
	})
}
