package main

import (
	"cmp"
	"slices"

	"github.com/tricolor-policer/tricolor/marker"
	"github.com/tricolor-policer/tricolor/pcaptest"
)

// unmeteredNames are the classes of what no meter sees.
var unmeteredNames = map[marker.Kind]string{
	marker.Unmatched: "(of no class)", marker.NotIP: "(not IP)", marker.Malformed: "(malformed)",
}

// whatTally counts one file's packets for one side. The first side's leaves what became of each packet for the
// second's.
type whatTally struct {
	w      *whatIf
	side   int
	rows   map[marker.Key]*whatRow // of keys, as found so far
	before []end
}

// add takes one packet.
func (t *whatTally) add(s *pcaptest.Step) error {
	w, out := t.w, &s.Outcome
	to, bytes := endOf(out), uint64(s.Packet.Length)
	if rates := w.sides[t.side].rates; rates != nil {
		rates.addBytes(s, bytes)
	}
	from := to
	if t.side == 0 {
		t.before = append(t.before, to)
	} else {
		from = t.before[s.Packet.Number-1]
		if w.shifts != nil {
			w.shifts.add(s.Packet.Time, from, to, bytes)
		}
	}
	class, metered := unmeteredNames[out.Kind], out.Kind == marker.Metered
	if metered {
		class = s.Plan.Classes[out.Class].Name
	}
	for _, r := range []*whatRow{&w.all, w.row(entity{class: class}, t.side), t.key(s, class)} {
		if r == nil {
			continue
		}
		r.ends[t.side][to].add(bytes)
		if t.side == 1 {
			r.shift(from, to, bytes)
		}
	}
	return nil
}

// key is the row of a packet's key in its class's first meter; nil where all of the class share one bucket.
func (t *whatTally) key(s *pcaptest.Step, class string) *whatRow {
	slot := s.Bucket
	if s.Outcome.Kind != marker.Metered || slot == nil || s.Plan.Classes[s.Outcome.Class].Meters[0].Per >= marker.PerClass {
		return nil
	}
	overflow := s.Outcome.Slots[0]/marker.SetSlots >= s.Plan.Geometry.OverflowSet(0, 0)
	names := t.w.sides[t.side].names
	if overflow {
		return t.w.row(entity{class, names.key(slot.Key.Fields(), true)}, t.side)
	}
	r := t.rows[slot.Key]
	if r == nil {
		r = t.w.row(entity{class, names.key(slot.Key.Fields(), false)}, t.side)
		t.rows[slot.Key] = r
	}
	return r
}

// row is the row of an entity, which a side has.
func (w *whatIf) row(e entity, side int) *whatRow {
	r := w.rows[e]
	if r == nil {
		r = &whatRow{}
		w.rows[e] = r
	}
	if side == 0 {
		r.before = true
	} else {
		r.after = true
	}
	return r
}

// named is a row under its name.
type named struct {
	entity
	*whatRow
}

// sorted are the classes' rows or the keys', those that lose most first; of keys only those of which a packet has
// another end.
func (w *whatIf) sorted(keys bool) (rows []named) {
	for e, r := range w.rows {
		if (e.key != "") == keys && (!keys || r.shifts()) {
			rows = append(rows, named{e, r})
		}
	}
	loss := func(r named) (int64, int64) {
		return int64(r.newly.Bytes - r.noMore.Bytes), int64(r.worse.Bytes - r.better.Bytes)
	}
	slices.SortFunc(rows, func(a, b named) int {
		aLost, aWorse := loss(a)
		bLost, bWorse := loss(b)
		return cmp.Or(cmp.Compare(bLost, aLost), cmp.Compare(bWorse, aWorse), cmp.Compare(b.newly.Bytes, a.newly.Bytes),
			cmp.Compare(a.class, b.class), cmp.Compare(a.key, b.key))
	})
	return rows
}

// keyCount is how many keys there were under either policy.
func (w *whatIf) keyCount() (n int) {
	for e := range w.rows {
		if e.key != "" {
			n++
		}
	}
	return n
}
