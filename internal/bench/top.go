package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tricolor-policer/tricolor/loader"
	"github.com/tricolor-policer/tricolor/maps"
	"github.com/tricolor-policer/tricolor/marker"
)

// topSection writes what reading the kernel's table of 1M slots takes, half of them used: all of it as dump does, and
// by top's tally, where a part of the buckets counted packets meanwhile.
func topSection(t *table) error {
	plan, err := planOf(marker.Params{Meter: marker.SRTCM, CIR: plenty.rate, CBS: plenty.burst, EBS: 1 << 20}, 1<<20)
	if err != nil {
		return err
	}
	p, err := loader.Load(plan, loader.Options{Seeds: marker.SeedsFrom(1)})
	if err != nil {
		return err
	}
	buckets, err := maps.OpenBuckets(p.Maps.Buckets)
	if err != nil {
		return errors.Join(err, p.Close())
	}
	err = p.Maps.Memory(func(sets []marker.Set) error {
		measureTop(t, buckets, plan.Geometry, sets[:plan.Geometry.Reserved])
		return nil
	})
	return errors.Join(err, buckets.Close(), p.Close())
}

func measureTop(t *table, buckets *maps.Buckets, g marker.Geometry, sets []marker.Set) {
	r := rand.New(rand.NewPCG(1, 0))
	for used := 0; used < len(sets)*marker.SetSlots/2; {
		set, slot := &sets[r.IntN(len(sets))], r.IntN(marker.SetSlots)
		if set.Tag(slot) == 0 {
			set[0].Tags |= 1 << (8 * slot)
			set[slot].Key[0] = r.Uint64()
			used++
		}
	}
	tally := maps.NewTally(buckets, g)
	rank := func(c *maps.Counted) uint64 { return c.Bytes[marker.Green] }
	now := uint64(time.Second)
	tally.Read(now, 0, rank)
	shares := []int{0, 1, 10} // percent
	var all figure
	took := make([]figure, len(shares))
	for range rounds {
		start, torn := time.Now(), 0
		for range buckets.All(&torn) {
		}
		all = append(all, float64(time.Since(start).Microseconds())/1000)
		for i, share := range shares {
			for at := range sets {
				for slot := range sets[at] {
					if share > 0 && sets[at].Tag(slot) != 0 && r.IntN(100) < share {
						sets[at][0].Lock += 2
						sets[at][slot].Packets[marker.Green]++
						sets[at][slot].Bytes[marker.Green] += r.Uint64N(1500)
					}
				}
			}
			now += uint64(time.Second)
			start = time.Now()
			tally.Read(now, 1000, rank)
			took[i] = append(took[i], float64(time.Since(start).Microseconds())/1000)
		}
	}
	t.row("1M slots, half used: all buckets, as dump reads them", all, "ms", "")
	for i, share := range shares {
		t.row(fmt.Sprintf("the same: top's reading, %d %% counted packets", share), took[i], "ms",
			fmt.Sprintf("%.2f of that", took[i].median()/all.median()))
	}
}
