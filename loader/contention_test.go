package loader

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/maps"
	"github.com/tricolor-policer/tricolor/marker"
)

// What CPUs that police flat out share is accounted for to the nanobyte: what a bucket held, and earned, is what was
// accepted by it and what is left. The program is the live one, with its own clock. At a megabyte a second no bucket
// that has spent the drain is full again for minutes, so nothing earned is lost.
const (
	contendedLength = 1500 // bytes of IP of each packet
	contendedRate   = 1_000_000
	contendedDrain  = 400_000   // packets at first, one CPU after the other
	contendedRuns   = 1_000_000 // packets of all CPUs at once
)

func TestContentionExact(t *testing.T) {
	testutils.RequireKernel(t)
	for _, c := range []struct {
		name, profile, meters string
		flows                 int // one, or one for each CPU
	}{
		{"token", "meter: token, cir: 1MB/s, cbs: 900MB", "{ profile: p, per: flow }", 1},
		{"srtcm", "meter: srtcm, cir: 1MB/s, cbs: 600MB, ebs: 300MB", "{ profile: p, per: flow }", 1},
		{"two buckets", "meter: token, cir: 1MB/s, cbs: 800MB", "{ profile: p, per: flow }", 2},
		{"chain", "meter: token, cir: 1MB/s, cbs: 800MB",
			`{ profile: p, per: flow }, { profile: q, per: "src/24,56" }, { profile: r, per: interface }`, 1},
		{"chains that share the interface's", "meter: token, cir: 1MB/s, cbs: 900MB",
			`{ profile: p, per: flow }, { profile: q, per: "src/24,56" }, { profile: r, per: interface }`, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			// Of the same rate all. Either p runs dry first, or what all share does.
			plan := planAfter(t, fmt.Sprintf(`version: 1
flows: 64
profiles:
  p: { %s }
  q: { meter: token, cir: 1MB/s, cbs: 1GB }
  r: { meter: token, cir: 1MB/s, cbs: 1200MB }
classes:
  - { name: all, meters: [ %s ] }
`, c.profile, c.meters), nil)
			p, err := Load(plan, Options{Seeds: randomSeeds()})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { p.Close() })
			contend(t, p, plan, c.flows)
		})
	}
}

func contend(t *testing.T, p *Program, plan *marker.Plan, flows int) {
	cpus := allowedCPUs(t, 4)
	frame := func(i int) []byte { return contendedFrame(byte(i % flows)) }
	for i := range cpus {
		flatOut(t, p, frame(i), contendedDrain/len(cpus))
	}
	before := snapshot(t, p)
	onEach(t, cpus, func(i int) { flatOut(t, p, frame(i), contendedRuns/len(cpus)) })
	after := snapshot(t, p)
	settleUp(t, before, after, contendedRate)

	counters := classStats(t, p, plan)[0]
	metered, first := meteredAt(after, plan, 0), meteredAt(before, plan, 0)
	metered[marker.Red] += counters.Contended // no bucket saw those
	if diff := cmp.Diff(metered, counters.Packets); diff != "" {
		t.Errorf("the class's packets by color (-buckets' +class's):\n%s", diff)
	}
	if metered[marker.Red] == first[marker.Red] || counters.Overflow != 0 {
		t.Errorf("%d red packets, %d before all ran at once; %d in overflow: this proves little", metered[marker.Red], first[marker.Red], counters.Overflow)
	}
	t.Logf("%d CPUs: packets %d, contended %d, clock back %d", len(cpus), counters.Packets, counters.Contended, counters.ClockBack)
}

// settleUp holds every bucket, and there must be the same ones, to what it held before and earned since, at a
// rate in bytes per second: that is what it accepted and what is left, to the nanobyte.
func settleUp(t *testing.T, before, after map[maps.Slot]marker.Slot, rate uint64) {
	t.Helper()
	if len(after) != len(before) || len(before) == 0 {
		t.Fatalf("%d buckets before, %d after", len(before), len(after))
	}
	for at, b := range before {
		a := after[at]
		earned := (a.Bucket.Last - b.Bucket.Last) * rate
		accepted := (a.Bytes[marker.Green] + a.Bytes[marker.Yellow] - b.Bytes[marker.Green] - b.Bytes[marker.Yellow]) * marker.Nano
		held := b.Bucket.Tc + b.Bucket.Tx
		left := a.Bucket.Tc + a.Bucket.Tx
		if accepted > 0 {
			t.Logf("set %d slot %d: %d nanobytes at first and %d earned; %d accepted, %d left; packets %d",
				at.Set, at.Slot, held, earned, accepted, left, a.Packets)
		}
		if held+earned != accepted+left {
			t.Errorf("set %d slot %d: %d nanobytes too many accepted", at.Set, at.Slot, int64(accepted+left-held-earned))
		}
	}
}

// meteredAt sums what the buckets of a chain's position saw, by color: each packet once.
func meteredAt(slots map[maps.Slot]marker.Slot, plan *marker.Plan, position int) (packets [marker.Colors]uint64) {
	for at, s := range slots {
		if plan.Geometry.Position(at.Set) != position {
			continue
		}
		for i := range packets {
			packets[i] += s.Packets[i]
		}
	}
	return packets
}

func classStats(t *testing.T, p *Program, plan *marker.Plan) []marker.ClassStats {
	t.Helper()
	stats, err := p.Maps.Stats(plan)
	if err != nil {
		t.Fatal(err)
	}
	return stats.Classes
}

// onEach runs do on every one of these CPUs at once, in a thread bound to it.
func onEach(t *testing.T, cpus []int, do func(i int)) {
	t.Helper()
	var wg, together sync.WaitGroup
	together.Add(len(cpus))
	for i, cpu := range cpus {
		wg.Go(func() {
			runtime.LockOSThread() // it ends with its goroutine
			var set unix.CPUSet
			set.Set(cpu)
			if err := unix.SchedSetaffinity(0, &set); err != nil {
				t.Error(err)
			}
			together.Done()
			together.Wait()
			do(i)
		})
	}
	wg.Wait()
}

// flatOut polices one frame so many times.
func flatOut(t *testing.T, p *Program, frame []byte, packets int) {
	if _, _, err := p.Benchmark(frame, packets, nil); err != nil {
		t.Error(err)
	}
}

// allowedCPUs are the CPUs that the test may run on, so many at most.
func allowedCPUs(t *testing.T, most int) (cpus []int) {
	t.Helper()
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	for cpu := 0; cpu < 1024 && len(cpus) < most; cpu++ {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus
}

func contendedFrame(flow byte) []byte {
	f := make([]byte, 14+contendedLength)
	f[12] = 0x08
	ip := f[14:]
	ip[0], ip[8], ip[9] = 0x45, 64, 17
	binary.BigEndian.PutUint16(ip[2:], contendedLength)
	copy(ip[12:], []byte{10, 0, flow, 1, 192, 0, 2, 1})
	return f
}

// snapshot is every bucket in use, while nobody polices.
func snapshot(t *testing.T, p *Program) map[maps.Slot]marker.Slot {
	t.Helper()
	b, err := maps.OpenBuckets(p.Maps.Buckets)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	torn, slots := 0, map[maps.Slot]marker.Slot{}
	for at, s := range b.All(&torn) {
		slots[at] = *s
	}
	if torn != 0 {
		t.Errorf("%d sets are locked, with nobody there", torn)
	}
	return slots
}
