package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/tricolor-policer/tricolor/loader"
	"github.com/tricolor-policer/tricolor/marker"
)

// memoryFlows is how many flows each policer is given to hold; its memory for one is what all of them took,
// divided.
const memoryFlows = 200_000

// memorySection writes the memory a flow takes. The peers' is what the kernel's counters grew by from before the
// rules were there; ours is what the kernel says of the table, which is all there from the start.
func memorySection(t *table) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("%w: a flood needs root", errLeftOut)
	}
	slots, err := slotBytes()
	if err != nil {
		return err
	}
	t.row("memory, ours, a slot", figure{slots}, "B", "128")
	t.row("memory, ours, a flow, with two slots for each", figure{2 * slots}, "B", "")
	for _, p := range []policer{nftSet, hashlimit} {
		f, err := flowBytes(p)
		if errors.Is(err, errNoPeer) {
			t.note("%s is left out: %v", p.name, err)
			continue
		}
		if err != nil {
			return err
		}
		t.row("memory, "+p.name+", a flow", f, "B", "")
	}
	return nil
}

// slotBytes returns the memory of a table of 2^20 slots, by slot.
func slotBytes() (float64, error) {
	const slots = 1 << 20
	plan, err := planOf(marker.Params{Meter: marker.Token, CIR: plenty.rate, CBS: plenty.burst}, slots)
	if err != nil {
		return 0, err
	}
	p, err := loader.Load(plan, loader.Options{Seeds: marker.SeedsFrom(1)})
	if err != nil {
		return 0, err
	}
	defer p.Close()
	info, err := p.Maps.Buckets.Info()
	if err != nil {
		return 0, err
	}
	bytes, ok := info.Memlock()
	if !ok {
		return 0, errors.New("the kernel does not say what memory a map takes")
	}
	return float64(bytes) / slots, nil
}

// flowBytes returns the memory that a policer takes for a flow, measured three times.
func flowBytes(p policer) (f figure, err error) {
	for range 3 {
		used, err := growth(p)
		if err != nil {
			return nil, err
		}
		f = append(f, used/memoryFlows)
	}
	return f, nil
}

// growth returns by how many bytes the kernel's memory grew when a policer was installed and filled.
func growth(p policer) (bytes float64, err error) {
	bare, err := newTarget(nothing, plenty, nowhere)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, bare.close()) }()
	if err := bare.warm(memoryFlows); err != nil {
		return 0, err
	}
	before, err := settledMemory() // the last laboratory's is given back in the kernel's own time
	if err != nil {
		return 0, err
	}
	b := plenty
	b.flows = memoryFlows
	if _, err := p.install(bare.lab.Right, b); err != nil {
		return 0, err
	}
	if err := bare.warm(memoryFlows); err != nil {
		return 0, err
	}
	after, err := settledMemory()
	return after - before, err
}

// settledMemory waits until the kernel's memory stays the same to within 256 KiB for half a second, for ten
// seconds at most.
func settledMemory() (bytes float64, err error) {
	since, end := time.Now(), time.Now().Add(10*time.Second)
	for {
		now, err := kernelMemory()
		if err != nil {
			return 0, err
		}
		if math.Abs(now-bytes) > 256<<10 {
			bytes, since = now, time.Now()
		}
		if time.Since(since) > time.Second/2 || time.Now().After(end) {
			return now, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// kernelMemory returns the bytes the kernel itself uses that a table of flows could be in.
func kernelMemory() (bytes float64, err error) {
	table, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, fmt.Errorf("read the kernel's memory: %w", err)
	}
	found := 0
	for line := range strings.Lines(string(table)) {
		switch f := strings.Fields(line); f[0] {
		case "Slab:", "Percpu:", "VmallocUsed:":
			kib, err := strconv.ParseUint(f[1], 10, 64)
			if err != nil {
				return 0, fmt.Errorf("read the kernel's memory: %w", err)
			}
			bytes += float64(kib) * 1024
			found++
		}
	}
	if found != 3 {
		return 0, errors.New("/proc/meminfo lacks Slab, Percpu or VmallocUsed")
	}
	return bytes, nil
}
