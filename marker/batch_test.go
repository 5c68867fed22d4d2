package marker

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// batchFrame draws a frame of any kind: flows of two classes, some of none, not IP, malformed, IPv6 with more
// extension headers than are walked, a super-packet.
func batchFrame(d func(uint64) uint64) Frame {
	f := from(uint16(d(3)<<8|d(255)), 40+int(d(400)))
	f.Data[15] = []byte{0, 10 << 2, 12<<2 | 1, 14<<2 | 2, 46 << 2}[d(4)]
	f.Mark = uint32(d(1))
	switch d(15) {
	case 0:
		f.Data[12] = 0
	case 1:
		f.Data[14] = 0x41
	case 2:
		long := extension(60, 8)
		for range maxExtensions - 1 {
			long += extension(60, 8)
		}
		f = ethernet("86dd", ip6(8*maxExtensions+8, 60), long, udp)
	case 3:
		f.GSOSize = 1 + uint32(d(100))
	}
	return whole(f)
}

// batchPlan draws a policy: chains of all kinds, or another that has some of the same buckets.
func batchPlan(t fataler, d func(uint64) uint64) *Plan {
	plan := explainPlan(t, d(1) == 1)
	if d(3) == 0 {
		plan.Classes[2].Actions[Yellow] = Action{Verbs: VerbMark | VerbPriority, Mark: 7, Priority: 8}
		plan.setProfile(t, 0, 0, token(100+d(1000)))
	}
	return plan
}

// sameMirror compares tables and counters.
func sameMirror(t fataler, a, b *Mirror) {
	t.Helper()
	if !slices.Equal(a.table.sets, b.table.sets) || a.stats.Port != b.stats.Port || !slices.Equal(a.stats.Classes, b.stats.Classes) {
		t.Fatal("other buckets or counters than one by one")
	}
}

// Batches of any size give what packets one by one do: outcomes, frames, buckets, counters; also where they were
// prepared for another policy than the one they meet, and where the clock steps back.
func TestBatchIsPacketsOneByOne(t *testing.T) {
	met := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		d := func(most uint64) uint64 { return rapid.Uint64Range(0, most).Draw(t, "n") }
		plan := batchPlan(t, d)
		again := *plan
		one, batched := mirrorOf(t, plan), mirrorOf(t, &again)
		var forgotten, batchForgotten []Key
		one.OnForget(func(s *Slot) { forgotten = append(forgotten, s.Key) })
		batched.OnForget(func(s *Slot) { batchForgotten = append(batchForgotten, s.Key) })
		now, gap := uint64(1e9), []uint64{1e3, 1e6, 1e9}[d(2)] // where it stands still, the table fills up
		frame := drawFrom(d(1 << 20))
		var b Batch
		for range 1 + d(7) {
			frames := make([]Frame, d(1+d(400)))
			b.Frames, b.Times = b.Frames[:0], b.Times[:0]
			for i := range frames {
				frames[i] = batchFrame(frame)
				b.Frames, b.Times = append(b.Frames, whole(frames[i])), append(b.Times, now-frame(1)*frame(min(now, gap)))
				now += []uint64{0, 1, frame(gap)}[frame(2)]
			}
			if d(3) > 0 {
				batched.Prepare(&b)
			}
			switch d(3) { // after Prepare: some of the batch may be prepared for what is no longer in force
			case 0:
				next, at, deadline := batchPlan(t, d), now-d(1e9), uint64(0)
				if d(1) == 0 {
					deadline = at + d(1e9)
				}
				same := *next
				if err := one.Apply(next, at, deadline); err != nil {
					t.Fatal(err)
				}
				if err := batched.Apply(&same, at, deadline); err != nil {
					t.Fatal(err)
				}
				met["change"]++
			case 1:
				at := now - d(1e9)
				if one.Confirm(at) != batched.Confirm(at) {
					t.Fatal("confirmed but once")
				}
			}
			batched.Decide(&b)
			for i := range frames {
				generation := one.generations.active
				if one.generations.deadline != 0 && b.Times[i] >= one.generations.deadline {
					met["past a deadline"]++
				}
				want := one.Packet(&frames[i], b.Times[i])
				met[want.Kind.String()]++
				met[want.Color.String()]++
				got := &b.Frames[i]
				if b.Outcomes[i] != want || !bytes.Equal(got.Data, frames[i].Data) || got.Mark != frames[i].Mark || got.Priority != frames[i].Priority {
					t.Fatalf("packet %d of %d, copy %d: %+v, %x; one by one %+v, %x", i+1, len(frames), generation,
						b.Outcomes[i], got.Data, want, frames[i].Data)
				}
			}
			sameMirror(t, one, batched)
			if !slices.Equal(forgotten, batchForgotten) {
				t.Fatal("other buckets were forgotten")
			}
		}
		met["forgotten"] += len(forgotten)
		met["long chain"] += int(one.stats.Port.LongChain)
		met["overflow"] += int(one.stats.Classes[1].Overflow + one.stats.Classes[3].Overflow)
	})
	t.Log(met)
	for _, what := range []string{"change", "past a deadline", "metered", "unmatched", "not-ip", "malformed", "yellow", "red", "forgotten", "long chain", "overflow"} {
		if met[what] == 0 {
			t.Errorf("%s never occurred", what)
		}
	}
}

// One goroutine prepares, another decides: batches in order give what packets one by one do.
func TestBatchesInAPipeline(t *testing.T) {
	const batches, size = 40, 100
	d := drawFrom(5)
	plan := explainPlan(t, true)
	again := *plan
	one, piped := mirrorOf(t, plan), mirrorOf(t, &again)
	free, ready := make(chan *Batch, 3), make(chan *Batch, 3)
	for range cap(free) {
		free <- &Batch{}
	}
	var frames []Frame
	for range batches * size {
		frames = append(frames, batchFrame(d))
	}
	go func() {
		defer close(ready)
		for from := 0; from < len(frames); from += size {
			b := <-free
			b.Frames, b.Times = b.Frames[:0], b.Times[:0]
			for i, f := range frames[from : from+size] {
				b.Frames, b.Times = append(b.Frames, whole(f)), append(b.Times, uint64(from+i)*1e6)
			}
			piped.Prepare(b)
			ready <- b
		}
	}()
	n := 0
	for b := range ready {
		piped.Decide(b)
		for i, got := range b.Outcomes {
			if want := one.Packet(&frames[n], uint64(n)*1e6); got != want || !bytes.Equal(b.Frames[i].Data, frames[n].Data) {
				t.Fatalf("packet %d: %+v, not %+v", n+1, got, want)
			}
			n++
		}
		free <- b
	}
	if n != len(frames) {
		t.Errorf("%d packets decided of %d", n, len(frames))
	}
	sameMirror(t, one, piped)
}

// Neither a packet nor a batch allocates, whatever it is.
func TestBatchAllocatesNothing(t *testing.T) {
	d := drawFrom(6)
	m := mirrorOf(t, explainPlan(t, true))
	var frames []Frame
	for range 300 {
		frames = append(frames, batchFrame(d))
	}
	now := uint64(0)
	if n := testing.AllocsPerRun(10, func() {
		for i := range frames {
			now += 1e6
			m.Packet(&frames[i], now)
		}
	}); n != 0 {
		t.Errorf("%v allocations in %d packets", n, len(frames))
	}
	b := Batch{Frames: frames, Times: make([]uint64, len(frames))}
	if n := testing.AllocsPerRun(10, func() {
		for i := range b.Times {
			now += 1e6
			b.Times[i] = now
		}
		m.Prepare(&b)
		m.Decide(&b)
	}); n != 0 {
		t.Errorf("%v allocations in a batch of %d", n, len(frames))
	}
}

// A batch that nobody prepared is prepared, not taken for the one before.
func TestBatchNotPrepared(t *testing.T) {
	m := mirrorOf(t, explainPlan(t, true))
	b := Batch{Frames: []Frame{whole(from(1, 100))}, Times: []uint64{1}}
	m.Decide(&b)
	first := b.Outcomes[0]
	b.Frames[0] = whole(from(2<<8, 200))
	m.Decide(&b)
	if second := b.Outcomes[0]; first.Cost != 100 || second.Cost != 200 || first.Class == second.Class {
		t.Errorf("%+v, then %+v", first, second)
	}
}

// drawFrom draws the same numbers for the same seed.
func drawFrom(seed uint64) func(uint64) uint64 {
	r := rand.New(rand.NewPCG(seed, seed))
	return func(most uint64) uint64 { return r.Uint64N(most + 1) }
}

// An empty slot holds no key, also not the one whose words are all 0.
func TestBatchOfTheZeroKey(t *testing.T) {
	m := policed(t, slow, nil)
	f := whole(sized(100))
	clear(f.Data[26:34])
	f.Data[23] = 0
	b := Batch{Frames: []Frame{f, whole(f)}, Times: []uint64{1, 2}}
	m.Prepare(&b)
	if b.prepared[0].places[0].key != (Key{}) {
		t.Fatalf("no zero key: %x", b.prepared[0].places[0].key)
	}
	m.Decide(&b)
	slot := b.Outcomes[0].Slots[0]
	if m.Sets()[slot/SetSlots].Tag(int(slot%SetSlots)) == 0 || b.Outcomes[1].Slots[0] != slot {
		t.Errorf("%+v, in set %+v", b.Outcomes, m.Sets()[slot/SetSlots])
	}
}
