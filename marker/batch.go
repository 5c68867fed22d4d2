package marker

import (
	"math/bits"
	"slices"
)

// Batch is packets that are policed one after the other, and what became of each. To use it, fill Frames and
// Times, of the same length; Prepare; Decide. Its memory is kept for the next use.
type Batch struct {
	Frames   []Frame   // no two share bytes; Decide marks them in place
	Times    []uint64  // ns: when each is policed
	Outcomes []Outcome // one for each frame, by Decide

	prepared []prepared
	changes  uint64 // of policy, before it was prepared
}

// window is how many packets have their memory touched before the first of them is decided: enough for the
// loads to overlap, few enough for all of it to stay in the first-level cache.
const window = 64

// Packet polices one frame at now (ns), and marks it in place.
func (m *Mirror) Packet(f *Frame, now uint64) (out Outcome) {
	m.prepare(f, now, &m.one)
	m.decide(f, now, &m.one, &out)
	return out
}

// Prepare does the first half of policing a batch, in which no packet hangs on another: it parses, classifies,
// and finds costs, keys and hashes. It changes nothing but b. It may run beside Decide or Packet, and other
// Prepares, of other batches; not beside Apply or Confirm.
func (m *Mirror) Prepare(b *Batch) {
	n := len(b.Frames)
	b.changes = m.generations.changes
	b.prepared = slices.Grow(b.prepared[:0], n)[:n]
	for i := range b.prepared {
		m.prepare(&b.Frames[i], b.Times[i], &b.prepared[i])
	}
}

// Decide does the second half, in order: as Packet on each frame. A batch that was not prepared, or before a
// change of policy, is prepared first.
func (m *Mirror) Decide(b *Batch) {
	if len(b.prepared) != len(b.Frames) || b.changes != m.generations.changes {
		m.Prepare(b)
	}
	n := len(b.Frames)
	b.Outcomes = slices.Grow(b.Outcomes[:0], n)[:n]
	for from := 0; from < n; from += window {
		to := min(from+window, n)
		m.touch(b.prepared[from:to])
		for i := from; i < to; i++ {
			m.decide(&b.Frames[i], b.Times[i], &b.prepared[i], &b.Outcomes[i])
		}
	}
	b.prepared = b.prepared[:0]
}

// touch reads a word of each cache line that deciding the packets will need, and notes where their buckets seem
// to be. No read waits for the one before, so the processor has many under way; decided one by one, each packet
// would wait for its own.
func (m *Mirror) touch(packets []prepared) {
	sets, sum := m.table.sets, uint64(0)
	for i := range packets {
		p := &packets[i]
		for j := range p.places[:p.keyed] {
			pl := &p.places[j]
			sum += uint64(sets[pl.left][0].Tags) + uint64(sets[pl.right][0].Tags)
		}
	}
	for i := range packets {
		p := &packets[i]
		for j := range p.places[:p.keyed] {
			pl := &p.places[j]
			set, matches := pl.left, sets[pl.left].matches(pl.tag)
			if matches == 0 {
				set, matches = pl.right, sets[pl.right].matches(pl.tag)
			}
			if matches == 0 {
				continue
			}
			at := uint32(bits.TrailingZeros32(matches)) / 8 % SetSlots
			pl.hint = set*SetSlots + at
			slot := &sets[set][at]
			sum += slot.Key[0] + slot.Packets[0]
		}
	}
	m.touched = sum // so that the reads are not left out
}

// decide does the second half for one frame.
func (m *Mirror) decide(f *Frame, now uint64, p *prepared, out *Outcome) {
	plan := m.generations.plans[p.generation&1]
	if p.longChain {
		m.stats.Port.LongChain++
	}
	if p.kind != Metered {
		*out = Unmetered(p.kind)
		switch p.kind {
		case Malformed:
			m.stats.Port.Malformed++
			out.Dropped = plan.Malformed.Verbs&VerbDrop != 0
		case NotIP:
			m.stats.Port.NotIP++
		default:
			m.stats.Port.Unmatched += uint64(p.cost.packets)
		}
		return
	}
	c := &plan.Classes[p.class]
	counters := &m.stats.Classes[c.Stats]
	color := m.meter(c, p, now)
	counters.ClockBack += uint64(m.chain.clockBack)
	if m.chain.overflow {
		counters.Overflow += uint64(p.cost.packets)
	}
	counters.Packets[color] += uint64(p.cost.packets)
	counters.Bytes[color] += p.cost.bytes
	out.Kind, out.Dropped = Metered, act(f, &p.header, &c.Actions[color])
	out.Arrival, out.Color = p.arrival, color
	out.Class, out.Cost = p.class, p.cost.cost
	for i := range out.Slots {
		out.Slots[i] = NoSet
		if i < len(c.Meters) {
			out.Slots[i] = m.chain.held[i].at
		}
	}
}
