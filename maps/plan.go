package maps

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/tricolor-policer/tricolor/bpf"
	"github.com/tricolor-policer/tricolor/marker"
)

// WritePlan writes the plan beside the one in force, into the copy of its generation's parity. Nothing
// sees it before Switch. The copy must not be in force, nor have been lately: see Settled.
func (m *Maps) WritePlan(p *marker.Plan) error {
	if err := p.Check(); err != nil {
		return err
	}
	parity := p.Generation & 1
	if err := m.writePrefixes(p, parity); err != nil {
		return err
	}
	ids, keyed := p.OverflowIDs()
	for i := range p.Geometry.Profiles {
		profile := bpf.PolicerProfile{Gone: 1}
		if int(i) < len(p.Profiles) {
			profile = profileToKernel(&p.Profiles[i])
			profile.Id, profile.Keyed = ids[i], flag(keyed[i])
		}
		if err := put(m.Profiles, parity*p.Geometry.Profiles+i, &profile); err != nil {
			return err
		}
	}
	policy := bpf.PolicerPolicy{
		Generation: p.Generation,
		Since:      p.Since,
		Classes:    uint16(len(p.Classes)),
		Rules:      uint16(len(p.Rules)),
		Malformed:  uint8(p.Malformed.Verbs),
		NextFamily: p.NextFamily,
	}
	for i := range p.Classes {
		classToKernel(&p.Classes[i], &policy, i)
	}
	for i := range p.Rules {
		r, k := &p.Rules[i], &policy.Rule[i]
		k.Src.Want, k.Src.Mask = r.Src.Want, r.Src.Mask
		k.Dst.Want, k.Dst.Mask = r.Dst.Want, r.Dst.Mask
		k.Proto, k.Dscp, k.Mark, k.MarkMask = r.Proto, r.DSCP, r.Mark, r.MarkMask
		k.SrcSet, k.DstSet, k.Sport, k.Dport, k.Vlan = r.SrcSet, r.DstSet, r.Sport, r.Dport, r.VLAN
		k.Class, k.Families, k.Fragment, k.Ports = r.Class, r.Families, r.Fragment, flag(r.Ports)
		k.Any = flag(*r == marker.AnyRule(r.Class))
	}
	return put(m.Policies, parity, &policy)
}

func classToKernel(c *marker.Class, policy *bpf.PolicerPolicy, i int) {
	k := &policy.Class[i]
	k.Chain, k.Count, k.Stats = uint8(len(c.Meters)), uint8(c.Count), c.Stats
	k.Overhead, k.Arrival = c.Overhead, c.Arrival
	k.Order = [marker.MaxChain]uint8{0xff, 0xff, 0xff}
	for at, position := range c.LockOrder() {
		k.Order[at] = uint8(position)
	}
	copy(k.Name[:], c.Name)
	for color, a := range c.Actions {
		ka := &k.Actions[color]
		ka.Verbs, ka.Dscp, ka.Mark, ka.Priority = uint8(a.Verbs), a.DSCP, a.Mark, a.Priority
	}
	for j, meter := range c.Meters {
		km := &k.Meters[j]
		km.Mask[0].Word, km.Mask[1].Word = meter.Mask[0], meter.Mask[1]
		km.Id, km.Profile, km.Reserved = meter.ID, meter.Profile, meter.Reserved
		km.Per, km.Family, km.Prefix, km.Position = uint8(meter.Per), meter.Family, meter.Prefix, uint8(j)
	}
}

// Switch puts the plan of a generation in force, in one go; past deadline (ns, 0 none) the copy before it
// is in force again.
func (m *Maps) Switch(generation uint32, deadline uint64) error {
	return m.control(func(word *uint64) {
		atomic.StoreUint64(word, deadline<<1|uint64(generation&1))
	})
}

// InForce tells which copy was put in force last, and its deadline (ns; 0 none).
func (m *Maps) InForce() (parity uint32, deadline uint64, err error) {
	err = m.control(func(word *uint64) {
		w := atomic.LoadUint64(word)
		parity, deadline = uint32(w&1), w>>1
	})
	return parity, deadline, err
}

func (m *Maps) control(f func(word *uint64)) error {
	memory, err := unix.Mmap(m.Control.FD(), 0, unix.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map %s into memory: %w", m.Control, err)
	}
	f((*uint64)(unsafe.Pointer(&memory[0])))
	return unix.Munmap(memory)
}

// ReadPlan reads the plan that was put in force last. Map contents are not trusted: one that breaks its
// bounds returns ErrLayout. Prefix sets come without their names.
func (m *Maps) ReadPlan() (*marker.Plan, error) {
	parity, _, err := m.InForce()
	if err != nil {
		return nil, err
	}
	return m.ReadCopy(parity)
}

// ReadCopy reads one of the two copies, as ReadPlan does.
func (m *Maps) ReadCopy(parity uint32) (*marker.Plan, error) {
	g, _, err := m.ReadTable()
	if err != nil {
		return nil, err
	}
	var policy bpf.PolicerPolicy
	if err := get(m.Policies, parity&1, &policy); err != nil {
		return nil, err
	}
	if int(policy.Classes) > len(policy.Class) || int(policy.Rules) > len(policy.Rule) || policy.Generation&1 != parity&1 {
		return nil, fmt.Errorf("%w: %d classes, %d rules, generation %d", ErrLayout, policy.Classes, policy.Rules, policy.Generation)
	}
	p := &marker.Plan{
		Generation: policy.Generation,
		Since:      policy.Since,
		Geometry:   g,
		Malformed:  marker.Action{Verbs: marker.Verb(policy.Malformed)},
		NextFamily: policy.NextFamily,
	}
	for i := range int(policy.Classes) {
		p.Classes = append(p.Classes, classFromKernel(&policy, i))
	}
	for i := range int(policy.Rules) {
		k := &policy.Rule[i]
		p.Rules = append(p.Rules, marker.Rule{
			Src:   marker.AddressMatch{Want: k.Src.Want, Mask: k.Src.Mask},
			Dst:   marker.AddressMatch{Want: k.Dst.Want, Mask: k.Dst.Mask},
			Proto: k.Proto, DSCP: k.Dscp, Mark: k.Mark, MarkMask: k.MarkMask, SrcSet: k.SrcSet, DstSet: k.DstSet,
			Sport: k.Sport, Dport: k.Dport, VLAN: k.Vlan, Class: k.Class, Families: k.Families, Fragment: k.Fragment,
			Ports: k.Ports != 0,
		})
	}
	last := -1
	profiles := make([]marker.Profile, g.Profiles)
	for i := range profiles {
		var k bpf.PolicerProfile
		if err := get(m.Profiles, parity&1*g.Profiles+uint32(i), &k); err != nil {
			return nil, err
		}
		if profiles[i] = profileFromKernel(&k); k.Overflow != 0 {
			last = i
		}
	}
	p.Profiles = profiles[:last+1]
	if p.Sets, err = m.readPrefixes(parity & 1); err != nil {
		return nil, err
	}
	if err := p.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLayout, err)
	}
	return p, nil
}

func classFromKernel(policy *bpf.PolicerPolicy, i int) marker.Class {
	k := &policy.Class[i]
	c := marker.Class{
		Name:     text(k.Name[:]),
		Arrival:  k.Arrival,
		Overhead: k.Overhead,
		Count:    marker.Count(k.Count),
		Stats:    k.Stats,
	}
	for color, a := range k.Actions {
		c.Actions[color] = marker.Action{Verbs: marker.Verb(a.Verbs), DSCP: a.Dscp, Mark: a.Mark, Priority: a.Priority}
	}
	for j := range min(int(k.Chain), len(k.Meters)) {
		km := &k.Meters[j]
		c.Meters = append(c.Meters, marker.Meter{
			Per:      marker.Per(km.Per),
			Prefix:   km.Prefix,
			Family:   km.Family,
			Mask:     [2]marker.Key{km.Mask[0].Word, km.Mask[1].Word},
			ID:       km.Id,
			Profile:  km.Profile,
			Reserved: km.Reserved,
		})
	}
	return c
}

func profileToKernel(p *marker.Profile) bpf.PolicerProfile {
	k := bpf.PolicerProfile{
		Cir: p.CIR, Xir: p.XIR, Cbs: p.CBS, Xbs: p.XBS, C_fill: p.CFill, X_fill: p.XFill, Overflow: p.Overflow,
		Meter: uint8(p.Meter), Aware: flag(p.Aware), Coupling: flag(p.Coupling), Gone: flag(p.Gone),
		Moved: p.Moved,
	}
	copy(k.Name[:len(k.Name)-1], p.Name)
	return k
}

func profileFromKernel(k *bpf.PolicerProfile) marker.Profile {
	return marker.Profile{
		CIR: k.Cir, XIR: k.Xir, CBS: k.Cbs, XBS: k.Xbs, CFill: k.C_fill, XFill: k.X_fill, Overflow: k.Overflow,
		Meter: marker.MeterType(k.Meter), Aware: k.Aware != 0, Coupling: k.Coupling != 0, Gone: k.Gone != 0, Moved: k.Moved,
		Name: text(k.Name[:]),
	}
}

// Prefix sets are numbered in the map by copy, set and family: see prefix_set in bpf/include/classify.h.
const (
	prefixCopyShift = 31
	prefixSetShift  = 1
)

func prefixKey(e netip.Prefix, set int, parity uint32) bpf.PolicerPrefixKey {
	k := bpf.PolicerPrefixKey{
		Length: 32 + uint32(e.Bits()),
		Set:    parity<<prefixCopyShift | uint32(set+1)<<prefixSetShift,
	}
	if e.Addr().Is6() {
		k.Set |= 1
	}
	copy(k.Address[:], e.Masked().Addr().AsSlice())
	return k
}

// prefixBatch is how many prefixes are written or read in one system call.
const prefixBatch = 4096

// writePrefixes replaces a copy's prefix sets.
func (m *Maps) writePrefixes(p *marker.Plan, parity uint32) error {
	var stale []bpf.PolicerPrefixKey
	if err := m.eachPrefix(parity, func(k *bpf.PolicerPrefixKey, _ uint32) { stale = append(stale, *k) }); err != nil {
		return err
	}
	for batch := range slices.Chunk(stale, prefixBatch) {
		if _, err := m.Prefixes.BatchDelete(batch, nil); err != nil {
			return fmt.Errorf("clear map %s: %w", m.Prefixes, err)
		}
	}
	var keys []bpf.PolicerPrefixKey
	var values []uint32
	for set := range p.Sets {
		for _, e := range p.Sets[set].Entries {
			keys = append(keys, prefixKey(e.Prefix, set, parity))
			values = append(values, e.Profile)
		}
	}
	for len(keys) > 0 {
		n := min(prefixBatch, len(keys))
		written, err := m.Prefixes.BatchUpdate(keys[:n], values[:n], nil)
		if err != nil {
			return fmt.Errorf("write map %s: %w", m.Prefixes, err)
		}
		keys, values = keys[written:], values[written:]
	}
	return nil
}

// eachPrefix calls f for each prefix of a copy.
func (m *Maps) eachPrefix(parity uint32, f func(k *bpf.PolicerPrefixKey, profile uint32)) error {
	keys, values := make([]bpf.PolicerPrefixKey, prefixBatch), make([]uint32, prefixBatch)
	var cursor ebpf.MapBatchCursor
	for {
		n, err := m.Prefixes.BatchLookup(&cursor, keys, values, nil)
		for i := range n {
			if keys[i].Set>>prefixCopyShift == parity {
				f(&keys[i], values[i])
			}
		}
		switch {
		case errors.Is(err, ebpf.ErrKeyNotExist): // that was all
			return nil
		case err != nil:
			return fmt.Errorf("read map %s: %w", m.Prefixes, err)
		}
	}
}

// readPrefixes reads a copy's prefix sets, sorted.
func (m *Maps) readPrefixes(parity uint32) ([]marker.PrefixSet, error) {
	var sets []marker.PrefixSet
	err := m.eachPrefix(parity, func(k *bpf.PolicerPrefixKey, profile uint32) {
		number := int(k.Set&^(1<<prefixCopyShift)) >> prefixSetShift
		longest := uint32(32 + 32)
		if k.Set&1 != 0 {
			longest = 32 + 128
		}
		if number == 0 || number > 2*marker.MaxRules || k.Length < 32 || k.Length > longest {
			return // nobody asks for it
		}
		for len(sets) < number {
			sets = append(sets, marker.PrefixSet{Name: fmt.Sprintf("set %d", len(sets)+1)})
		}
		address := netip.AddrFrom4([4]byte(k.Address[:4]))
		if k.Set&1 != 0 {
			address = netip.AddrFrom16(k.Address)
		}
		s := &sets[number-1]
		s.Entries = append(s.Entries, marker.PrefixEntry{Prefix: netip.PrefixFrom(address, int(k.Length-32)), Profile: profile})
	})
	for i := range sets {
		slices.SortFunc(sets[i].Entries, func(a, b marker.PrefixEntry) int {
			if c := a.Prefix.Addr().Compare(b.Prefix.Addr()); c != 0 {
				return c
			}
			return a.Prefix.Bits() - b.Prefix.Bits()
		})
	}
	return sets, err
}
