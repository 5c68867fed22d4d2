package pcaptest

import (
	"bytes"
	"cmp"
	"math/bits"
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
	touched   []uint64        // a bit for each set that may hold a bucket
	all       []Flow          // of buckets that were forgotten; at the end of all
	known     map[flowKey]int // where they are in all
	forgotten uint64
}

type flowKey struct {
	key      marker.Key
	overflow bool
}

func newFlows(m *marker.Mirror) *flows {
	g := m.Plan().Geometry
	f := &flows{mirror: m, touched: make([]uint64, (g.Sets+63)/64), known: map[flowKey]int{}}
	for set := g.Reserved; set < g.Sets; set++ { // a change of policy makes some of these
		f.touched[set/64] |= 1 << (set % 64)
	}
	m.OnForget(func(s *marker.Slot) {
		f.forgotten++
		f.known[flowKey{s.Key, false}] = f.add(s, false)
	})
	return f
}

// touch notes which sets a packet's buckets are in.
func (f *flows) touch(out *marker.Outcome) {
	for _, slot := range out.Slots {
		if slot == marker.NoSet {
			return // a chain has no gaps
		}
		set := slot / marker.SetSlots
		f.touched[set/64] |= 1 << (set % 64)
	}
}

// add adds up a bucket, and returns where.
func (f *flows) add(s *marker.Slot, overflow bool) int {
	at, ok := 0, false
	if len(f.known) > 0 {
		at, ok = f.known[flowKey{s.Key, overflow}]
	}
	if !ok {
		at = len(f.all)
		f.all = append(f.all, Flow{Key: s.Key.Fields(), Overflow: overflow, key: s.Key})
	}
	flow := &f.all[at]
	for c := range marker.Colors {
		flow.Packets[c] += s.Packets[c]
		flow.Bytes[c] += s.Bytes[c]
	}
	return at
}

// list returns all flows, busiest first, and counts the slots of each chain position.
func (f *flows) list(use *[marker.MaxChain]StageUse) []Flow {
	g := f.mirror.Plan().Geometry
	for position := range use {
		use[position].Slots = (uint64(g.Stages[position].Mask) + 1) * marker.SetSlots
	}
	sets := f.mirror.Sets()
	for word, touched := range f.touched {
		for ; touched != 0; touched &= touched - 1 {
			set := uint32(word*64 + bits.TrailingZeros64(touched))
			s := &sets[set]
			for slot := range s {
				if s.Tag(slot) == 0 {
					continue
				}
				if position := g.Position(set); position >= 0 {
					use[position].Used++
				}
				overflow := set >= g.OverflowSet(0, 0)
				at := f.add(&s[slot], overflow)
				if set >= g.Reserved { // the profiles of a prefix file have one each, for the same meter
					f.known[flowKey{s[slot].Key, overflow}] = at
				}
			}
		}
	}
	return busiest(f.all)
}

// busiest returns flows by their bytes, then their packets, the most first; then by their keys.
func busiest(all []Flow) []Flow {
	type rank struct {
		bytes, packets uint64
		at             int
	}
	ranks := make([]rank, len(all))
	for at := range all {
		packets, bytes := all[at].Total()
		ranks[at] = rank{bytes, packets, at}
	}
	slices.SortFunc(ranks, func(a, b rank) int {
		if a.bytes != b.bytes {
			return cmp.Compare(b.bytes, a.bytes)
		}
		if a.packets != b.packets {
			return cmp.Compare(b.packets, a.packets)
		}
		return bytes.Compare(all[a.at].key.Bytes()[:], all[b.at].key.Bytes()[:])
	})
	sorted := make([]Flow, len(all))
	for i, r := range ranks {
		sorted[i] = all[r.at]
	}
	return sorted
}
