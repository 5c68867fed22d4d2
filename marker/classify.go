package marker

import (
	"net/netip"
	"slices"
)

// classify returns the class a packet is of: that of the first rule that matches, or NoClass. Where a
// prefix of the rule's sets brings a profile, it is p.profile, else that is NoProfile.
func classify(plan *Plan, sets []prefixTable, p *packet, mark uint32) uint32 {
	for i := range plan.Rules {
		r := &plan.Rules[i]
		if !ruleMatches(r, p, mark) {
			continue
		}
		p.profile = NoProfile
		if r.SrcSet|r.DstSet != 0 && !setsMatch(r, sets, p) {
			continue
		}
		return uint32(r.Class)
	}
	return NoClass
}

func addressMatches(m *AddressMatch, address0, address1 uint64) bool {
	return (address0&m.Mask[0]^m.Want[0])|(address1&m.Mask[1]^m.Want[1]) == 0
}

func inRange(r [2]uint16, v uint16) bool { return r[0] <= v && v <= r[1] }

// ruleMatches reports whether all of a rule holds but its prefix sets.
func ruleMatches(r *Rule, p *packet, mark uint32) bool {
	if r.Families&p.family == 0 || !inRange(r.VLAN, p.vlan) || (mark^r.Mark)&r.MarkMask != 0 {
		return false
	}
	if p.family == FamilyNone {
		return true
	}
	fragment := uint8(FragmentNo)
	if p.fragment {
		fragment = FragmentYes
	}
	if !addressMatches(&r.Src, p.key[0], p.key[1]) || !addressMatches(&r.Dst, p.key[2], p.key[3]) ||
		r.Proto[p.proto>>6]>>(p.proto&63)&1 == 0 || r.DSCP>>p.dscp&1 == 0 || r.Fragment&fragment == 0 {
		return false
	}
	return !r.Ports || p.ports && inRange(r.Sport, p.sport) && inRange(r.Dport, p.dport)
}

// setsMatch reports whether the rule's prefix sets hold the packet's addresses; p.profile is what they
// bring, the source's before the destination's.
func setsMatch(r *Rule, sets []prefixTable, p *packet) bool {
	if r.DstSet != 0 {
		profile, ok := sets[r.DstSet-1].find(p.family, p.key[2], p.key[3])
		if !ok {
			return false
		}
		p.profile = profile
	}
	if r.SrcSet != 0 {
		profile, ok := sets[r.SrcSet-1].find(p.family, p.key[0], p.key[1])
		if !ok {
			return false
		}
		if profile != NoProfile {
			p.profile = profile
		}
	}
	return true
}

// arrivalColor is the packet's arrival colour: its DSCP in the class's table.
func arrivalColor(c *Class, dscp uint8) Color {
	if c.Arrival[1]>>dscp&1 != 0 {
		return Red
	}
	return Color(c.Arrival[0] >> dscp & 1)
}

// prefixTable finds the longest prefix of a set that holds an address. The kernel has a trie for it.
type prefixTable [2][]prefixLength // IPv4, IPv6

// prefixLength holds a set's prefixes of one length.
type prefixLength struct {
	match    AddressMatch // its mask
	profiles map[[2]uint64]uint32
}

func newPrefixTables(sets []PrefixSet) []prefixTable {
	tables := make([]prefixTable, len(sets))
	for i := range sets {
		byLength := [2]map[int]map[[2]uint64]uint32{{}, {}}
		for _, e := range sets[i].Entries {
			version := 0
			if e.Prefix.Addr().Is6() {
				version = 1
			}
			profiles := byLength[version][e.Prefix.Bits()]
			if profiles == nil {
				profiles = map[[2]uint64]uint32{}
				byLength[version][e.Prefix.Bits()] = profiles
			}
			profiles[NewAddressMatch(e.Prefix).Want] = e.Profile
		}
		for version, lengths := range byLength {
			unspecified := []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}[version]
			var order []int
			for bits := range lengths {
				order = append(order, bits)
			}
			slices.Sort(order)
			slices.Reverse(order) // the longest first
			for _, bits := range order {
				tables[i][version] = append(tables[i][version], prefixLength{
					match:    NewAddressMatch(netip.PrefixFrom(unspecified, bits)),
					profiles: lengths[bits],
				})
			}
		}
	}
	return tables
}

func (t *prefixTable) find(family uint8, address0, address1 uint64) (profile uint32, ok bool) {
	version := 0
	if family == FamilyIPv6 {
		version = 1
	}
	for i := range t[version] {
		l := &t[version][i]
		profile, ok = l.profiles[[2]uint64{address0 & l.match.Mask[0], address1 & l.match.Mask[1]}]
		if ok {
			return profile, true
		}
	}
	return NoProfile, false
}
