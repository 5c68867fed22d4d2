package pcaptest

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/tricolor-policer/tricolor/marker"
)

// StageUse is how full the slots of a chain position are.
type StageUse struct{ Slots, Used uint64 }

// Flow is what one key did.
type Flow struct {
	Key      marker.KeyFields
	Overflow bool // not a key, but all those that had no bucket of their own
	Packets  [marker.Colors]uint64
	Bytes    [marker.Colors]uint64

	key marker.Key
}

// Total returns the flow's packets and bytes of all colours.
func (f *Flow) Total() (packets, bytes uint64) {
	for c := range marker.Colors {
		packets += f.Packets[c]
		bytes += f.Bytes[c]
	}
	return packets, bytes
}

// flows adds up what each key did, through buckets that are forgotten and made again.
type flows struct {
	mirror    *marker.Mirror
	kept      map[flowKey]*Flow
	forgotten uint64
}

type flowKey struct {
	key      marker.Key
	overflow bool
}

func newFlows(m *marker.Mirror) *flows {
	f := &flows{mirror: m, kept: map[flowKey]*Flow{}}
	m.OnForget(func(s *marker.Slot) {
		f.forgotten++
		f.add(s, false)
	})
	return f
}

func (f *flows) add(s *marker.Slot, overflow bool) {
	k := flowKey{s.Key, overflow}
	flow := f.kept[k]
	if flow == nil {
		flow = &Flow{Key: s.Key.Fields(), Overflow: overflow, key: s.Key}
		f.kept[k] = flow
	}
	for c := range marker.Colors {
		flow.Packets[c] += s.Packets[c]
		flow.Bytes[c] += s.Bytes[c]
	}
}

// list returns all flows, busiest first, and counts the slots of each chain position.
func (f *flows) list(use *[marker.MaxChain]StageUse) []Flow {
	g := f.mirror.Plan().Geometry
	for position := range use {
		use[position].Slots = (uint64(g.Stages[position].Mask) + 1) * marker.SetSlots
	}
	for i := range f.mirror.Sets() {
		s := &f.mirror.Sets()[i]
		for slot := range s {
			if s.Tag(slot) == 0 {
				continue
			}
			if position := g.Position(uint32(i)); position >= 0 {
				use[position].Used++
			}
			f.add(&s[slot], uint32(i) >= g.OverflowSet(0, 0))
		}
	}
	list := make([]Flow, 0, len(f.kept))
	for _, flow := range f.kept {
		list = append(list, *flow)
	}
	slices.SortFunc(list, func(a, b Flow) int {
		ap, ab := a.Total()
		bp, bb := b.Total()
		return cmp.Or(cmp.Compare(bb, ab), cmp.Compare(bp, ap), bytes.Compare(a.key.Bytes()[:], b.key.Bytes()[:]))
	})
	return list
}
