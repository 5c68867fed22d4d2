package pcaptest

import (
	"testing"
	"unsafe"

	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/marker"
)

// heldLocks is a kernel's side with locks that the test takes, as another CPU would that never gives them back.
type heldLocks struct {
	*Kernel
	plan *marker.Plan
	t    *testing.T
}

func newHeldLocks(t *testing.T, per marker.Per) *heldLocks {
	t.Helper()
	plan := planOf(t, marker.Params{Meter: marker.Token, CIR: 1, CBS: 4000}, per, 64)
	plan.Classes[0].Actions = [marker.Colors]marker.Action{marker.Red: {Verbs: marker.VerbDrop}}
	k, err := NewKernel(plan, marker.SeedsFrom(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	return &heldLocks{k, plan, t}
}

func setBytes(s *marker.Set) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(s)), unsafe.Sizeof(*s))
}

// sets reads all sets, locked or not.
func (h *heldLocks) sets() []marker.Set {
	h.t.Helper()
	all := make([]marker.Set, h.plan.Geometry.Sets)
	for i := range all {
		if err := h.Program.Maps.Buckets.Lookup(uint32(i), setBytes(&all[i])); err != nil {
			h.t.Fatal(err)
		}
	}
	return all
}

func (h *heldLocks) write(i int, s marker.Set) {
	h.t.Helper()
	if err := h.Program.Maps.Buckets.Update(uint32(i), setBytes(&s), 0); err != nil {
		h.t.Fatal(err)
	}
}

func (h *heldLocks) clear() {
	for i := range h.plan.Geometry.Sets {
		h.write(int(i), marker.Set{})
	}
}

func (h *heldLocks) send(key uint32, length int) marker.Outcome {
	h.t.Helper()
	var data [42]byte
	f := keyedFrame(&data, key, length)
	out, err := h.Packet(&f, 1<<40)
	if err != nil {
		h.t.Fatal(err)
	}
	return out
}

// sendHeld sends a packet while the lock of a set is held. It reports whether that made it red and
// contended; then nothing but locks may have changed. No other lock may be left held in any case.
func (h *heldLocks) sendHeld(set int, key uint32, length int) bool {
	h.t.Helper()
	before := h.sets()
	before[set][0].Lock |= 1
	h.write(set, before[set])
	counted, err := h.Stats()
	if err != nil {
		h.t.Fatal(err)
	}
	out := h.send(key, length)
	after := h.sets()
	stats, err := h.Stats()
	if err != nil {
		h.t.Fatal(err)
	}
	contended := stats.Classes[0].Contended > counted.Classes[0].Contended
	for i := range after {
		if (after[i][0].Lock&1 != 0) != (i == set) {
			h.t.Errorf("set %d held, key %d: the lock of set %d is %#x afterwards", set, key, i, after[i][0].Lock)
		}
		before[i][0].Lock, after[i][0].Lock = 0, 0
		if contended && after[i] != before[i] {
			h.t.Errorf("set %d held, key %d: set %d was changed all the same", set, key, i)
		}
	}
	if contended {
		if !out.Dropped || out.Color != marker.Red || out.Slots[0] != marker.NoSet {
			h.t.Errorf("set %d held, key %d: contended, but %+v", set, key, out)
		}
		counted.Classes[0].Contended++
		counted.Classes[0].Packets[marker.Red]++
		counted.Classes[0].Bytes[marker.Red] += uint64(length)
		if stats.Classes[0] != counted.Classes[0] {
			h.t.Errorf("set %d held, key %d: counted %+v, not %+v", set, key, stats.Classes[0], counted.Classes[0])
		}
	}
	after[set][0].Lock = 2
	h.write(set, after[set])
	return contended
}

// SPEC 3.4: a bucket that cannot be locked in time makes the packet red and contended. Nothing is spent,
// no key inserted, no other lock left held; and once the lock is free all is as ever.
func TestContended(t *testing.T) {
	testutils.RequireKernel(t)

	t.Run("a new key, either candidate", func(t *testing.T) {
		h := newHeldLocks(t, marker.PerFlow)
		for key := uint32(1); key <= 20; key++ {
			var candidates []int
			for set := range int(h.plan.Geometry.Sets) {
				h.clear()
				if h.sendHeld(set, key, 100) {
					candidates = append(candidates, set)
				}
			}
			if len(candidates) != 2 {
				t.Errorf("key %d needs the locks of sets %v, not of two", key, candidates)
			}
			if out := h.send(key, 100); out.Color != marker.Green {
				t.Errorf("key %d, no lock held: %+v", key, out)
			}
		}
	})

	t.Run("a key that is there", func(t *testing.T) {
		h := newHeldLocks(t, marker.PerFlow)
		for key := uint32(1); key <= 20; key++ {
			at := int(h.send(key, 100).Slots[0] / marker.SetSlots)
			for set := range int(h.plan.Geometry.Sets) {
				if got := h.sendHeld(set, key, 28); got != (set == at) {
					t.Errorf("key %d is in set %d, set %d held: contended %v", key, at, set, got)
				}
			}
		}
	})

	t.Run("the overflow bucket", func(t *testing.T) {
		h := newHeldLocks(t, marker.PerFlow)
		overflow := h.plan.Profiles[0].Overflow
		// Not in use it is nobody's business.
		if h.sendHeld(int(overflow), 1, 100) {
			t.Error("a new key waited for an overflow bucket that is not in use")
		}
		over := uint32(0)
		for key := uint32(2); over == 0; key++ {
			if h.send(key, 100).Slots[0] == overflow*marker.SetSlots {
				over = key
			}
		}
		if !h.sendHeld(int(overflow), over, 100) {
			t.Error("a key in overflow did not wait for its bucket")
		}
		if out := h.send(over, 100); out.Color != marker.Green || out.Slots[0] != overflow*marker.SetSlots {
			t.Errorf("the lock is free: %+v", out)
		}
		// A key in overflow needs its candidates too; a new key with room, the overflow bucket's tokens.
		needs := 0
		for set := range int(h.plan.Geometry.Sets) {
			if h.sendHeld(set, over, 28) {
				needs++
			}
		}
		if needs != 3 {
			t.Errorf("a key in overflow needs %d locks, not 3", needs)
		}
		sets := h.sets()
		for i := range h.plan.Geometry.Reserved {
			h.write(int(i), marker.Set{})
		}
		if !h.sendHeld(int(overflow), over, 100) {
			t.Error("a new key did not wait for the overflow bucket's tokens")
		}
		out := h.send(over, 100)
		if out.Color != marker.Green || out.Slots[0] == overflow*marker.SetSlots {
			t.Fatalf("the lock is free, and so are slots: %+v", out)
		}
		want := sets[overflow][0].Bucket.Tc - 100*marker.Nano
		if got := h.sets()[out.Slots[0]/marker.SetSlots][out.Slots[0]%marker.SetSlots].Bucket.Tc; got != want {
			t.Errorf("the new bucket has %d nanobytes, not %d", got, want)
		}
	})

	t.Run("a class's bucket", func(t *testing.T) {
		h := newHeldLocks(t, marker.PerClass)
		reserved := int(h.plan.Classes[0].Meters[0].Reserved)
		for set := range int(h.plan.Geometry.Sets) {
			if got := h.sendHeld(set, 1, 28); got != (set == reserved) {
				t.Errorf("set %d held: contended %v", set, got)
			}
		}
	})
}
