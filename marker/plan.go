package marker

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"slices"
)

// What a policy holds at most.
const (
	MaxClasses  = 64
	MaxChain    = 3              // meters in a class's chain
	MaxStats    = 2 * MaxClasses // counters: a change keeps the old ones and gives new ones
	SetSlots    = 4
	MinFlows    = 64
	MaxFlows    = 1 << 26 // bucket slots: 8 GiB
	SlotBytes   = 128
	NoSet       = ^uint32(0)
	NoClass     = 0xffff
	MaxName     = 63     // bytes of a class's name
	MaxOverhead = 65_535 // bytes, either way
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
		kind := uint8(per)
		if per != PerInterface { // that one is its profile's alone
			kind |= uint8(position) << kindPositionShift
		}
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

// key sets k to the key of a packet's bucket. In place: a copy of what was just written in words would wait for
// them.
func (m *Meter) key(p *packet, k *Key) {
	version := 0
	if p.family == FamilyIPv6 {
		version = 1
	}
	mask := &m.Mask[version]
	for i := range k {
		k[i] = p.key[i] & mask[i]
	}
	k[4] |= m.ID[version]
	switch m.Per {
	case PerVLAN:
		k[4] |= transport(networkOrder(p.vlan), 0)
	case PerDSCP:
		k[4] |= transport(networkOrder(uint16(p.dscp)), 0)
	}
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

// NewGeometry returns the shape of a table of at least flows slots for each chain position that is keyed
// (the least there is for the others), rounded up to a power of two and to MinFlows, with room for
// profiles.
func NewGeometry(flows uint64, keyed [MaxChain]bool, profiles int) (Geometry, error) {
	if flows > MaxFlows {
		return Geometry{}, fmt.Errorf("flows: %d bucket slots are too many: at most %d (%d GiB)",
			flows, MaxFlows, uint64(MaxFlows)*SlotBytes>>30)
	}
	flows = max(flows, MinFlows)
	g := Geometry{Profiles: uint32(profiles)}
	for i := range g.Stages {
		sets := uint32(1) << bits.Len64((MinFlows-1)/SetSlots)
		if keyed[i] {
			sets = uint32(1) << bits.Len64((flows-1)/SetSlots)
		}
		g.Stages[i] = Stage{Base: g.Reserved, Mask: sets - 1}
		g.Reserved += sets
	}
	g.Sets = g.Reserved + (1+MaxChain)*g.Profiles
	return g, nil
}

// Position is the chain position whose keys share a set, or -1 where it is reserved.
func (g Geometry) Position(set uint32) int {
	for i, s := range g.Stages {
		if set >= s.Base && set <= s.Base+s.Mask {
			return i
		}
	}
	return -1
}

// ReservedSet is the set of the bucket that a compiled profile has for itself, from PerClass on.
func (g Geometry) ReservedSet(profile uint32) uint32 { return g.Reserved + profile }

// OverflowSet is the set of a compiled profile's overflow bucket. Later positions stand behind earlier
// ones, and all behind the reserved sets: that is the order of locks.
func (g Geometry) OverflowSet(position int, profile uint32) uint32 {
	return g.Reserved + uint32(1+position)*g.Profiles + profile
}

// Flows returns the bucket slots of the first chain position.
func (g Geometry) Flows() uint64 {
	if g.Sets == 0 {
		return 0
	}
	return (uint64(g.Stages[0].Mask) + 1) * SetSlots
}

// Slots returns all bucket slots that keys share.
func (g Geometry) Slots() uint64 { return uint64(g.Reserved) * SetSlots }

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
	case len(p.Rules) > MaxRules:
		return fmt.Errorf("%w: %d rules: at most %d", ErrPlan, len(p.Rules), MaxRules)
	case len(p.Profiles) > int(g.Profiles):
		return fmt.Errorf("%w: %d profiles: room for %d", ErrPlan, len(p.Profiles), g.Profiles)
	}
	end := uint64(0)
	for _, s := range g.Stages {
		if uint64(s.Base) != end || s.Mask&(s.Mask+1) != 0 || s.Mask == 0 {
			return fmt.Errorf("%w: the table's sets do not fit: %+v", ErrPlan, g)
		}
		end += uint64(s.Mask) + 1
	}
	if end != uint64(g.Reserved) || uint64(g.Sets) != end+(1+MaxChain)*uint64(g.Profiles) {
		return fmt.Errorf("%w: the table's sets do not fit: %+v", ErrPlan, g)
	}
	profile := func(i uint32, what string) error {
		if i != NoProfile && int(i) >= len(p.Profiles) {
			return fmt.Errorf("%w: %s: no profile %d", ErrPlan, what, i)
		}
		return nil
	}
	for i, r := range p.Rules {
		if int(r.Class) >= len(p.Classes) || int(r.SrcSet) > len(p.Sets) || int(r.DstSet) > len(p.Sets) {
			return fmt.Errorf("%w: rule %d: no class %d, or no prefix set %d or %d", ErrPlan, i, r.Class, r.SrcSet, r.DstSet)
		}
	}
	for _, s := range p.Sets {
		for _, e := range s.Entries {
			if err := profile(e.Profile, s.Name); err != nil {
				return err
			}
			if e.Profile != NoProfile && p.Profiles[e.Profile].Overflow != g.OverflowSet(0, e.Profile) {
				return fmt.Errorf("%w: %s: profile %d is not of a first meter", ErrPlan, s.Name, e.Profile)
			}
		}
	}
	for i := range p.Profiles {
		set := p.Profiles[i].Overflow
		own := false
		for position := range MaxChain {
			own = own || set == g.OverflowSet(position, uint32(i))
		}
		if !own {
			return fmt.Errorf("%w: profile %d: overflow set %d is not its own", ErrPlan, i, set)
		}
	}
	families := map[uint32]uint16{}
	for _, c := range p.Classes {
		if len(c.Meters) == 0 || len(c.Meters) > MaxChain {
			return fmt.Errorf("%w: class %s: %d meters: from 1 to %d", ErrPlan, c.Name, len(c.Meters), MaxChain)
		}
		if len(c.Name) > MaxName {
			return fmt.Errorf("%w: class %s: the name is too long: at most %d bytes", ErrPlan, c.Name, MaxName)
		}
		if c.Overhead < -MaxOverhead || c.Overhead > MaxOverhead {
			return fmt.Errorf("%w: class %s: overhead %d: at most %d", ErrPlan, c.Name, c.Overhead, MaxOverhead)
		}
		for _, a := range c.Actions {
			if a.DSCP > 63 {
				return fmt.Errorf("%w: class %s: DSCP %d: at most 63", ErrPlan, c.Name, a.DSCP)
			}
		}
		if c.Stats >= MaxStats {
			return fmt.Errorf("%w: class %s: no counters %d", ErrPlan, c.Name, c.Stats)
		}
		for i, m := range c.Meters {
			if m.Profile == NoProfile || int(m.Profile) >= len(p.Profiles) || p.Profiles[m.Profile].Gone {
				return fmt.Errorf("%w: class %s: no profile %d", ErrPlan, c.Name, m.Profile)
			}
			if family, ok := families[m.Profile]; ok && family != m.Family {
				return fmt.Errorf("%w: class %s: profile %d is of other buckets too", ErrPlan, c.Name, m.Profile)
			}
			families[m.Profile] = m.Family
			if m.Per >= PerClass && m.Reserved != g.ReservedSet(m.Profile) {
				return fmt.Errorf("%w: class %s: set %d is not reserved for profile %d", ErrPlan, c.Name, m.Reserved, m.Profile)
			}
			if m.Per < PerClass && p.Profiles[m.Profile].Overflow != g.OverflowSet(i, m.Profile) {
				return fmt.Errorf("%w: class %s: the overflow bucket of meter %d is not of its position", ErrPlan, c.Name, i+1)
			}
			for j := range c.Meters[:i] {
				if m.Per >= PerClass && c.Meters[j].Per >= PerClass && m.Reserved == c.Meters[j].Reserved {
					return fmt.Errorf("%w: class %s: meters %d and %d have the same bucket", ErrPlan, c.Name, j+1, i+1)
				}
			}
		}
	}
	for i := range p.Rules {
		if err := p.checkLines(&p.Rules[i]); err != nil {
			return err
		}
	}
	return nil
}

// checkLines holds the rule's prefix sets to the buckets of their class: where lines bring profiles, no two of
// them may share a bucket.
func (p *Plan) checkLines(r *Rule) error {
	first := &p.Classes[r.Class].Meters[0]
	for per, set := range map[Per]uint32{PerSrc: r.SrcSet, PerDst: r.DstSet} {
		if set == 0 {
			continue
		}
		for _, e := range p.Sets[set-1].Entries {
			version := 0
			if e.Prefix.Addr().Is6() {
				version = 1
			}
			narrow := first.Per == PerFlow || first.Per == per && int(first.Prefix[version]) >= e.Prefix.Bits()
			if e.Profile != NoProfile && !narrow {
				return fmt.Errorf("%w: class %s: %v brings a profile, but shares a bucket with others", ErrPlan, p.Classes[r.Class].Name, e.Prefix)
			}
		}
	}
	return nil
}

// OverflowIDs returns, for each profile, the last word of its overflow bucket's key, and whether it has one: its
// buckets are keyed.
func (p *Plan) OverflowIDs() (ids []uint64, keyed []bool) {
	ids, keyed = make([]uint64, len(p.Profiles)), make([]bool, len(p.Profiles))
	for i := range p.Classes {
		for _, m := range p.Classes[i].Meters {
			if m.Per < PerClass {
				ids[m.Profile], keyed[m.Profile] = m.ID[0], true
			}
		}
	}
	for i := range p.Rules {
		r := &p.Rules[i]
		first := &p.Classes[r.Class].Meters[0]
		for _, set := range []uint32{r.SrcSet, r.DstSet} {
			if set == 0 || first.Per >= PerClass {
				continue
			}
			for _, e := range p.Sets[set-1].Entries {
				if e.Profile != NoProfile {
					ids[e.Profile], keyed[e.Profile] = first.ID[0], true
				}
			}
		}
	}
	return ids, keyed
}

// LockOrder returns the positions of a class's meters with a reserved set, by ascending set.
func (c *Class) LockOrder() []int {
	var order []int
	for i, m := range c.Meters {
		if m.Per >= PerClass {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(c.Meters[a].Reserved, c.Meters[b].Reserved) })
	return order
}
