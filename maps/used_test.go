package maps

import (
	"math/rand/v2"
	"testing"

	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/marker"
)

// Used counts what is there: each chain position its own slots, reserved sets nowhere.
func TestUsed(t *testing.T) {
	r := rand.New(rand.NewPCG(testutils.Seed(t), 0))
	g, err := marker.NewGeometry(1024, [marker.MaxChain]bool{true, true}, 8)
	if err != nil {
		t.Fatal(err)
	}
	b := Buckets{sets: make([]marker.Set, g.Sets)}
	var want [marker.MaxChain]uint64
	for i := range b.sets {
		tags := r.Uint32() & r.Uint32()
		b.sets[i][0].Tags = tags
		b.sets[i][0].Lock = r.Uint32() // held by another CPU or not
		position := g.Position(uint32(i))
		for slot := range marker.SetSlots {
			if b.sets[i].Tag(slot) != 0 && position >= 0 {
				want[position]++
			}
		}
	}
	if got := b.Used(g); got != want {
		t.Errorf("used %v, want %v", got, want)
	}
}

func TestOccupied(t *testing.T) {
	for tags, want := range map[uint32]int{
		0: 0, 1: 1, 0x80: 1, 0x8000: 1, 0x01000000: 1, 0x80000000: 1, 0x00ff00ff: 2, 0x01010100: 3, 0x80808080: 4, 0xffffffff: 4, 0x7f7f7f7f: 4,
	} {
		if got := occupied(tags); got != want {
			t.Errorf("occupied(%#08x) = %d, want %d", tags, got, want)
		}
	}
}
