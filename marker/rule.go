package marker

import "net/netip"

// MaxRules is how many rules a plan holds: a class takes one for each combination of the prefixes, port
// ranges, VLANs and marks that it lists.
const MaxRules = 256

// AddressMatch is a prefix, as the two words of a key's address.
type AddressMatch struct {
	Want, Mask [2]uint64 // address & Mask == Want
}

// NewAddressMatch returns the match of a prefix; the zero prefix matches every address.
func NewAddressMatch(p netip.Prefix) AddressMatch {
	if !p.IsValid() {
		return AddressMatch{}
	}
	var want KeyFields
	mask := KeyFields{Src: prefixMask(p.Bits())}
	copy(want.Src[:], p.Masked().Addr().AsSlice())
	w, m := want.Key(), mask.Key()
	return AddressMatch{Want: [2]uint64{w[0], w[1]}, Mask: [2]uint64{m[0], m[1]}}
}

// Families that a rule takes, a set of bits.
const (
	FamilyIPv4 = 1 << iota
	FamilyIPv6
	FamilyNone // what is not IP
	FamilyIP   = FamilyIPv4 | FamilyIPv6
)

// Fragmentation that a rule takes, a set of bits.
const (
	FragmentNo  = 1 << iota // packets that are no fragment
	FragmentYes             // fragments, the first included
	FragmentAny = FragmentNo | FragmentYes
)

// Rule is one way to match a class: all of it must hold. A class's rules stand together, in the order of
// classes; the first rule that matches decides.
type Rule struct {
	Src, Dst       AddressMatch
	Proto          [4]uint64 // bit p: protocol p is taken; for FamilyNone not looked at
	DSCP           uint64    // bit d: DSCP d is taken; for FamilyNone not looked at
	Mark           uint32
	MarkMask       uint32    // 0: any mark; else ^0
	SrcSet, DstSet uint32    // number of a prefix set, from 1, that must hold the address; 0 none
	Sport, Dport   [2]uint16 // from, to; host order
	Ports          bool      // a packet without ports, or a fragment, does not match
	VLAN           [2]uint16 // from, to; an untagged packet is of VLAN 0
	Families       uint8
	Fragment       uint8
	Class          uint16
}

// AnyRule is the rule of a class without match keys: it takes every IP packet.
func AnyRule(class uint16) Rule {
	all := ^uint64(0)
	return Rule{
		Proto: [4]uint64{all, all, all, all}, DSCP: all, Sport: [2]uint16{0, 0xffff}, Dport: [2]uint16{0, 0xffff},
		VLAN: [2]uint16{0, 0xfff}, Families: FamilyIP, Fragment: FragmentAny, Class: class,
	}
}

// PrefixSet is a large set of prefixes; the longest that holds an address is its answer.
type PrefixSet struct {
	Name    string // of the file it came from
	Entries []PrefixEntry
}

// PrefixEntry is a prefix and, where Profile is not NoProfile, the profile (index in Plan.Profiles) that
// the first meter of the class uses for it.
type PrefixEntry struct {
	Prefix  netip.Prefix
	Profile uint32
}

// NoProfile says that a prefix brings no profile of its own.
const NoProfile = ^uint32(0)
