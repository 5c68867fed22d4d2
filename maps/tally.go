package maps

import (
	"cmp"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/tricolor-policer/tricolor/marker"
)

// Tally tells what buckets counted between two readings of a table. It remembers at most 42 bytes a slot, however
// many keys come and go. Of a set that no packet met meanwhile, a reading touches one word: its lock's sequence.
type Tally struct {
	buckets  *Buckets
	geometry marker.Geometry
	heads    []uint64                // lock and tags of each set, as of the reading before
	seen     []seen                  // by set and slot
	used     [marker.MaxChain]uint64 // slots
	last     uint64                  // ns: when the reading before was
	read     bool                    // there was one
}

// NewTally returns a tally of a table of that shape. The buckets stay the caller's, and open as long as it is used.
func NewTally(b *Buckets, g marker.Geometry) *Tally {
	return &Tally{buckets: b, geometry: g, heads: make([]uint64, b.Len()), seen: make([]seen, b.Len()*marker.SetSlots)}
}

// seen is what a bucket had counted. Packets are modulo 2^32: in an interval there are fewer.
type seen struct {
	bytes   [marker.Colors]uint64
	packets [marker.Colors]uint32
	key     uint32 // a hash of its key
}

// Counted is what one bucket counted between two readings.
type Counted struct {
	Key     marker.Key
	Packets [marker.Colors]uint64 // by the packets' final colour
	Bytes   [marker.Colors]uint64
	Rank    uint64 // as rank told it; the more the busier

	At   Slot
	Slot marker.Slot // the bucket as it was when it was read
}

// Reading is what a tally tells of a table.
type Reading struct {
	First   bool                    // there was no reading before: nothing is known to have been counted since
	Elapsed uint64                  // ns since the reading before
	Busiest []Counted               // those of the highest ranks, highest first
	Active  int                     // how many buckets counted a packet meanwhile
	Used    [marker.MaxChain]uint64 // slots in use, by chain position
	Torn    int                     // sets that kept changing and could not be read: the next reading tells of them
}

// Read reads the whole table at now (ns, the kernel program's clock). rank is asked of each bucket that
// counted something, before its At and Slot are set; 0 leaves it out. Of the others the most highest are returned.
func (t *Tally) Read(now uint64, most int, rank func(*Counted) uint64) Reading {
	r := reader{Tally: t, rank: rank, most: most}
	r.First, r.Elapsed = !t.read, now-min(t.last, now)
	for position, s := range t.geometry.Stages {
		r.changed(s.Base, s.Base+s.Mask+1, &t.used[position])
	}
	var reserved uint64
	r.changed(t.geometry.Reserved, t.geometry.Sets, &reserved)
	t.last, t.read = now, true
	r.Used, r.Busiest = t.used, r.top
	slices.SortFunc(r.Busiest, func(a, b Counted) int {
		return cmp.Or(cmp.Compare(b.Rank, a.Rank), cmp.Compare(a.At.Set, b.At.Set), cmp.Compare(a.At.Slot, b.At.Slot))
	})
	return r.Reading
}

// reader is a reading under way.
type reader struct {
	*Tally
	Reading
	rank func(*Counted) uint64
	most int
	top  lowest

	copied marker.Set // what was read of a set
}

// changed reads the sets from..to that changed since the reading before, and keeps count of their used slots.
func (r *reader) changed(from, to uint32, used *uint64) {
	heads := r.heads[from:to]
	sets := r.buckets.sets[from:to]
	for i := range sets {
		head := atomic.LoadUint64((*uint64)(unsafe.Pointer(&sets[i][0].Lock)))
		if head == heads[i] {
			continue
		}
		if r.buckets.Set(from+uint32(i), &r.copied) != nil {
			r.Torn++
			continue
		}
		*used -= usedSlots(heads[i])
		heads[i] = *(*uint64)(unsafe.Pointer(&r.copied[0].Lock))
		*used += usedSlots(heads[i])
		for slot := range r.copied {
			if r.copied.Tag(slot) != 0 {
				r.count(Slot{from + uint32(i), slot}, &r.copied[slot])
			}
		}
	}
}

// usedSlots counts the slots in use of a set with that lock and those tags.
func usedSlots(head uint64) uint64 { return uint64(occupied((*[2]uint32)(unsafe.Pointer(&head))[1])) }

// count ranks what a bucket counted since the reading before, and remembers what it has counted.
func (r *reader) count(at Slot, slot *marker.Slot) {
	now := seen{bytes: slot.Bytes, key: hashOf(&slot.Key)}
	for color := range now.packets {
		now.packets[color] = uint32(slot.Packets[color])
	}
	before := &r.seen[int(at.Set)*marker.SetSlots+at.Slot]
	old := *before
	if old == now {
		return
	}
	*before = now
	if r.First {
		return
	}
	if old.key != now.key || old.bytes[0] > now.bytes[0] || old.bytes[1] > now.bytes[1] || old.bytes[2] > now.bytes[2] {
		old = seen{} // another key's, or the same anew: it began at 0
	}
	c := Counted{Key: slot.Key}
	var packets uint64
	for color := range marker.Colors {
		c.Packets[color] = uint64(now.packets[color] - old.packets[color])
		c.Bytes[color] = now.bytes[color] - old.bytes[color]
		packets += c.Packets[color]
	}
	if packets == 0 {
		return
	}
	r.Active++
	if c.Rank = r.rank(&c); c.Rank == 0 || r.most == 0 || len(r.top) == r.most && c.Rank <= r.top[0].Rank {
		return
	}
	c.At, c.Slot = at, *slot
	if len(r.top) < r.most {
		r.top.push(&c)
		return
	}
	r.top.replace(&c)
}

// hashOf tells keys apart, but for one pair in 2^32.
func hashOf(k *marker.Key) uint32 {
	h := k[0]
	for _, word := range k[1:] {
		h = (h^h>>29)*0x9e3779b97f4a7c15 + word
	}
	h = (h ^ h>>32) * 0x9e3779b97f4a7c15
	return max(uint32(h>>32), 1) // 0: no bucket was seen
}

// lowest is a heap with the lowest rank on top.
type lowest []Counted

// push puts one in.
func (h *lowest) push(c *Counted) {
	*h = append(*h, *c)
	for i := len(*h) - 1; i > 0; {
		above := (i - 1) / 2
		if (*h)[above].Rank <= (*h)[i].Rank {
			return
		}
		(*h)[above], (*h)[i] = (*h)[i], (*h)[above]
		i = above
	}
}

// replace puts one in the place of the lowest.
func (h lowest) replace(c *Counted) {
	h[0] = *c
	for i := 0; ; {
		below := 2*i + 1
		if below+1 < len(h) && h[below+1].Rank < h[below].Rank {
			below++
		}
		if below >= len(h) || h[i].Rank <= h[below].Rank {
			return
		}
		h[i], h[below] = h[below], h[i]
		i = below
	}
}
