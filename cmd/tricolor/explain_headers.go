package main

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/tricolor-policer/tricolor/internal/capture"
	"github.com/tricolor-policer/tricolor/internal/units"
	"github.com/tricolor-policer/tricolor/marker"
	"github.com/tricolor-policer/tricolor/pcaptest"
)

// explainHeaders says how the headers were read.
func explainHeaders(f facts, x *pcaptest.Explained) {
	h := &x.Headers
	f.add("frame", "%s on the wire, %s captured, link type %v%s", size(x.Packet.Length), size(len(x.Packet.Data)), x.Packet.Link, linkWords(x))
	for i, tag := range h.Tags {
		name := "tag"
		if i > 0 {
			name = ""
		}
		f.add(name, "%s", tagWords(tag))
	}
	if h.PPPoE != nil {
		f.add("PPPoE", "session %d, PPP protocol 0x%04x", h.PPPoE.Session, h.PPPoE.Protocol)
	}
	if h.Reading != marker.ReadIP {
		name := "not IP"
		if h.Reading == marker.ReadMalformed {
			name = "malformed"
		}
		f.add(name, "%s", h.Why)
		return
	}
	length := size(int(h.IPLength))
	if !h.LengthField {
		length += ", as the frame is long: its length field says 0"
	}
	f.add(fmt.Sprintf("IPv%d", h.Version), "%v > %v, %s, header %s at byte %d", h.Src, h.Dst, length, size(int(h.HeaderLength)), h.At)
	if len(h.Extensions) > 0 {
		var names []string
		for _, header := range h.Extensions {
			names = append(names, marker.ExtensionName(header))
		}
		text := strings.Join(names, ", ")
		if h.LongChain {
			text += ": more than are walked"
		}
		f.add("extension", "%s", text)
	}
	f.add("DSCP", "%s, ECN %s", dscpWords(h.DSCP), ecnNames[h.ECN])
	if h.Fragment {
		f.add("fragment", "%s", fragmentWords(h))
	}
	transport := fmt.Sprintf("%d > %d", h.Sport, h.Dport)
	if !h.Ports {
		transport = "no ports: " + h.NoPorts
	}
	f.add(marker.ProtoName(h.Proto), "%s", transport)
	if h.GSOSize > 0 {
		f.add("segments", "a super-packet, cut into segments of %d B of payload", h.GSOSize)
	}
}

// fragmentWords says which part of its datagram a fragment is.
func fragmentWords(h *marker.Headers) string {
	switch {
	case h.More:
		return fmt.Sprintf("at byte %s of its datagram, more follow", units.FormatCount(uint64(h.Offset)))
	case h.Offset == 0:
		return "atomic: its datagram's only one"
	}
	return fmt.Sprintf("at byte %s of its datagram, the last", units.FormatCount(uint64(h.Offset)))
}

func size(bytes int) string { return units.FormatCount(uint64(bytes)) + " B" }

// linkWords says where the packet begins that a device without link headers would see.
func linkWords(x *pcaptest.Explained) string {
	if x.Packet.Link == capture.LinkEthernet {
		return ""
	}
	if n := x.Packet.Length - int(x.Headers.Length); n > 0 {
		return fmt.Sprintf("; read from behind its header of %d B on", n)
	}
	return ""
}

func tagWords(t marker.Tag) string {
	name := "offloaded"
	switch t.EtherType {
	case 0x8100:
		name = "802.1Q"
	case 0x88a8:
		name = "802.1ad"
	}
	text := fmt.Sprintf("%s VID %d", name, t.VID())
	if priority := t.TCI >> 13; priority > 0 {
		text += fmt.Sprintf(", priority %d", priority)
	}
	if t.TCI&0x1000 != 0 {
		text += ", drop eligible"
	}
	return text
}

// ruleWords says what a rule asks.
func ruleWords(plan *marker.Plan, r *marker.Rule) string {
	every := marker.AnyRule(0)
	var words []string
	add := func(format string, args ...any) { words = append(words, fmt.Sprintf(format, args...)) }
	switch r.Families {
	case marker.FamilyIP:
	case marker.FamilyIPv4:
		add("ip 4")
	case marker.FamilyIPv6:
		add("ip 6")
	case marker.FamilyNone:
		add("ip none")
	}
	address := func(name string, m marker.AddressMatch, set uint32) {
		if m.Mask != (marker.AddressMatch{}).Mask {
			add("%s %v", name, matchPrefix(m, r.Families))
		}
		if set > 0 {
			add("%s in %s", name, plan.Sets[set-1].Name)
		}
	}
	address("src", r.Src, r.SrcSet)
	address("dst", r.Dst, r.DstSet)
	if r.Proto != every.Proto && r.Families != marker.FamilyNone {
		add("proto %s", members(256, func(i int) bool { return r.Proto[i>>6]>>(i&63)&1 != 0 }, func(i int) string { return marker.ProtoName(uint8(i)) }))
	}
	ports := func(name string, p [2]uint16) {
		if p != every.Sport {
			add("%s %s", name, span(p))
		}
	}
	ports("sport", r.Sport)
	ports("dport", r.Dport)
	if r.DSCP != every.DSCP && r.Families != marker.FamilyNone {
		add("dscp %s", members(64, func(i int) bool { return r.DSCP>>i&1 != 0 }, func(i int) string { return marker.DSCPName(uint8(i)) }))
	}
	if r.VLAN != every.VLAN {
		add("vlan %s", span(r.VLAN))
	}
	switch r.Fragment {
	case marker.FragmentYes:
		add("fragment true")
	case marker.FragmentNo:
		add("fragment false")
	}
	if r.MarkMask != 0 {
		add("mark %d", r.Mark)
	}
	if len(words) == 0 {
		return "every IP packet"
	}
	return strings.Join(words, ", ")
}

func span(r [2]uint16) string {
	if r[0] == r[1] {
		return fmt.Sprint(r[0])
	}
	return fmt.Sprintf("%d-%d", r[0], r[1])
}

// members lists a set's members, the first few of many.
func members(n int, has func(int) bool, name func(int) string) string {
	const most = 8
	var names []string
	for i := range n {
		if has(i) {
			if len(names) == most {
				names = append(names, "…")
				break
			}
			names = append(names, name(i))
		}
	}
	return strings.Join(names, " ")
}

// matchPrefix is the prefix of an address match.
func matchPrefix(m marker.AddressMatch, families uint8) netip.Prefix {
	want, mask := marker.Key{m.Want[0], m.Want[1]}, marker.Key{m.Mask[0], m.Mask[1]}
	bits := 0
	for _, b := range mask.Fields().Src {
		for ; b != 0; b <<= 1 {
			bits++
		}
	}
	fields := want.Fields()
	if families == marker.FamilyIPv4 {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte(fields.Src[:4])), bits)
	}
	return netip.PrefixFrom(netip.AddrFrom16(fields.Src), bits)
}
