package pcaptest

import (
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/loader"
	"github.com/tricolor-policer/tricolor/maps"
	"github.com/tricolor-policer/tricolor/marker"
)

// The kernel program on all CPUs at once. A test run is what a packet is on a live hook, but for the
// clock, which the test sets.

// cpus runs f on each CPU at the same time, on a thread that stays there.
func cpus(t *testing.T, f func(cpu, of int)) {
	t.Helper()
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		t.Fatal(err)
	}
	var numbers []int
	for cpu := range 1024 {
		if allowed.IsSet(cpu) {
			numbers = append(numbers, cpu)
		}
	}
	if len(numbers) < 2 {
		t.Skip("needs two CPUs to race")
	}
	var wait sync.WaitGroup
	for i, cpu := range numbers {
		wait.Go(func() {
			runtime.LockOSThread() // never unlocked: the thread ends with its affinity
			var one unix.CPUSet
			one.Set(cpu)
			if err := unix.SchedSetaffinity(0, &one); err != nil {
				t.Error(err)
			}
			f(i, len(numbers))
		})
	}
	wait.Wait()
}

// barrier lets all CPUs go on at the same moment.
type barrier struct{ arrived atomic.Int64 }

func (b *barrier) wait(of int) {
	n := b.arrived.Add(1)
	round := (n + int64(of) - 1) / int64(of) * int64(of)
	for b.arrived.Load() < round {
		runtime.Gosched()
	}
}

// keyedFrame is a UDP packet of flow number key with length bytes of IP, cut to its headers.
func keyedFrame(data *[42]byte, key uint32, length int) marker.Frame {
	*data = [42]byte{12: 0x08, 14: 0x45, 22: 64, 23: 17, 30: 192, 32: 2, 33: 1}
	binary.BigEndian.PutUint16(data[16:], uint16(length))
	binary.BigEndian.PutUint32(data[26:], key)
	return marker.Frame{Data: data[:], Length: uint32(length) + 14}
}

// With the clock frozen, new keys raced by all CPUs: exactly floor(burst / L) packets of each are
// accepted, and each has one slot.
func TestRaceOnNewKeys(t *testing.T) {
	testutils.RequireKernel(t)
	const (
		keys   = 10_000
		length = 100
		burst  = 1050
		now    = 1 << 40
		offers = 2*burst/length + 2 // a key and CPU: more than 2 × burst for all together
	)
	plan := planOf(t, marker.Params{Meter: marker.Token, CIR: 1_000_000, CBS: burst}, marker.PerFlow, 1<<16)
	program, buckets := loadForRace(t, plan)
	var accepted [keys]atomic.Int64
	var together barrier
	cpus(t, func(_, of int) {
		runner := loader.NewRunner(program)
		var data [42]byte
		for key := range uint32(keys) {
			together.wait(of)
			for range offers {
				f := keyedFrame(&data, key, length)
				out, err := runner.Run(&f, now)
				if err != nil {
					t.Error(err)
					return
				}
				if out.Color == marker.Green {
					accepted[key].Add(1)
				}
			}
		}
	})
	for key := range accepted {
		if n := accepted[key].Load(); n != burst/length {
			t.Errorf("key %d: %d packets accepted, not %d", key, n, burst/length)
		}
	}
	slots := map[marker.Key]int{}
	torn := 0
	for _, s := range buckets.All(&torn) {
		slots[s.Key]++
		if s.Bucket.Tc != burst%length*marker.Nano {
			t.Errorf("%v: %d nanobytes left, not %d", s.Key, s.Bucket.Tc, burst%length*marker.Nano)
		}
	}
	for k, n := range slots {
		if n != 1 {
			t.Errorf("%v has %d slots", k, n)
		}
	}
	stats, err := program.Maps.Stats(plan)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d keys in %d slots, %+v", keys, len(slots), stats)
	if len(slots) != keys || torn != 0 || stats.Classes[0].Overflow != 0 {
		t.Errorf("%d keys, %d torn, %d in overflow", len(slots), torn, stats.Classes[0].Overflow)
	}
}

func loadForRace(t *testing.T, plan *marker.Plan) (*loader.Program, *maps.Buckets) {
	t.Helper()
	program, err := loader.Load(plan, loader.Options{Seeds: marker.SeedsFrom(testutils.Seed(t)), Replay: true})
	if err != nil {
		t.Fatal(err)
	}
	buckets, err := maps.OpenBuckets(program.Maps.Buckets)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := buckets.Close(); err != nil {
			t.Error(err)
		}
		if err := program.Close(); err != nil {
			t.Error(err)
		}
	})
	return program, buckets
}

// accepted is one packet let through.
type accepted struct {
	now   uint64
	bytes uint64
}

// worst returns by how many nanobytes the packets exceed the envelope in their worst interval; at most
// 0 where they keep it. slack widens every interval, in ns.
func worst(packets []accepted, burst, rate, slack uint64) int64 {
	slices.SortFunc(packets, func(a, b accepted) int { return int(int64(a.now) - int64(b.now)) })
	// The greatest A(s, t) - r (t - s), in one pass: what is above the envelope's slope, never below 0.
	over, greatest := int64(0), int64(0)
	last := uint64(0)
	for i, p := range packets {
		if i > 0 {
			over = max(0, over-int64((p.now-last)*rate))
		}
		over += int64(p.bytes * marker.Nano)
		last = p.now
		greatest = max(greatest, over)
	}
	return greatest - int64(burst*marker.Nano) - int64(slack*rate)
}

// A full table, with overflow and forgetting, raced by all CPUs: no key gets more than its envelope.
// First all CPUs share a clock that stands still while they race, so that the envelope is exact; then
// each has a clock of its own that runs on as it likes.
func TestRaceOnFullTable(t *testing.T) {
	testutils.RequireKernel(t)
	const (
		keys  = 300
		burst = 2000
		rate  = 1_000_000 // fills a bucket in 2 ms
		start = 1 << 40
	)
	for _, shared := range []bool{true, false} {
		name := map[bool]string{true: "one clock", false: "a clock each"}[shared]
		t.Run(name, func(t *testing.T) {
			plan := planOf(t, marker.Params{Meter: marker.Token, CIR: rate, CBS: burst}, marker.PerFlow, 64)
			program, _ := loadForRace(t, plan)
			seed := testutils.Seed(t)
			var (
				mutex   sync.Mutex
				through [keys][]accepted
				skew    atomic.Uint64
				clock   atomic.Uint64
				wait    barrier
			)
			clock.Store(start)
			cpus(t, func(cpu, of int) {
				r := rand.New(rand.NewPCG(seed, uint64(cpu)))
				steps := rand.New(rand.NewPCG(seed, 1000)) // the same for all
				runner := loader.NewRunner(program)
				var mine [keys][]accepted
				var data [42]byte
				now := uint64(start)
				for range 400 {
					if shared {
						wait.wait(of)
						now += steps.Uint64N(1_000_000)
					}
					for range 200 {
						if !shared {
							now = clock.Add(r.Uint64N(10_000))
						}
						key, length := uint32(r.IntN(keys)), 40+r.IntN(1000)
						f := keyedFrame(&data, key, length)
						out, err := runner.Run(&f, now)
						if err != nil {
							t.Error(err)
							return
						}
						if out.Color == marker.Green {
							mine[key] = append(mine[key], accepted{now, uint64(length)})
						}
						if !shared {
							behind := clock.Load() - now
							for s := skew.Load(); behind > s && !skew.CompareAndSwap(s, behind); s = skew.Load() {
							}
						}
					}
				}
				mutex.Lock()
				defer mutex.Unlock()
				for key := range mine {
					through[key] = append(through[key], mine[key]...)
				}
			})
			stats, err := program.Maps.Stats(plan)
			if err != nil {
				t.Fatal(err)
			}
			most, packets := int64(-1<<62), 0
			for key := range through {
				packets += len(through[key])
				over := worst(through[key], burst, rate, skew.Load())
				if most = max(most, over); over > 0 {
					t.Errorf("key %d is %d nanobytes above its envelope", key, over)
				}
			}
			t.Logf("%d packets accepted, the key nearest to its envelope is %d bytes below it, clocks up to %d ns apart: %+v",
				packets, -most/marker.Nano, skew.Load(), stats.Classes[0])
			if stats.Classes[0].Overflow == 0 || packets == 0 {
				t.Errorf("the table was never full, or nothing was accepted: %+v", stats)
			}
		})
	}
}
