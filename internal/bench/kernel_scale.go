package main

import (
	"fmt"
	"time"

	"github.com/cilium/ebpf"

	"github.com/tricolor-policer/tricolor/marker"
)

// profileInUse: a bucket earns a byte a second, and so is not full again while the bench runs, and not forgotten.
const profileInUse = "meter: srtcm, cir: 8bit, cbs: 1GB, ebs: 0B"

// scaleSection has four million flows, in tables of two sizes.
func scaleSection(t *table) error {
	const flows = 4_000_000
	for _, k := range []struct {
		name, profile string
		slots         int
	}{
		{"8M slots, all flows in use", profileInUse, 1 << 23},
		{"4M slots, all flows in use", profileInUse, 1 << 22},
		{"4M slots, each flow full again at once", profileGreen, 1 << 22},
	} {
		if err := scale(t, k.name, oneBucket(k.slots, k.profile), udp4(flows), k.slots); err != nil {
			return err
		}
	}
	return nil
}

func scale(t *table, name, text string, packets stream, slots int) error {
	plan, err := compile(text)
	if err != nil {
		return err
	}
	var load figure
	for range 3 {
		start := time.Now()
		if err := loadOnce(plan); err != nil {
			return err
		}
		load = append(load, float64(time.Since(start))/float64(time.Millisecond))
	}
	arms, closeAll, err := armsOf(packets, "", text)
	if err != nil {
		return err
	}
	defer closeAll()
	ours := arms[1]
	before, err := ours.colors()
	if err != nil {
		return err
	}
	if err := timeArms(arms, rounds, 500_000); err != nil {
		return err
	}
	after, err := ours.colors()
	if err != nil {
		return err
	}
	memory, err := memoryOf(ours.policer.Maps.Buckets)
	if err != nil {
		return err
	}
	packetsSent := sum(after.Packets) - sum(before.Packets)
	t.row("4M flows at random, "+name, ours.over(arms[0]), "ns", "")
	t.row("  load, and take off again", load, "ms", "")
	t.row("  memory of the buckets, a slot", figure{memory / float64(slots)}, "B", "<= 128")
	t.row("  packets metered in overflow", figure{100 * float64(after.Overflow-before.Overflow) / float64(packetsSent)}, "%", "")
	return nil
}

func sum(n [marker.Colors]uint64) uint64 { return n[0] + n[1] + n[2] }

// memoryOf is how many bytes of memory a map takes, as the kernel counts them.
func memoryOf(m *ebpf.Map) (float64, error) {
	info, err := m.Info()
	if err != nil {
		return 0, err
	}
	bytes, ok := info.Memlock()
	if !ok {
		return 0, fmt.Errorf("the kernel does not tell the memory of %s", m)
	}
	return float64(bytes), nil
}
