package main

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"

	"github.com/tricolor-policer/tricolor/loader"
	"github.com/tricolor-policer/tricolor/maps"
	"github.com/tricolor-policer/tricolor/marker"
)

// scrapeSlots is the table of which a scrape counts the slots in use; half of them are.
const scrapeSlots = 1 << 20

// scrapeSection writes what it takes to tell how full a table is, as the exporter does on every scrape, beside reading
// every bucket as "show" does, and beside copying the table out of the kernel.
func scrapeSection(t *table) error {
	plan, err := planOf(marker.Params{Meter: marker.Token, CIR: plenty.rate, CBS: plenty.burst}, scrapeSlots)
	if err != nil {
		return err
	}
	p, err := loader.Load(plan, loader.Options{Seeds: marker.SeedsFrom(1)})
	if err != nil {
		return err
	}
	defer p.Close()
	if err := halfFill(p.Maps.Buckets, plan.Geometry); err != nil {
		return err
	}
	copied := make([]marker.Set, p.Maps.Buckets.MaxEntries())
	ways := []struct {
		what  string
		count func() (uint64, error)
		took  figure
	}{
		{what: "exporter: mapped, tags alone", count: func() (uint64, error) { return countTags(p.Maps.Buckets, plan.Geometry) }},
		{what: "show: mapped, every bucket", count: func() (uint64, error) { return countBuckets(p.Maps.Buckets, plan.Geometry) }},
		{what: "copied out by batches, tags alone", count: func() (uint64, error) { return countCopied(p.Maps.Buckets, copied) }},
	}
	for range rounds {
		for i := range ways {
			start := time.Now()
			used, err := ways[i].count()
			ways[i].took = append(ways[i].took, float64(time.Since(start).Microseconds())/1000)
			if err != nil {
				return fmt.Errorf("%s: %w", ways[i].what, err)
			}
			if used != scrapeSlots/2 {
				return fmt.Errorf("%s: %d slots in use, not %d", ways[i].what, used, scrapeSlots/2)
			}
		}
	}
	for _, w := range ways {
		t.row(fmt.Sprintf("%s, %d slots", w.what, scrapeSlots), w.took, "ms", "")
	}
	for i := range ways[1:] {
		t.row(ways[i+1].what+", by the exporter's", ways[i+1].took.by(ways[0].took), "times", "")
	}
	return nil
}

// halfFill puts buckets in two slots of each keyed set.
func halfFill(m *ebpf.Map, g marker.Geometry) error {
	var set marker.Set
	set[0].Tags = 0x00070007
	value := unsafe.Slice((*byte)(unsafe.Pointer(&set)), unsafe.Sizeof(set))
	for i := range g.Stages[0].Mask + 1 {
		if err := m.Put(g.Stages[0].Base+i, value); err != nil {
			return err
		}
	}
	return nil
}

func countTags(m *ebpf.Map, g marker.Geometry) (uint64, error) {
	b, err := maps.OpenBuckets(m)
	if err != nil {
		return 0, err
	}
	used := b.Used(g)
	return used[0], b.Close()
}

func countBuckets(m *ebpf.Map, g marker.Geometry) (used uint64, err error) {
	b, err := maps.OpenBuckets(m)
	if err != nil {
		return 0, err
	}
	var torn int
	for at := range b.All(&torn) {
		if g.Position(at.Set) == 0 {
			used++
		}
	}
	return used, b.Close()
}

// countCopied counts in a copy of the table, which has room for all of it.
func countCopied(m *ebpf.Map, sets []marker.Set) (used uint64, err error) {
	var cursor ebpf.MapBatchCursor
	keys := make([]uint32, len(sets))
	n, err := m.BatchLookup(&cursor, keys, sets, nil)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return 0, err
	}
	for i := range sets[:n] {
		for slot := range marker.SetSlots {
			if sets[i].Tag(slot) != 0 {
				used++
			}
		}
	}
	return used, nil
}
