package pcaptest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/loader"
	"github.com/tricolor-policer/tricolor/marker"
)

// Changes of policy while all CPUs police.

// changingPolicy is a policy whose rates and bursts are given; two of them carry all buckets over.
func changingPolicy(rate, burst string) policyFiles {
	return policyFiles{text: fmt.Sprintf(`version: 1
flows: 4096
profiles:
  flow: { meter: token, cir: %s, cbs: %s }
  link: { meter: srtcm, cir: 80gbit, cbs: 1GB, ebs: 1GB }
classes:
  - name: all
    meters: [ { profile: flow, per: flow }, { profile: link, per: interface } ]
`, rate, burst)}
}

// bpfObjects counts the BPF maps and programs that this process holds: what nobody holds is gone.
func bpfObjects(t *testing.T) (n int) {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		to, err := os.Readlink(filepath.Join("/proc/self/fd", fd.Name()))
		if err == nil && strings.HasPrefix(to, "anon_inode:bpf") {
			n++
		}
	}
	return n
}

// changesWanted is how often a policy is changed while packets come: each change waits for packets under way,
// some ten milliseconds.
func changesWanted() int {
	if testing.Short() {
		return 100
	}
	return 1000
}

// raceChanges changes the policy over and over, into each plan in turn, while all CPUs police until it is done.
// clock is what the changes are stamped with.
func raceChanges(t *testing.T, program *loader.Program, plans []*marker.Plan, clock func() uint64, police func(of int, r *loader.Runner, done func() bool) error) {
	t.Helper()
	changer, err := loader.NewChanger(program.Maps, true)
	if err != nil {
		t.Fatal(err)
	}
	var done atomic.Bool
	var wait sync.WaitGroup
	changes := changesWanted()
	wait.Go(func() {
		defer done.Store(true)
		began := time.Now()
		for i := range changes {
			plan := *plans[i%len(plans)]
			if err := changer.Apply(&plan, clock(), 0); err != nil {
				t.Error(err)
				return
			}
		}
		t.Logf("%d changes, %v each", changes, time.Since(began)/time.Duration(changes))
	})
	cpus(t, func(_, of int) {
		if err := police(of, loader.NewRunner(program), done.Load); err != nil {
			t.Error(err)
		}
	})
	wait.Wait()
	if err := changer.Close(); err != nil {
		t.Error(err)
	}
}

// With the clock frozen, drained buckets stay drained through 1,000 changes, into the same policy and others.
func TestChangesGrantNothing(t *testing.T) {
	testutils.RequireKernel(t)
	const (
		keys   = 64
		length = 100
		now    = 1 << 40
	)
	first := changingPolicy("8mbit", "1050B")
	faster, narrow := changingPolicy("8gbit", "9000B"), changingPolicy("8kbit", "150B")
	plan := first.mustCompile(t, nil)
	plans := []*marker.Plan{first.mustCompile(t, plan), first.mustCompile(t, plan), faster.mustCompile(t, plan), narrow.mustCompile(t, plan), faster.mustCompile(t, plan)}
	program, buckets := loadForRace(t, plan)
	objects := bpfObjects(t)
	drain := func(r *loader.Runner, data *[42]byte, key uint32) (green int, err error) {
		for range 12 {
			f := keyedFrame(data, key, length)
			out, err := r.Run(&f, now)
			if err != nil {
				return 0, err
			}
			if out.Kind != marker.Metered {
				return 0, fmt.Errorf("a packet was not metered: %+v", out)
			}
			if out.Color == marker.Green {
				green++
			}
		}
		return green, nil
	}
	runner := loader.NewRunner(program)
	var data [42]byte
	for key := range uint32(keys) {
		if n, err := drain(runner, &data, key); err != nil || n != 10 {
			t.Fatalf("%d packets accepted, not 10: %v", n, err)
		}
	}
	var packets, green atomic.Int64
	raceChanges(t, program, plans, func() uint64 { return now }, func(_ int, r *loader.Runner, done func() bool) error {
		var data [42]byte
		for key := uint32(0); !done(); key = (key + 1) % keys {
			n, err := drain(r, &data, key)
			if err != nil {
				return err
			}
			packets.Add(12)
			green.Add(int64(n))
		}
		return nil
	})
	t.Logf("%d packets", packets.Load())
	if green.Load() != 0 {
		t.Errorf("%d packets were accepted out of drained buckets", green.Load())
	}
	torn := 0
	for at, s := range buckets.All(&torn) {
		if at.Set >= plan.Geometry.Reserved {
			continue // the link's, and overflow buckets that nobody spent from
		}
		if s.Bucket.Tc > 50*marker.Nano {
			t.Errorf("%v: %d nanobytes left, not at most %d", s.Key.Fields(), s.Bucket.Tc, 50*marker.Nano)
		}
	}
	if n := bpfObjects(t); n != objects {
		t.Errorf("%d BPF objects are held, %d before the changes", n, objects)
	}
}

// With a moving clock, the same on all CPUs, every packet is metered through 1,000 changes, and no key gets more
// than the larger rate and burst, exactly.
func TestChangesKeepTheEnvelope(t *testing.T) {
	testutils.RequireKernel(t)
	const (
		keys  = 16
		rate  = 1_000_000 // the larger
		burst = 5000
	)
	slow, fast := changingPolicy("2mbit", "5000B"), changingPolicy("8mbit", "3000B")
	plan := slow.mustCompile(t, nil)
	program, _ := loadForRace(t, plan)
	objects := bpfObjects(t)
	plans := []*marker.Plan{fast.mustCompile(t, plan), slow.mustCompile(t, plan)}
	seed := testutils.Seed(t)
	var (
		clock, packets, contended, numbers atomic.Uint64
		together                           barrier
		last                               atomic.Bool
		mutex                              sync.Mutex
		through                            [keys][]accepted
	)
	clock.Store(1 << 40)
	raceChanges(t, program, plans, clock.Load, func(of int, runner *loader.Runner, done func() bool) error {
		number := numbers.Add(1)
		r := rand.New(rand.NewPCG(seed, number))
		steps := rand.New(rand.NewPCG(seed, 0)) // the same for all
		var mine [keys][]accepted
		var data [42]byte
		var failed error
		now := uint64(1 << 40)
		for !last.Load() {
			// All go on together, and end together.
			together.wait(of)
			now += steps.Uint64N(100_000)
			clock.Store(now)
			for range 20 {
				key, length := uint32(r.IntN(keys)), 40+r.IntN(1000)
				f := keyedFrame(&data, key, length)
				out, err := runner.Run(&f, now)
				switch {
				case err != nil:
					failed = err
				case out.Kind != marker.Metered:
					failed = fmt.Errorf("a packet was not metered: %+v", out)
				case out.Slots[0] == marker.NoSet:
					contended.Add(1)
				case out.Color == marker.Green:
					mine[key] = append(mine[key], accepted{now, uint64(length)})
				}
				packets.Add(1)
			}
			together.wait(of)
			if number == 1 && done() {
				last.Store(true)
			}
			together.wait(of)
		}
		mutex.Lock()
		defer mutex.Unlock()
		for key := range mine {
			through[key] = append(through[key], mine[key]...)
		}
		return failed
	})
	nearest, green := int64(-1<<62), 0
	for key := range through {
		green += len(through[key])
		over := worst(through[key], burst, rate, 0)
		if nearest = max(nearest, over); over > 0 {
			t.Errorf("key %d is %d nanobytes above the envelope", key, over)
		}
	}
	t.Logf("%d packets, %d accepted, %d contended; the key nearest to the envelope is %d bytes below it",
		packets.Load(), green, contended.Load(), -nearest/marker.Nano)
	if green == 0 {
		t.Error("nothing was accepted")
	}
	if n := bpfObjects(t); n != objects {
		t.Errorf("%d BPF objects are held, %d before the changes", n, objects)
	}
}
