package pcaptest

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/loader"
	"github.com/tricolor-policer/tricolor/marker"
)

// A chain raced by all CPUs, clock frozen: packets of 100 bytes, flows within networks within the link. A second
// class has a bucket of its own in the middle, and the same link.
const (
	chainLength = 100
	chainNow    = 1 << 40
)

func chainPolicy(flows, flow, network, link int) policyFiles {
	return policyFiles{text: fmt.Sprintf(`version: 1
flows: %d
profiles:
  flow:    { meter: token, cir: 8mbit, cbs: %dB }
  network: { meter: token, cir: 8mbit, cbs: %dB }
  link:    { meter: token, cir: 8mbit, cbs: %dB }
classes:
  - name: other
    match: { dport: 1 }
    meters: [ { profile: flow, per: flow }, { profile: network, per: class }, { profile: link, per: interface } ]
  - name: networks
    meters: [ { profile: flow, per: flow }, { profile: network, per: "src/24,56" }, { profile: link, per: interface } ]
`, flows, flow, network, link)}
}

// chainRace is what became of the packets that all CPUs offered.
type chainRace struct {
	plan       *marker.Plan
	stats      marker.Stats
	bySlot     []atomic.Int64 // accepted packets of each bucket
	accepted   atomic.Int64
	contended  atomic.Int64
	twice      atomic.Int64 // packets with two overflow buckets
	used, keys int          // slots in use, and different keys in them
}

// raceChain has all CPUs offer packets of keys flows, in networks of 16, rounds times each; then it holds every
// bucket to what was accepted by it: what is left and what was accepted make up the burst.
func raceChain(t *testing.T, files policyFiles, keys, rounds int, full bool) *chainRace {
	t.Helper()
	r := &chainRace{plan: files.mustCompile(t, nil)}
	g := r.plan.Geometry
	r.bySlot = make([]atomic.Int64, g.Sets*marker.SetSlots)
	program, buckets := loadForRace(t, r.plan)
	seed := testutils.Seed(t)
	var together barrier
	cpus(t, func(cpu, of int) {
		random := rand.New(rand.NewPCG(seed, uint64(cpu)))
		runner := loader.NewRunner(program)
		var data [42]byte
		for range rounds {
			together.wait(of)
			for _, key := range random.Perm(keys) {
				f := keyedFrame(&data, uint32(key/16)<<8|uint32(key%16), chainLength)
				data[37] = byte(random.IntN(4))
				out, err := runner.Run(&f, chainNow)
				if err != nil {
					t.Error(err)
					return
				}
				r.count(&out)
			}
		}
	})
	torn := 0
	different := map[marker.Key]bool{}
	for at, s := range buckets.All(&torn) {
		slot := at.Set*marker.SetSlots + uint32(at.Slot)
		burst := r.plan.Profiles[s.Profile].CBS
		spent := uint64(r.bySlot[slot].Load()) * chainLength * marker.Nano
		// A bucket that took over from an overflow bucket started with less.
		if sum := s.Bucket.Tc + spent; sum > burst || sum < burst && !(full && at.Set < g.Reserved) {
			t.Errorf("set %d slot %d: %d nanobytes left and %d accepted make %d, not the burst of %d", at.Set, at.Slot, s.Bucket.Tc, spent, sum, burst)
		}
		if at.Set < g.Reserved {
			r.used++
			different[s.Key] = true
		}
	}
	r.keys = len(different)
	var err error
	if r.stats, err = program.Maps.Stats(r.plan); err != nil {
		t.Fatal(err)
	}
	var green, red, contended uint64
	for i := range r.stats.Classes {
		green += r.stats.Classes[i].Packets[marker.Green]
		red += r.stats.Classes[i].Packets[marker.Red]
		contended += r.stats.Classes[i].Contended
	}
	t.Logf("%d accepted, %d red, %d contended, %d keys in %d slots, %d packets in two overflow buckets", green, red, contended, r.keys, r.used, r.twice.Load())
	if torn != 0 || r.used != r.keys {
		t.Errorf("%d keys in %d slots, %d sets torn", r.keys, r.used, torn)
	}
	if int64(green) != r.accepted.Load() || int64(contended) != r.contended.Load() {
		t.Errorf("counted %d green, %d contended; seen %d and %d", green, contended, r.accepted.Load(), r.contended.Load())
	}
	return r
}

func (r *chainRace) count(out *marker.Outcome) {
	if out.Slots[0] == marker.NoSet {
		r.contended.Add(1)
		return
	}
	overflow := 0
	for i, slot := range out.Slots {
		if set := slot / marker.SetSlots; set >= r.plan.Geometry.OverflowSet(0, 0) && set < r.plan.Geometry.Sets {
			overflow++
		}
		if out.Color == marker.Green {
			r.bySlot[out.Slots[i]].Add(1)
		}
	}
	if overflow == 2 {
		r.twice.Add(1)
	}
	if out.Color == marker.Green {
		r.accepted.Add(1)
	}
}

// The narrowest stage of a chain decides, exactly, and no packet that ended red spent anything anywhere.
func TestRaceOverChain(t *testing.T) {
	testutils.RequireKernel(t)
	const keys = 512
	for _, c := range []struct {
		name                string
		flow, network, link int
		want                func(r *chainRace) int // packets
	}{
		{"the link is narrow", 2050, 15_030, 70_070, func(*chainRace) int { return 700 }},
		{"the networks are narrow", 2050, 3010, 1_000_050, func(*chainRace) int { return (keys/16 + 1) * 30 }},
		{"the flows are narrow", 350, 1_000_030, 1_000_050, func(r *chainRace) int { return 3 * flowKeys(r) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := raceChain(t, chainPolicy(8192, c.flow, c.network, c.link), keys, 60, false)
			for _, class := range r.stats.Classes {
				if class.Overflow != 0 {
					t.Errorf("the table was full: %+v", class)
				}
			}
			if got, want := int(r.accepted.Load()), c.want(r); got != want {
				t.Errorf("%d packets accepted, not %d", got, want)
			}
		})
	}
}

// flowKeys is how many flows were accepted at all.
func flowKeys(r *chainRace) (n int) {
	stage := r.plan.Geometry.Stages[0]
	for slot := range (stage.Mask + 1) * marker.SetSlots {
		if r.bySlot[stage.Base*marker.SetSlots+slot].Load() > 0 {
			n++
		}
	}
	return n
}

// The table is full in two stages of the chain: their overflow buckets, and the link, give out what their bursts
// hold and no more.
func TestRaceOverChainOnFullTable(t *testing.T) {
	testutils.RequireKernel(t)
	// Flows in overflow have enough to spend to fill the networks' stage, too.
	r := raceChain(t, chainPolicy(64, 50_050, 150, 1_000_050), 4096, 10, true)
	if r.twice.Load() == 0 {
		t.Error("no packet took two overflow buckets")
	}
	r = raceChain(t, chainPolicy(64, 50_050, 150, 3050), 4096, 4, true)
	if got := r.accepted.Load(); got != 30 {
		t.Errorf("%d packets accepted over the link, not 30", got)
	}
}
