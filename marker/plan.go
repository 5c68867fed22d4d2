package marker

import (
	"errors"
	"fmt"
	"math/bits"
)

// What a policy holds at most.
const (
	MaxClasses = 64
	MaxChain   = 3 // meters in a class's chain
	SetSlots   = 4
	MinFlows   = 64
	MaxFlows   = 1 << 26 // bucket slots: 8 GiB
	SlotBytes  = 128
	NoSet      = ^uint32(0)
	NoClass    = 0xffff
	MaxName    = 63 // bytes of a class's name
)

// Count says what a packet costs.
type Count uint8

// What a packet costs.
const (
	CountL3      Count = iota // bytes of the IP packet
	CountL2                   // bytes of the frame without FCS, at least 60 on Ethernet
	CountL1                   // l2 + 24
	CountPackets              // one
)

var countNames = []string{"l3", "l2", "l1", "packets"}

// String returns the word of the policy.
func (c Count) String() string {
	if int(c) < len(countNames) {
		return countNames[c]
	}
	return fmt.Sprintf("count(%d)", uint8(c))
}

// ParseCount reads what a packet costs.
func ParseCount(s string) (Count, error) {
	for c, name := range countNames {
		if s == name {
			return Count(c), nil
		}
	}
	return 0, fmt.Errorf("%q is no unit to count: say l3 (IP bytes), l2 (frame bytes), l1 (with preamble and gap) or packets", s)
}

// Verb is what is done to a packet, a set of bits; none is pass.
type Verb uint8

// What is done to a packet.
const (
	VerbDrop     Verb = 1 << iota
	VerbDSCP          // write Action.DSCP; with VerbCE, where the packet is not ECN-capable
	VerbCE            // write CE if the packet is ECN-capable
	VerbMark          // set the skb's mark to Action.Mark
	VerbPriority      // set the skb's priority to Action.Priority
)

// Action is what is done to packets of one colour.
type Action struct {
	Verbs    Verb
	DSCP     uint8
	Mark     uint32
	Priority uint32
}

// String returns the verbs as in a policy's flags: pass, drop, dscp=af11.
func (a Action) String() string {
	switch {
	case a.Verbs&VerbDrop != 0:
		return "drop"
	case a.Verbs&VerbDSCP != 0:
		return "dscp=" + DSCPName(a.DSCP)
	default:
		return "pass"
	}
}

// Meter is one meter of a class's chain, compiled: whose bucket, by which profile.
type Meter struct {
	Per      Per
	Prefix   [2]uint8  // leading bits of an IPv4 and an IPv6 address that count (PerSrc, PerDst)
	Family   uint16    // number in the key: of this class, position, Per, prefixes and unit, and of no other ever
	Mask     [2]Key    // the parts of a packet's key that make the bucket's: IPv4, IPv6
	ID       [2]uint64 // kind and class, in place for the key's last word: IPv4, IPv6
	Profile  uint32    // index in Plan.Profiles
	Reserved uint32    // set of the bucket, from PerClass on
}

// NewMeter compiles whose bucket a packet takes: family and position number the buckets, per says who
// shares one, prefix how many leading bits of an IPv4 and an IPv6 address count (PerSrc, PerDst).
func NewMeter(family uint16, position int, per Per, prefix [2]int) Meter {
	m := Meter{Per: per, Family: family, Prefix: [2]uint8{uint8(prefix[0]), uint8(prefix[1])}}
	for version := range m.Mask {
		var mask KeyFields
		addr := prefixMask(prefix[version])
		kind := uint8(per) | uint8(position)<<kindPositionShift
		if version == 1 && per <= PerDst {
			kind |= kindIPv6
		}
		switch per {
		case PerFlow:
			mask.Src, mask.Dst = prefixMask(128), prefixMask(128)
			mask.Sport, mask.Dport = [2]byte{0xff, 0xff}, [2]byte{0xff, 0xff}
			mask.Proto = 0xff
		case PerSrc:
			mask.Src = addr
		case PerDst:
			mask.Dst = addr
		}
		m.Mask[version] = mask.Key()
		id := KeyFields{Kind: kind, Class: family}
		m.ID[version] = id.Key()[4]
	}
	return m
}

// key is the key of a packet's bucket.
func (m *Meter) key(p *packet) Key {
	mask := &m.Mask[p.ipv6]
	return Key{p.key[0] & mask[0], p.key[1] & mask[1], p.key[2] & mask[2], p.key[3] & mask[3],
		p.key[4]&mask[4] | m.ID[p.ipv6]}
}

// prefixMask is an address mask of n leading bits.
func prefixMask(n int) (mask [16]byte) {
	for i := 0; i < n; i++ {
		mask[i/8] |= 0x80 >> (i % 8)
	}
	return mask
}

// Class is a compiled class: packets treated alike.
type Class struct {
	Name     string
	Meters   []Meter // a chain, narrow to wide
	Actions  [Colors]Action
	Arrival  [2]uint64 // bit d: DSCP d arrives yellow [0], red [1]; else green
	Overhead int64     // added to each packet's cost
	Count    Count
	Stats    uint8 // index of its counters, the same through changes of policy
}

// DefaultArrival is the arrival table of AF: AFx1 green, AFx2 yellow, AFx3 red, all else green.
func DefaultArrival() (a [2]uint64) {
	for class := 1; class <= 4; class++ {
		a[0] |= 1 << (class<<3 | 2<<1)
		a[1] |= 1 << (class<<3 | 3<<1)
	}
	return a
}

// Stage says where the buckets of a chain position stand among the sets.
type Stage struct {
	Base uint32
	Mask uint32 // sets - 1
}

// Geometry is a table's shape. It is fixed when the table is made.
type Geometry struct {
	Stages   [MaxChain]Stage
	Reserved uint32 // first reserved set
	Sets     uint32 // all of them
	Profiles uint32 // room for profiles in one copy of the policy
}

// NewGeometry returns the shape of a table of at least flows slots, rounded up to a power of two and
// to MinFlows, with reserved more sets, and room for profiles.
func NewGeometry(flows uint64, reserved, profiles int) (Geometry, error) {
	if flows > MaxFlows {
		return Geometry{}, fmt.Errorf("flows: %d bucket slots are too many: at most %d (%d GiB)",
			flows, MaxFlows, uint64(MaxFlows)*SlotBytes>>30)
	}
	if flows < MinFlows {
		flows = MinFlows
	}
	sets := uint32(1) << bits.Len64((flows-1)/SetSlots)
	g := Geometry{Reserved: sets, Sets: sets + uint32(reserved), Profiles: uint32(profiles)}
	g.Stages[0].Mask = sets - 1
	return g, nil
}

// Flows returns the bucket slots of the table.
func (g Geometry) Flows() uint64 { return uint64(g.Reserved) * SetSlots }

// Bytes returns the memory of the table.
func (g Geometry) Bytes() uint64 { return uint64(g.Sets) * SetSlots * SlotBytes }

// Plan is a compiled policy: what the loader writes to the kernel's maps, and what the mirror works
// with.
type Plan struct {
	Generation uint32
	Since      uint64 // ns: when it took over from the generation before
	Geometry   Geometry
	Malformed  Action // drop or pass
	Rules      []Rule
	Sets       []PrefixSet
	Classes    []Class
	Profiles   []Profile
	NextFamily uint16 // the first Meter.Family that was never used
}

// ErrPlan is what every refusal of Check wraps: a plan that breaks its own bounds.
var ErrPlan = errors.New("plan")

// Check holds the plan to its bounds, so that neither side meets an index it cannot follow.
func (p *Plan) Check() error {
	g := p.Geometry
	switch {
	case len(p.Classes) > MaxClasses:
		return fmt.Errorf("%w: %d classes: at most %d", ErrPlan, len(p.Classes), MaxClasses)
	case len(p.Profiles) > int(g.Profiles):
		return fmt.Errorf("%w: %d profiles: room for %d", ErrPlan, len(p.Profiles), g.Profiles)
	case g.Sets < g.Reserved || uint64(g.Stages[0].Base)+uint64(g.Stages[0].Mask) >= uint64(g.Reserved):
		return fmt.Errorf("%w: the table's sets do not fit: %+v", ErrPlan, g)
	}
	reserved := func(set uint32) bool { return set >= g.Reserved && set < g.Sets }
	for i, profile := range p.Profiles {
		if !reserved(profile.Overflow) {
			return fmt.Errorf("%w: profile %d: overflow set %d is not reserved", ErrPlan, i, profile.Overflow)
		}
	}
	for _, c := range p.Classes {
		if len(c.Meters) != 1 {
			return fmt.Errorf("%w: class %s: %d meters: this version takes one", ErrPlan, c.Name, len(c.Meters))
		}
		if len(c.Name) > MaxName {
			return fmt.Errorf("%w: class %s: the name is too long: at most %d bytes", ErrPlan, c.Name, MaxName)
		}
		for _, m := range c.Meters {
			if int(m.Profile) >= len(p.Profiles) {
				return fmt.Errorf("%w: class %s: no profile %d", ErrPlan, c.Name, m.Profile)
			}
			if m.Per >= PerClass && !reserved(m.Reserved) {
				return fmt.Errorf("%w: class %s: set %d is not reserved", ErrPlan, c.Name, m.Reserved)
			}
		}
	}
	return nil
}
