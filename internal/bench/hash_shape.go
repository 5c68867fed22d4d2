package main

import (
	"fmt"

	"github.com/tricolor-policer/tricolor/marker"
)

// shape is how many slots a set has, and how many sets, one in each part of the table, a key may be in.
type shape struct {
	name   string
	width  int
	choice int
}

var shapes = []shape{
	{"one set of 4", 4, 1},
	{"one set of 8", 8, 1},
	{"two sets of 2", 2, 2},
	{"two sets of 4", 4, 2},
	{"two sets of 8", 8, 2},
}

// overflow fills a table of so many slots with keys, each in the set with more room, the left one where both have
// as much, and returns the share of keys that found none.
func (s shape) overflow(keys []marker.Key, slots int, hash func(*marker.Key) uint64) float64 {
	sets := uint32(slots / s.width / s.choice) // in each part
	used := make([]uint8, int(sets)*s.choice)
	over := 0
	for i := range keys {
		h := hash(&keys[i])
		at := uint32(h) % sets
		if s.choice == 2 {
			if right := sets + uint32(h>>32)%sets; used[right] < used[at] {
				at = right
			}
		}
		if int(used[at]) == s.width {
			over++
			continue
		}
		used[at]++
	}
	return float64(over) / float64(len(keys))
}

// shapeRows has the share of keys in overflow by load, in simulated tables of other shapes and in the mirror's own.
func shapeRows(t *table) error {
	const slots = 1 << 17
	ours := hashers[0]
	for _, load := range []float64{.5, .6, .7, .75, .8, .85, .9, .95} {
		n := int(load * slots)
		for _, s := range shapes {
			var f figure
			for seed := range uint64(rounds) {
				f = append(f, 100*s.overflow(keysOf(0, n, seed), slots, ours.seed(seed)))
			}
			t.row(fmt.Sprintf("load %.2f, %s: overflow", load, s.name), f, "%", "")
		}
		var f figure
		for seed := range uint64(rounds) {
			share, err := mirrorOverflow(n, slots, seed)
			if err != nil {
				return err
			}
			f = append(f, 100*share)
		}
		t.row(fmt.Sprintf("load %.2f, the mirror's table", load), f, "%", "")
	}
	return nil
}

// mirrorOverflow is the share of n flows, one packet each, that a mirror meters in overflow. Their buckets are in
// use: a byte a second fills none while they come.
func mirrorOverflow(n, slots int, seed uint64) (float64, error) {
	plan, err := compile(oneBucket(slots, profileInUse))
	if err != nil {
		return 0, err
	}
	m, err := marker.NewMirror(plan, marker.SeedsFrom(seed))
	if err != nil {
		return 0, err
	}
	packet := udpFrame()
	f := marker.Frame{Data: packet, Length: uint32(len(packet))}
	for i, k := range keysOf(0, n, seed) {
		fields := k.Fields()
		copy(packet[ipHeader+12:], fields.Src[:4])
		copy(packet[ipHeader+16:], fields.Dst[:4])
		copy(packet[ipHeader+20:], fields.Sport[:])
		m.Packet(&f, uint64(i))
	}
	return float64(m.Stats().Classes[0].Overflow) / float64(n), nil
}
