package main

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tricolor-policer/tricolor/maps"
	"github.com/tricolor-policer/tricolor/marker"
)

// lane is one CPU's part: a driver that it runs flat out.
type lane struct {
	cpu int
	*driver
	frame []byte
}

const (
	laneTime  = 150 * time.Millisecond
	laneChunk = 20_000 // packets
)

// flatOut runs all lanes at once, each on its CPU, and returns how many packets a nanosecond they did together.
func flatOut(lanes []lane) (float64, error) {
	var (
		wg    sync.WaitGroup
		ready atomic.Int32
		mu    sync.Mutex
		total float64
		errs  []error
	)
	for _, l := range lanes {
		wg.Go(func() {
			speed, err := l.run(&ready, int32(len(lanes)))
			mu.Lock()
			defer mu.Unlock()
			total += speed
			errs = append(errs, err)
		})
	}
	wg.Wait()
	return total, errors.Join(errs...)
}

// run starts when all lanes are ready. Its thread stays on its CPU, and ends with it.
func (l *lane) run(ready *atomic.Int32, of int32) (float64, error) {
	runtime.LockOSThread()
	var set unix.CPUSet
	set.Set(l.cpu)
	err := unix.SchedSetaffinity(0, &set)
	ready.Add(1)
	if err != nil {
		return 0, err
	}
	for ready.Load() < of {
		runtime.Gosched()
	}
	start, packets := time.Now(), 0
	for time.Since(start) < laneTime {
		if _, err := perPacket(l.Program, l.frame, laneChunk); err != nil {
			return 0, err
		}
		packets += laneChunk
	}
	return float64(packets) / float64(time.Since(start)), nil
}

// Bursts that, once used, are not full again while the bench runs: so what was earned can be told exactly. A packet
// is charged 1,000 bytes, to be at the end of them soon.
var exactPolicy = oneBucket(1<<16, "meter: srtcm, cir: 8gbit, cbs: 4GB, ebs: 4GB", "overhead: +950")

// contentionSection has two CPUs flat out on one bucket, on two, and on two chains that share a bucket.
func contentionSection(t *table) error {
	cpus, err := twoCPUs()
	if err != nil {
		return err
	}
	const slots = 1 << 16
	for _, k := range []struct {
		name, text string
		second     uint32 // the other CPU's flow
		target     string
	}{
		{"an empty program", "", 0, ""},
		{"one bucket", oneBucket(slots, profileGreen), 0, ">= 70"},
		{"one bucket, green and red", exactPolicy, 0, ">= 70"},
		{"two buckets", oneBucket(slots, profileGreen), 1, ""},
		{"chain of three, the same", threeBuckets(slots, profileGreen), 0, ""},
		{"chain of three, the interface's shared", threeBuckets(slots, profileGreen), 1 << 8, ""},
	} {
		if err := contend(t, k.name, k.text, k.second, k.target, cpus); err != nil {
			return err
		}
	}
	return nil
}

// twoCPUs are two CPUs that this process may run on.
func twoCPUs() (cpus []int, err error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, err
	}
	for cpu := 0; len(cpus) < 2 && cpu < 1024; cpu++ {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	if len(cpus) < 2 {
		return nil, errors.Join(errLeftOut, errors.New("contention takes two CPUs"))
	}
	return cpus, nil
}

func contend(t *table, name, text string, second uint32, target string, cpus []int) error {
	plan, err := compile(text)
	if err != nil {
		return err
	}
	a, err := newArm(plan, udp4(1))
	if err != nil {
		return err
	}
	defer a.Close()
	called := a.nothing
	if a.policer != nil {
		called = a.policer.Program
	}
	other := udp4(1)
	other.first = second
	d, err := newDriver(called, other)
	if err != nil {
		return err
	}
	defer d.Close()
	lanes := []lane{{cpus[0], a.driver, a.stream.frame}, {cpus[1], d, other.frame}}

	if _, err := perPacket(a.driver.Program, a.stream.frame, 2_000_000); err != nil {
		return err
	}
	before, err := a.bucket()
	if err != nil {
		return err
	}
	var alone, both figure
	for range rounds {
		one, err := flatOut(lanes[:1])
		if err != nil {
			return err
		}
		two, err := flatOut(lanes)
		if err != nil {
			return err
		}
		alone, both = append(alone, one), append(both, two)
	}
	t.row(name+": two CPUs' packets, of one CPU's", both.percentOf(alone), "%", target)
	if a.policer == nil {
		return nil
	}
	stats, err := a.colors()
	if err != nil {
		return err
	}
	t.row("  contended", figure{1e6 * float64(stats.Contended) / float64(sum(stats.Packets))}, "ppm", "<= 1000")
	if text == exactPolicy {
		after, err := a.bucket()
		if err != nil {
			return err
		}
		t.row("  green and yellow", figure{100 - 100*float64(stats.Packets[marker.Red])/float64(sum(stats.Packets))}, "%", "")
		t.row("  tokens + rate × time − accepted − left", figure{unaccounted(&before, &after, a.plan.Profiles[0].CIR)}, "nB", "0")
	}
	return nil
}

// bucket is the first bucket of the table that is in use.
func (a *arm) bucket() (slot marker.Slot, err error) {
	if a.policer == nil {
		return slot, nil
	}
	b, err := maps.OpenBuckets(a.policer.Maps.Buckets)
	if err != nil {
		return slot, err
	}
	defer b.Close()
	torn := 0
	for _, s := range b.All(&torn) {
		return *s, nil
	}
	return slot, errors.New("no bucket is in use")
}

// unaccounted is what a bucket's tokens before, with what it earned since, are over what was accepted and what is
// left: nanobytes. It counts modulo 2^64.
func unaccounted(before, after *marker.Slot, rate uint64) float64 {
	tokens := func(s *marker.Slot) uint64 { return s.Bucket.Tc + s.Bucket.Tx }
	accepted := func(s *marker.Slot) uint64 { return (s.Bytes[marker.Green] + s.Bytes[marker.Yellow]) * marker.Nano }
	earned := (after.Bucket.Last - before.Bucket.Last) * rate
	return float64(int64(tokens(before) + earned - (accepted(after) - accepted(before)) - tokens(after)))
}
