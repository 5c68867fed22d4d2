package maps

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/marker"
)

// memory is a table that no kernel has, with room for n slots.
func memory(t testing.TB, n uint64) (*Buckets, marker.Geometry) {
	t.Helper()
	g, err := marker.NewGeometry(n, [marker.MaxChain]bool{true}, 2)
	if err != nil {
		t.Fatal(err)
	}
	return &Buckets{sets: make([]marker.Set, g.Sets)}, g
}

func bytesRank(c *Counted) (sum uint64) {
	for _, n := range c.Bytes {
		sum += n
	}
	return sum
}

// hit has a slot count a packet.
func hit(b *Buckets, at Slot, key marker.Key, now uint64, color marker.Color, bytes uint64) {
	set := &b.sets[at.Set]
	slot := &set[at.Slot]
	if set.Tag(at.Slot) == 0 || slot.Key != key {
		set[0].Tags |= 1 << (8 * at.Slot)
		slot.Key, slot.Packets, slot.Bytes = key, [marker.Colors]uint64{}, [marker.Colors]uint64{}
	}
	slot.Bucket.Last = now
	set[0].Lock += 2
	slot.Packets[color]++
	slot.Bytes[color] += bytes
}

// Whatever is counted between readings, of whatever keys in whatever slots, is told once, with the slot it is in.
func TestTally(t *testing.T) {
	b, g := memory(t, 64)
	seed := testutils.Seed(t)
	r := rand.New(rand.NewPCG(seed, 0))
	tally := NewTally(b, g)
	now := uint64(1 << 40)
	if first := tally.Read(now, 10, bytesRank); !first.First || first.Active != 0 || len(first.Busiest) != 0 {
		t.Fatalf("the first reading tells %+v", first)
	}
	type owner struct {
		at  Slot
		key marker.Key
	}
	for round := range 200 {
		want := map[owner]*Counted{}
		for range r.IntN(300) {
			now += r.Uint64N(1_000_000)
			at := Slot{r.Uint32N(g.Sets), r.IntN(marker.SetSlots)}
			key := marker.Key{uint64(r.IntN(2)), 7, 7, 7, 7}
			if old := b.sets[at.Set].Tag(at.Slot) != 0 && b.sets[at.Set][at.Slot].Key != key; old && r.IntN(20) > 0 {
				key = b.sets[at.Set][at.Slot].Key
			} else if old {
				delete(want, owner{at, b.sets[at.Set][at.Slot].Key}) // forgotten: what it counted is not known
			}
			color, bytes := marker.Color(r.IntN(int(marker.Colors))), uint64(40+r.IntN(1460))
			hit(b, at, key, now, color, bytes)
			o := owner{at, key}
			if want[o] == nil {
				want[o] = &Counted{Key: key, At: at}
			}
			want[o].Packets[color]++
			want[o].Bytes[color] += bytes
			// A key that left and is back, all in one interval, has counted since then only.
			if s := &b.sets[at.Set][at.Slot]; s.Packets[0] < want[o].Packets[0] {
				t.Fatal("the test counts what a slot has not")
			}
		}
		all := r.IntN(2) == 0
		most := len(want)
		if !all {
			most = r.IntN(10)
		}
		now += 1000
		got := tally.Read(now, most, bytesRank)
		if got.First || got.Active != len(want) || len(got.Busiest) != min(most, len(want)) {
			t.Fatalf("round %d: %d active, %d told of %d; want %d", round, got.Active, len(got.Busiest), most, len(want))
		}
		ranks := []uint64{}
		for _, c := range want {
			ranks = append(ranks, bytesRank(c))
		}
		slices.SortFunc(ranks, func(a, b uint64) int { return int(b) - int(a) })
		for i := range got.Busiest {
			c := &got.Busiest[i]
			if c.Rank != ranks[i] || c.Rank != bytesRank(c) {
				t.Errorf("round %d: place %d has %d bytes, want %d", round, i, c.Rank, ranks[i])
			}
			w := *want[owner{c.At, c.Key}]
			w.Rank, w.Slot = c.Rank, c.Slot
			if diff := cmp.Diff(w, *c); diff != "" {
				t.Error(diff)
			}
			if s := b.sets[c.At.Set][c.At.Slot]; s.Bucket != c.Slot.Bucket || s.Packets != c.Slot.Packets || s.Bytes != c.Slot.Bytes {
				t.Errorf("the slot is %+v, not %+v", s, c.Slot)
			}
		}
	}
	var used uint64
	for i := range b.sets[:g.Stages[0].Mask+1] {
		for slot := range marker.SetSlots {
			if b.sets[i].Tag(slot) != 0 {
				used++
			}
		}
	}
	if got := tally.Read(now+1, 0, bytesRank); got.Used[0] != used || got.Active != 0 {
		t.Errorf("%d used, want %d; %d active", got.Used[0], used, got.Active)
	}
}

// A set that stays locked is left out, and counted.
func TestTallyTorn(t *testing.T) {
	b, g := memory(t, 64)
	tally := NewTally(b, g)
	hit(b, Slot{Set: 3}, marker.Key{1}, 1, marker.Green, 100)
	tally.Read(1<<40, 9, bytesRank)
	hit(b, Slot{Set: 3}, marker.Key{1}, 1<<40, marker.Green, 100)
	b.sets[3][0].Lock++
	if got := tally.Read(1<<40+1, 9, bytesRank); got.Torn != 1 || got.Active != 0 {
		t.Errorf("%d torn, %d active", got.Torn, got.Active)
	}
	b.sets[3][0].Lock++
	if got := tally.Read(1<<40+2, 9, bytesRank); got.Torn != 0 || got.Active != 1 || got.Busiest[0].Bytes[0] != 100 {
		t.Errorf("%+v", got)
	}
}

// What a reading of a million slots, half of them used, takes.
func BenchmarkTally(b *testing.B) {
	const slots = 1 << 20
	for _, active := range []int{0, 1, 10, 100} {
		b.Run(fmt.Sprintf("%d%%", active), func(b *testing.B) {
			buckets, g := memory(b, slots)
			r := rand.New(rand.NewPCG(1, 0))
			for i := range slots / 2 {
				hit(buckets, Slot{r.Uint32N(g.Reserved), r.IntN(marker.SetSlots)}, marker.Key{uint64(i), 2, 3, 4, 5}, 1, marker.Green, 100)
			}
			tally := NewTally(buckets, g)
			now := uint64(1 << 40)
			tally.Read(now, 100, bytesRank)
			for b.Loop() {
				b.StopTimer()
				now += 1_000_000_000
				for at := range g.Reserved {
					for i := range marker.SetSlots {
						if buckets.sets[at].Tag(i) != 0 && r.IntN(100) < active {
							hit(buckets, Slot{at, i}, buckets.sets[at][i].Key, now-1, marker.Green, r.Uint64N(1500))
						}
					}
				}
				b.StartTimer()
				tally.Read(now, 100, bytesRank)
			}
		})
	}
}
