package policy

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/tricolor-policer/tricolor/marker"
)

// The words of a match.

// parseSubnet reads a prefix, or an address, which is all of itself.
func parseSubnet(s string) (netip.Prefix, error) {
	if strings.HasPrefix(s, "@") {
		return netip.Prefix{}, fmt.Errorf("%q names a file of prefixes: it stands alone, not in a list", s)
	}
	if addr, err := netip.ParseAddr(s); err == nil && addr.Zone() == "" {
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%.70q is no prefix: write such as 10.0.0.0/8 or \"2001:db8::/32\", or an address", s)
	}
	if masked := prefix.Masked(); masked != prefix {
		return netip.Prefix{}, fmt.Errorf("%q is unclear: write %v (the prefix) or %v (the address)", s, masked, prefix.Addr())
	}
	return prefix, nil
}

// parseRange reads a number or a range of them, from-to, up to most.
func parseRange(s, what string, most uint64) (Range, error) {
	from, to, ranged := strings.Cut(s, "-")
	if !ranged {
		to = from
	}
	first, err := parseNumber(strings.TrimSpace(from), what, most)
	if err != nil {
		return Range{}, err
	}
	last, err := parseNumber(strings.TrimSpace(to), what, most)
	if err != nil {
		return Range{}, err
	}
	if first > last {
		return Range{}, fmt.Errorf("%q ends before it begins: write %d-%d", s, last, first)
	}
	return Range{uint16(first), uint16(last)}, nil
}

func parsePorts(s string) (Range, error) { return parseRange(s, "port", 65535) }

func parseVLANs(s string) (Range, error) { return parseRange(s, "VLAN ID", 4095) }

// parseProto reads an IP protocol: its name or its number.
func parseProto(s string) (uint8, error) {
	for n := range 256 {
		if s == marker.ProtoName(uint8(n)) {
			return uint8(n), nil
		}
	}
	n, err := parseNumber(s, "IP protocol", 255)
	if err != nil && strings.Trim(s, "0123456789") != "" {
		err = fmt.Errorf("%.70q is no IP protocol: say a name (%s) or a number from 0 to 255", s, strings.Join(protoNames(), ", "))
	}
	return uint8(n), err
}

// protoNames are the protocols that have a name.
func protoNames() (names []string) {
	for n := range 256 {
		if name := marker.ProtoName(uint8(n)); !strings.HasPrefix(name, "proto") {
			names = append(names, name)
		}
	}
	return names
}

func parseMark(s string) (uint32, error) {
	n, err := parseNumber(s, "mark", 1<<32-1)
	return uint32(n), err
}

// parseFamily reads an IP version, or none.
func parseFamily(s string) (uint8, error) {
	switch s {
	case "4":
		return marker.FamilyIPv4, nil
	case "6":
		return marker.FamilyIPv6, nil
	case "none":
		return marker.FamilyNone, nil
	default:
		return 0, fmt.Errorf("%q is no IP version: say 4, 6 or none (all that is not IP)", s)
	}
}

// parseBool reads true or false.
func parseBool(s string) (bool, error) {
	if s != "true" && s != "false" {
		return false, fmt.Errorf("%q is neither true nor false: say one of them", s)
	}
	return s == "true", nil
}

// families are the address families that the match takes.
func (m *Match) families() uint8 {
	if m.Families == 0 {
		return marker.FamilyIP
	}
	return m.Families
}

// portProtos are the protocols with ports.
var portProtos = []string{"tcp", "udp", "udplite", "sctp", "dccp"}

func hasPorts(proto uint8) bool {
	name := marker.ProtoName(proto)
	for _, p := range portProtos {
		if p == name {
			return true
		}
	}
	return false
}

func (m *Match) part(c *Class) part {
	at := c.part()
	if m.Places != nil {
		at.places = m.Places
	}
	return at
}

// check refuses what can never match, or cannot be met.
func (m *Match) check(f *faults, c *Class) {
	at := m.part(c)
	ports := len(m.Sport)+len(m.Dport) > 0
	if m.families()&marker.FamilyNone != 0 {
		for _, key := range []struct {
			field string
			given bool
		}{
			{"src", len(m.Src) > 0 || m.SrcSet != nil}, {"dst", len(m.Dst) > 0 || m.DstSet != nil},
			{"sport", len(m.Sport) > 0}, {"dport", len(m.Dport) > 0}, {"proto", len(m.Proto) > 0},
			{"dscp", len(m.DSCP) > 0}, {"fragment", m.Fragment != 0},
		} {
			if key.given {
				f.add(at, key.field, "what is not IP has none: leave it out, or ip: none")
			}
		}
		c.checkNone(f, at)
	}
	if ports && m.Fragment == marker.FragmentYes {
		f.add(at, "fragment", "true never matches with sport or dport: fragments have no ports (only the first holds them); give fragments a class of their own")
	}
	if ports && len(m.Proto) > 0 {
		for _, proto := range m.Proto {
			if !hasPorts(proto) {
				f.add(at, "proto", fmt.Sprintf("%s has no ports, which sport or dport want: only %s have", marker.ProtoName(proto), strings.Join(portProtos, ", ")))
			}
		}
	}
}

// checkNone refuses what cannot be done to packets that are not IP.
func (c *Class) checkNone(f *faults, match part) {
	if c.Count == marker.CountL3 {
		where := match
		field := "ip"
		if _, written := c.Places["count"]; written {
			where, field = c.part(), "count"
		}
		f.add(where, field, "none has no IP bytes, so count: l3 cannot be: count l2, l1 or packets")
	}
	for color, action := range c.Actions {
		if action.Verbs&(marker.VerbDSCP|marker.VerbCE) != 0 {
			f.add(c.part(), marker.Color(color).String(), "what ip: none matches has no DSCP and no ECN to write: say pass, drop, mark or priority")
		}
	}
}

// String returns the range as it is written.
func (r Range) String() string {
	if r.From == r.To {
		return strconv.Itoa(int(r.From))
	}
	return fmt.Sprintf("%d-%d", r.From, r.To)
}
