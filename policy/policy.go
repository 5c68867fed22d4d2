// Package policy turns what a person wrote into a marker.Plan.
//
// A Policy is that writing with its units resolved, wherever it came from: Words makes one of a
// command line's flags. Compile checks it and gives the Plan that the loader and the mirror take.
package policy

import "github.com/tricolor-policer/tricolor/marker"

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
	Classes   []Class
}

// Profile is a meter's parameters under a name.
type Profile struct {
	Name    string
	Packets bool // rates and bursts count packets, not bytes
	marker.Params
}

// Class is packets treated alike: what they cost, whose buckets they take, what is done to them.
type Class struct {
	Name     string
	Count    marker.Count
	Overhead int64     // added to each packet's cost, in Count's unit
	Arrival  [2]uint64 // as in marker.Class
	Meters   []Meter   // a chain, narrow to wide
	Actions  [marker.Colors]marker.Action
}

// Meter is one meter of a class's chain.
type Meter struct {
	Profile string // name of a Profile
	Per     marker.Per
	Prefix  [2]int // leading bits of an IPv4 and an IPv6 address that count (PerSrc, PerDst)
}

// profile returns the profile of a name, or nil.
func (p *Policy) profile(name string) *Profile {
	for i := range p.Profiles {
		if p.Profiles[i].Name == name {
			return &p.Profiles[i]
		}
	}
	return nil
}
