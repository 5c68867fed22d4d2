package loader

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/marker"
)

// A lock holder that stalls, here the test, never breaks the envelope: until it goes on, packets that need its
// lock are red and counted as contended; they spend nothing, insert nothing, and leave no other lock held. Nobody
// else waits. Then all goes on exactly. The program is the live one, with its own clock. (TestContended in pcaptest
// is about which locks a packet needs.)
const (
	stallPackets = 200 // that meet the held lock, in each stall
	stallBesides = 2000
	stallRate    = 100     // bytes per second, of all buckets: none is full again while the test runs
	stallBurst   = 900_000 // bytes, of the narrowest bucket: 600 packets
)

const (
	bystanders = iota // classes
	stalledClass
)

type stall struct {
	*testing.T
	p    *Program
	plan *marker.Plan
	h    *holder
}

func newStall(t *testing.T, meters string) *stall {
	t.Helper()
	plan := planAfter(t, `version: 1
flows: 64
profiles:
  b: { meter: token, cir: 100B/s, cbs: 90MB }
  p: { meter: srtcm, cir: 100B/s, cbs: 400kB, ebs: 500kB }
  q: { meter: token, cir: 100B/s, cbs: 1MB }
  r: { meter: token, cir: 100B/s, cbs: 1200kB }
classes:
  - { name: bystanders, match: { src: 172.16.0.0/16 }, meters: [ { profile: b, per: flow } ] }
  - { name: stalled, meters: [ `+meters+` ] }
`, nil)
	p, err := Load(plan, Options{Seeds: marker.SeedsFrom(1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return &stall{t, p, plan, newHolder(t, p)}
}

func (s *stall) send(frame []byte, packets int) { flatOut(s.T, s.p, frame, packets) }

func (s *stall) counters(class int) marker.ClassStats { return classStats(s.T, s.p, s.plan)[class] }

// sendTouching sends a packet, and returns the sets that it changed, ascending.
func (s *stall) sendTouching(frame []byte) (sets []uint32) {
	before := s.h.copy()
	s.send(frame, 1)
	for i, after := range s.h.copy() {
		if after != before[i] {
			sets = append(sets, uint32(i))
		}
	}
	return sets
}

// contends reports whether a packet is contended while a set is held.
func (s *stall) contends(set uint32, frame []byte) bool {
	before := s.counters(stalledClass).Contended
	s.h.hold(set)
	s.send(frame, 1)
	s.h.release(set)
	return s.counters(stalledClass).Contended > before
}

// bystander makes a bucket in none of these sets, and returns its set and a packet of its.
func (s *stall) bystander(apart []uint32) (set uint32, frame []byte) {
	s.Helper()
	for flow := range byte(100) {
		frame = contendedFrame(flow)
		frame[26], frame[27] = 172, 16
		sets := s.sendTouching(frame)
		if len(sets) != 1 {
			s.Fatalf("a bystander's packet changed the sets %v", sets)
		}
		if !slices.Contains(apart, sets[0]) {
			return sets[0], frame
		}
	}
	s.Fatal("no bystander's bucket is in another set")
	return 0, nil
}

// hold stalls a holder of a set's lock. Meanwhile one CPU sends packets that need it, and another one packets of a
// bystander in another set.
func (s *stall) hold(set uint32, frame []byte, bystander uint32, besides []byte) {
	s.Helper()
	before, counted := s.h.copy(), classStats(s.T, s.p, s.plan)
	s.h.hold(set)
	cpus := allowedCPUs(s.T, 2)
	onEach(s.T, []int{cpus[0], cpus[len(cpus)-1]}, func(i int) {
		if i == 0 {
			s.send(frame, stallPackets)
		} else {
			s.send(besides, stallBesides)
		}
	})
	if held := s.h.held(); !slices.Equal(held, []uint32{set}) {
		s.Errorf("set %d is held: locks held afterwards are those of %v", set, held)
	}
	for i, after := range s.h.copy() {
		if (after != before[i]) != (uint32(i) == bystander) {
			s.Errorf("set %d is held: set %d changed: %v; the bystander's is %d", set, i, after != before[i], bystander)
		}
	}
	s.h.release(set)

	counted[bystanders].Packets[marker.Green] += stallBesides
	counted[bystanders].Bytes[marker.Green] += stallBesides * contendedLength
	counted[stalledClass].Packets[marker.Red] += stallPackets
	counted[stalledClass].Bytes[marker.Red] += stallPackets * contendedLength
	counted[stalledClass].Contended += stallPackets
	if diff := cmp.Diff(counted, classStats(s.T, s.p, s.plan)); diff != "" {
		s.Errorf("set %d is held: counters (-want +got):\n%s", set, diff)
	}
}

// goOn empties the bucket that stalled; none was ever spent from or lost in the stall.
func (s *stall) goOn(frame []byte) {
	s.Helper()
	contended, red := s.counters(stalledClass).Contended, s.counters(stalledClass).Packets[marker.Red]
	s.send(frame, stallBurst/contendedLength+stallPackets)
	after := s.counters(stalledClass)
	if after.Contended != contended || after.Packets[marker.Red] == red {
		s.Errorf("the lock is free: %d packets contended, %d red: the bucket was to run dry", after.Contended-contended, after.Packets[marker.Red]-red)
	}
}

func TestStall(t *testing.T) {
	testutils.RequireKernel(t)
	const flow, chain = "{ profile: p, per: flow }", `{ profile: p, per: flow }, { profile: q, per: "src/24,56" }, { profile: r, per: interface }`
	frame := contendedFrame(1)

	for _, c := range []struct {
		name, meters string
		buckets      int
	}{{"a bucket", flow, 1}, {"a chain", chain, 3}} {
		t.Run(c.name, func(t *testing.T) {
			s := newStall(t, c.meters)
			sets := s.sendTouching(frame)
			if len(sets) != c.buckets {
				t.Fatalf("a packet changed the sets %v, not %d", sets, c.buckets)
			}
			set, besides := s.bystander(sets)
			s.send(frame, 100)
			before := snapshot(t, s.p)
			for _, held := range sets {
				s.hold(held, frame, set, besides)
				s.send(frame, 10)
			}
			s.goOn(frame)
			settleUp(t, before, snapshot(t, s.p), stallRate)
		})
	}

	t.Run("a new key's candidates", func(t *testing.T) {
		s := newStall(t, flow)
		candidates := s.candidates(frame)
		for _, held := range candidates {
			set, besides := s.bystander(candidates)
			before := snapshot(t, s.p)
			s.hold(held, frame, set, besides)
			settleUp(t, before, snapshot(t, s.p), stallRate)

			sets := s.sendTouching(frame)
			if len(sets) != 1 || !slices.Contains(candidates, sets[0]) {
				t.Fatalf("the lock is free, but the key's packet changed the sets %v, of %v", sets, candidates)
			}
			before = snapshot(t, s.p)
			if b := s.h.sets[sets[0]][0].Bucket; b.Tc+b.Tx != (stallBurst-contendedLength)*marker.Nano {
				t.Errorf("the first packet of a new bucket leaves %d nanobytes", b.Tc+b.Tx)
			}
			s.goOn(frame)
			settleUp(t, before, snapshot(t, s.p), stallRate)
			s.h.clear()
		}
	})

	t.Run("an overflow bucket, and its key's candidates", func(t *testing.T) {
		s := newStall(t, flow)
		_, _ = s.bystander(nil)
		var over []byte
		for key := byte(1); s.counters(stalledClass).Overflow == 0; key++ {
			over = contendedFrame(key)
			s.send(over, 100)
		}
		overflow := s.plan.Profiles[s.plan.Classes[stalledClass].Meters[0].Profile].Overflow
		needs := []uint32{overflow}
		for set := range s.plan.Geometry.Stages[0].Mask + 1 {
			if s.contends(set, over) {
				needs = append(needs, set)
			}
		}
		if sets := s.sendTouching(over); !slices.Equal(sets, []uint32{overflow}) || len(needs) != 3 {
			t.Fatalf("a key in overflow changed the sets %v, and needs the locks of %v", sets, needs)
		}
		set, besides := s.bystander(needs)
		before := snapshot(t, s.p)
		for _, held := range needs {
			metered := s.counters(stalledClass).Overflow
			s.hold(held, over, set, besides)
			if got := s.counters(stalledClass).Overflow; got != metered {
				t.Errorf("%d contended packets are counted as metered in overflow", got-metered)
			}
		}
		s.goOn(over)
		settleUp(t, before, snapshot(t, s.p), stallRate)
	})
}

// candidates are the two sets in which a new key may lie, ascending: freed one after the other, the second one to
// be free is the last that its packets wait for. It leaves the table as new.
func (s *stall) candidates(frame []byte) (sets []uint32) {
	s.Helper()
	stage := s.plan.Geometry.Stages[0]
	order := make([]uint32, stage.Mask+1)
	for i := range order {
		order[i] = stage.Base + uint32(i)
	}
	for range 2 {
		slices.Reverse(order)
		for _, set := range order {
			s.h.hold(set)
		}
		for _, set := range order {
			s.h.release(set)
			before := s.counters(stalledClass).Contended
			s.send(frame, 1)
			if s.counters(stalledClass).Contended == before {
				sets = append(sets, set)
				break
			}
		}
		s.h.clear()
	}
	if len(sets) != 2 || sets[0] >= sets[1] {
		s.Fatalf("a new key's candidates are %v", sets)
	}
	return sets
}

// Holders that stall and go on while all CPUs police the same buckets: whoever waits or comes meanwhile is red
// and contended; all that was accepted is accounted for.
func TestStallAmidTraffic(t *testing.T) {
	testutils.RequireKernel(t)
	for _, c := range []struct{ name, meters string }{
		{"a bucket", "{ profile: b, per: flow }"},
		{"a chain", `{ profile: b, per: flow }, { profile: b, per: "src/24,56" }, { profile: b, per: interface }`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStall(t, c.meters)
			frame := contendedFrame(1)
			sets := s.sendTouching(frame)
			s.send(frame, 100)
			before := snapshot(t, s.p)
			var done atomic.Bool
			var stalls sync.WaitGroup
			stalls.Go(func() {
				defer done.Store(true)
				for i := 0; i < 6 && s.holdAmidTraffic(sets[i%len(sets)]); i++ {
				}
			})
			onEach(t, allowedCPUs(t, 4), func(int) {
				for !done.Load() {
					s.send(frame, 100)
				}
			})
			stalls.Wait()
			after := snapshot(t, s.p)
			settleUp(t, before, after, stallRate)
			want, got := meteredAt(after, s.plan, 0), s.counters(stalledClass)
			want[marker.Red] += got.Contended
			if diff := cmp.Diff(want, got.Packets); diff != "" {
				t.Errorf("the class's packets by color (-buckets' +class's):\n%s", diff)
			}
			t.Logf("packets %d, contended %d", got.Packets, got.Contended)
		})
	}
}

// holdAmidTraffic stalls until packets have been contended. It reports whether they have.
func (s *stall) holdAmidTraffic(set uint32) bool {
	const packets = 50
	before := s.counters(stalledClass).Contended
	if !s.h.hold(set) {
		return false
	}
	defer s.h.release(set)
	for end := time.Now().Add(time.Minute); s.counters(stalledClass).Contended < before+packets; {
		if time.Now().After(end) {
			s.Errorf("set %d is held for a minute: %d packets contended", set, s.counters(stalledClass).Contended-before)
			return false
		}
	}
	return true
}
