// Package policy turns what a person wrote into a marker.Plan.
//
// A Policy is that writing with its units resolved, wherever it came from: Load reads a file, Words a
// command line's flags. Compile checks it and gives the Plan that the loader and the mirror take.
package policy

import (
	"net/netip"

	"github.com/tricolor-policer/tricolor/marker"
)

// What stands where nothing is written.
const (
	DefaultFlows = 1_000_000 // bucket slots, before rounding up
	DefaultClass = "default" // name of the class, and of its profile, of a command line
)

// Policy is the whole of what a person wrote.
type Policy struct {
	Flows     uint64        // bucket slots; rounded up to a power of two, at least marker.MinFlows
	Malformed marker.Action // drop or pass
	Profiles  []Profile
	Classes   []Class // in order: the first that matches a packet takes it
	Places    Places  // of the file's keys
}

// Profile is a meter's parameters under a name.
type Profile struct {
	Name    string
	Packets bool // rates and bursts count packets, not bytes
	marker.Params
	Places Places // of the parameters' values
}

// Class is packets treated alike: which they are, what they cost, whose buckets they take, what is done
// to them.
type Class struct {
	Name     string
	Match    Match
	Count    marker.Count
	Overhead int64     // added to each packet's cost, in Count's unit
	Arrival  [2]uint64 // as in marker.Class
	Meters   []Meter   // a chain, narrow to wide
	Actions  [marker.Colors]marker.Action
	Places   Places // of the class's keys
}

// Meter is one meter of a class's chain.
type Meter struct {
	Profile string // name of a Profile
	Per     marker.Per
	Prefix  [2]int // leading bits of an IPv4 and an IPv6 address that count (PerSrc, PerDst)
	Places  Places // of the meter's keys
}

// Match says which packets are of a class: all that is given must hold. Of a list, any may. The zero
// Match takes every IP packet.
type Match struct {
	Src, Dst       []netip.Prefix
	SrcSet, DstSet *Set // in place of Src or Dst
	Sport, Dport   []Range
	VLAN           []Range // of the outermost tag; an untagged packet is of VLAN 0
	Proto          []uint8 // IP protocols
	DSCP           []uint8 // on arrival
	Mark           []uint32
	Families       uint8  // bits of marker.FamilyIP and FamilyNone; 0: every IP packet
	Fragment       uint8  // marker.FragmentYes or FragmentNo; 0: either
	Places         Places // of the match's keys
}

// Range is a port or VLAN range, both ends included.
type Range struct{ From, To uint16 }

// profile returns the profile of a name, or nil.
func (p *Policy) profile(name string) *Profile {
	for i := range p.Profiles {
		if p.Profiles[i].Name == name {
			return &p.Profiles[i]
		}
	}
	return nil
}

// class returns the class of a name, or nil.
func (p *Policy) class(name string) *Class {
	for i := range p.Classes {
		if p.Classes[i].Name == name {
			return &p.Classes[i]
		}
	}
	return nil
}
