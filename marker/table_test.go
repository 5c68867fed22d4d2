package marker

import (
	"encoding/binary"
	"testing"
)

// fataler is what a testing.TB and a rapid.T have in common.
type fataler interface {
	Helper()
	Fatal(args ...any)
}

// tiny makes a mirror of one class that meters flows in a table of so many slots.
func tiny(t fataler, params Params, flows uint64, seed uint64) *Mirror {
	t.Helper()
	profile, err := params.Compile()
	if err != nil {
		t.Fatal(err)
	}
	g, err := NewGeometry(flows, [MaxChain]bool{true}, 1)
	if err != nil {
		t.Fatal(err)
	}
	profile.Overflow = g.OverflowSet(0, 0)
	meter := NewMeter(0, 0, PerFlow, [2]int{32, 64})
	m, err := NewMirror(&Plan{
		Geometry:  g,
		Malformed: Action{Verbs: VerbDrop},
		Rules:     []Rule{AnyRule(0)},
		Profiles:  []Profile{profile},
		Classes:   []Class{{Name: "all", Meters: []Meter{meter}, Arrival: DefaultArrival()}},
	}, SeedsFrom(seed))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// crowd finds n keys that have the sets a and b for candidates: a in the left half, b in the right.
func crowd(m *Mirror, n int, a, b uint32) (keys []Key) {
	mask := m.plan.Geometry.Stages[0].Mask
	for i := uint32(1); len(keys) < n; i++ {
		f := KeyFields{Proto: 17}
		binary.BigEndian.PutUint32(f.Src[:], i)
		k := f.Key()
		k[4] |= m.plan.Classes[0].Meters[0].ID[0]
		h := m.table.seeds.Hash(&k)
		left, right := hashLeft(h, mask), hashRight(h, mask)
		if left == a && right == b {
			keys = append(keys, k)
		}
	}
	return keys
}

// offer meters a packet of this key, as Packet would. It returns where and how.
func offer(m *Mirror, k Key, now, bytes uint64, in Color) (color Color, slot *Slot, overflow bool) {
	plan, _, generation := m.generations.inForce(now)
	p := prepared{generation: generation, arrival: in, profile: plan.Classes[0].Meters[0].Profile, cost: cost{bytes, bytes, 1}}
	m.place(&packet{key: k, header: header{family: FamilyIPv4}}, &plan.Classes[0].Meters[0], 0, &p.places[0])
	color = m.meter(&plan.Classes[0], &p, now)
	counters, ch := &m.stats.Classes[0], &m.chain
	counters.Packets[color]++
	counters.Bytes[color] += bytes
	counters.ClockBack += uint64(ch.clockBack)
	if ch.overflow {
		counters.Overflow++
	}
	return color, m.table.slot(ch.held[0].at), ch.overflow
}

// holds reports where a key has a bucket: how many, and in which slot.
func holds(m *Mirror, k Key) (n int, set, slot uint32) {
	for s := range m.plan.Geometry.Reserved {
		for i := range uint32(SetSlots) {
			if m.table.sets[s].Tag(int(i)) != 0 && m.table.sets[s][i].Key == k {
				n, set, slot = n+1, s, i
			}
		}
	}
	return n, set, slot
}

// 1000 bytes at one byte a microsecond: full again 1 ms after all was spent.
var slow = Params{Meter: Token, CIR: 1_000_000, CBS: 1000}

// A new key takes the side with more room, left where both have as much; there the lowest empty slot.
func TestTableTakesTheSideWithMoreRoom(t *testing.T) {
	m := tiny(t, slow, MinFlows, 1)
	keys := crowd(m, 8, 3, 9)
	want := [][2]uint32{{3, 0}, {9, 0}, {3, 1}, {9, 1}, {3, 2}, {9, 2}, {3, 3}, {9, 3}}
	for i, k := range keys {
		offer(m, k, 0, 1000, Green)
		if n, set, slot := holds(m, k); n != 1 || [2]uint32{set, slot} != want[i] {
			t.Errorf("key %d: %d slots, set %d, slot %d, not %v", i+1, n, set, slot, want[i])
		}
	}
	for i, k := range keys { // found again, in either set
		if _, slot, _ := offer(m, k, 0, 1, Green); slot.Packets != [Colors]uint64{Green: 1, Red: 1} {
			t.Errorf("key %d was not found: %v", i+1, slot.Packets)
		}
	}
}

// An empty slot goes before a forgettable one, the lowest of each first; both count as room.
func TestTableTakesEmptyBeforeForgettable(t *testing.T) {
	m := tiny(t, slow, MinFlows, 1)
	left := crowd(m, 4, 3, 9)
	for i, k := range left {
		offer(m, k, 0, []uint64{1000, 1, 1, 1000}[i], Green) // 3.0, 9.0, 3.1, 9.1
	}
	// At 2 µs slots 9.0 and 3.1 are full: each side has 3 to offer, so left, and its lowest empty slot.
	next := crowd(m, 9, 3, 9)[4:]
	for i, want := range [][2]uint32{{3, 2}, {9, 2}, {3, 3}, {9, 3}, {3, 1}} {
		offer(m, next[i], 2000, 1000, Green)
		if n, set, slot := holds(m, next[i]); n != 1 || [2]uint32{set, slot} != want {
			t.Errorf("key %d: %d slots, set %d, slot %d, not %v", i+5, n, set, slot, want)
		}
	}
	if n, _, _ := holds(m, left[2]); n != 0 {
		t.Error("the forgotten key still has a slot")
	}
	if n, _, _ := holds(m, left[0]); n != 1 {
		t.Error("a bucket in use was forgotten")
	}
}

// full makes a table in which 8 keys fill the sets 3 and 9, all spent at the time given; and more keys of
// those sets.
func full(t *testing.T, at uint64) (m *Mirror, in, out []Key) {
	m = tiny(t, slow, MinFlows, 1)
	keys := crowd(m, 12, 3, 9)
	for _, k := range keys[:8] {
		if color, _, overflow := offer(m, k, at, 1000, Green); color != Green || overflow {
			t.Fatalf("a key found no room: %v", color)
		}
	}
	return m, keys[:8], keys[8:]
}

// SPEC 3.3: only a bucket that is full in every burst is forgotten; a nanosecond before it is not.
func TestTableForgetsOnlyFullBuckets(t *testing.T) {
	m, in, out := full(t, 5000)
	if color, slot, overflow := offer(m, out[0], 5000+1_000_000-1, 0, Green); !overflow || color != Green {
		t.Errorf("1 ns before the first is full: %v, %v", color, slot.Key)
	}
	for _, k := range in {
		if n, _, _ := holds(m, k); n != 1 {
			t.Errorf("a bucket was forgotten before it was full")
		}
	}
	if _, slot, overflow := offer(m, out[0], 5000+1_000_000, 0, Green); overflow || slot.Key != out[0] {
		t.Errorf("when all are full: overflow %v", overflow)
	}
	// Both bursts have to be full, not the first alone.
	m = tiny(t, Params{Meter: SRTCM, CIR: 1_000_000, CBS: 1000, EBS: 500}, MinFlows, 1)
	keys := crowd(m, 9, 3, 9)
	for _, k := range keys[:8] {
		offer(m, k, 0, 1000, Green)
		offer(m, k, 0, 500, Green)
	}
	if _, _, overflow := offer(m, keys[8], 1_499_999, 0, Green); !overflow {
		t.Error("a bucket with less than EBS was forgotten")
	}
	if _, _, overflow := offer(m, keys[8], 1_500_000, 0, Green); overflow {
		t.Error("no bucket was forgotten")
	}
}

// SPEC 3.3: with no room the packets of all new keys share the overflow bucket; a bucket made after that
// starts with what is left there.
func TestTableOverflow(t *testing.T) {
	m, in, out := full(t, 0)
	if color, slot, overflow := offer(m, out[0], 10_000, 700, Green); color != Green || !overflow || slot.Bucket != (Bucket{Last: 10_000, Tc: 300 * Nano}) {
		t.Fatalf("the first in overflow: %v, %+v", color, slot.Bucket)
	}
	if color, _, overflow := offer(m, out[1], 10_000, 301, Green); color != Red || !overflow {
		t.Errorf("another key got a burst of its own: %v", color)
	}
	if color, _, _ := offer(m, out[1], 10_000, 300, Green); color != Green {
		t.Errorf("what was left: %v", color)
	}
	if got := m.stats.Classes[0].Overflow; got != 3 {
		t.Errorf("%d packets counted in overflow, not 3", got)
	}
	// A slot becomes free when the others are full; the overflow bucket is not yet.
	if color, slot, overflow := offer(m, out[0], 1_000_000, 1000, Green); overflow || color != Red || slot.Bucket != (Bucket{Last: 1_000_000, Tc: 990 * Nano}) {
		t.Errorf("a new bucket: overflow %v, %v, %+v, not 990 bytes as in overflow", overflow, color, slot.Bucket)
	}
	// A key that was always in the table is met by none of this.
	if color, _, overflow := offer(m, in[7], 1_000_000, 1000, Green); color != Green || overflow {
		t.Errorf("a key of the table: %v, overflow %v", color, overflow)
	}
}

// SPEC 3.3: the last of a new bucket is the latest of now, of the last forgetting in both its candidates,
// and of the overflow bucket it copied.
func TestTableLastOfANewBucket(t *testing.T) {
	const ms = 1_000_000
	t.Run("now", func(t *testing.T) {
		m, _, out := full(t, 0)
		if _, slot, _ := offer(m, out[0], 3*ms, 0, Green); slot.Bucket != (Bucket{Last: 3 * ms, Tc: 1000 * Nano}) {
			t.Errorf("%+v", slot.Bucket)
		}
	})
	t.Run("forgotten", func(t *testing.T) {
		m, in, out := full(t, 0)
		offer(m, out[0], 3*ms, 1000, Green) // forgets in[0], which is full since 1 ms
		// Its own clock is behind that: it is full, and earns nothing before 3 ms.
		color, slot, overflow := offer(m, in[0], 2*ms, 1000, Green)
		if color != Green || overflow || slot.Bucket != (Bucket{Last: 3 * ms}) {
			t.Errorf("%v, overflow %v, %+v", color, overflow, slot.Bucket)
		}
		if color, slot, _ := offer(m, in[0], 3*ms, 1, Green); color != Red {
			t.Errorf("it earned twice: %v, %+v", color, slot.Bucket)
		}
	})
	t.Run("forgotten, in overflow", func(t *testing.T) {
		m, in, out := full(t, 0)
		offer(m, out[0], 3*ms, 1000, Green) // forgets one
		for _, k := range in[1:] {          // the rest is in use again, at the same time
			offer(m, k, 3*ms, 1000, Green)
		}
		color, slot, overflow := offer(m, out[1], 2*ms, 100, Green)
		if color != Green || !overflow || slot.Bucket != (Bucket{Last: 3 * ms, Tc: 900 * Nano}) {
			t.Errorf("%v, overflow %v, %+v", color, overflow, slot.Bucket)
		}
	})
	t.Run("overflow", func(t *testing.T) {
		m, in, out := full(t, 0)
		for _, k := range in { // not full at 1.5 ms
			offer(m, k, 1*ms, 1000, Green)
		}
		offer(m, out[0], 1*ms+500_000, 1000, Green) // in overflow, all of it
		offer(m, out[1], 4*ms, 0, Green)            // forgets one
		if got := m.table.sets[m.plan.Profiles[0].Overflow][0].Bucket; got != (Bucket{Last: 1*ms + 500_000}) {
			t.Fatalf("copying the overflow bucket changed it: %+v", got)
		}
		if _, slot, overflow := offer(m, out[2], 2*ms, 0, Green); overflow || slot.Bucket != (Bucket{Last: 4 * ms, Tc: 500 * Nano}) {
			t.Errorf("overflow %v, %+v", overflow, slot.Bucket)
		}
	})
	t.Run("overflow that is ahead", func(t *testing.T) {
		m, _, out := full(t, 0)
		offer(m, out[0], 900_000, 1000, Green)
		// A key of other sets, which never forgot.
		other := crowd(m, 1, 5, 14)[0]
		if _, slot, overflow := offer(m, other, 500_000, 0, Green); overflow || slot.Bucket != (Bucket{Last: 900_000}) {
			t.Errorf("overflow %v, %+v, not nothing as of 900 µs", overflow, slot.Bucket)
		}
	})
}

// A key is inserted, and its refill kept, whatever the colour.
func TestTableInsertsRed(t *testing.T) {
	m := tiny(t, slow, MinFlows, 1)
	k := crowd(m, 1, 3, 9)[0]
	if color, slot, _ := offer(m, k, 7, 1001, Green); color != Red || slot.Key != k || slot.Bucket != (Bucket{Last: 7, Tc: 1000 * Nano}) {
		t.Errorf("%v, %+v", color, slot)
	}
	offer(m, k, 7, 1000, Green)
	if color, slot, _ := offer(m, k, 1007, 1001, Green); color != Red || slot.Bucket != (Bucket{Last: 1007, Tc: 1 * Nano}) {
		t.Errorf("%v, %+v", color, slot.Bucket)
	}
}

// SPEC 3.6: a time before the bucket's last earns nothing, does not move it back, and is counted.
func TestTableClockBack(t *testing.T) {
	m := tiny(t, slow, MinFlows, 1)
	k := crowd(m, 1, 3, 9)[0]
	offer(m, k, 5000, 1000, Green)
	if color, slot, _ := offer(m, k, 0, 1, Green); color != Red || slot.Bucket != (Bucket{Last: 5000}) {
		t.Errorf("%v, %+v", color, slot.Bucket)
	}
	if color, slot, _ := offer(m, k, 6000, 1, Green); color != Green || slot.Bucket != (Bucket{Last: 6000}) {
		t.Errorf("%v, %+v", color, slot.Bucket)
	}
	if got := m.stats.Classes[0].ClockBack; got != 1 {
		t.Errorf("counted %d times", got)
	}
}
