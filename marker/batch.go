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

// ahead is how many packets lie between two steps of reaching for a packet's memory, and between the last one and
// deciding it: enough for a read to be done meanwhile, few enough for what was read to be there still.
const ahead = 24

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
	for i := range n + 3*ahead {
		if i < n {
			m.reachLeft(&b.prepared[i])
		}
		if i := i - ahead; uint(i) < uint(n) {
			m.reachRight(&b.prepared[i])
		}
		if i := i - 2*ahead; uint(i) < uint(n) {
			m.reachSlot(&b.prepared[i])
		}
		if i := i - 3*ahead; uint(i) < uint(n) {
			m.decide(&b.Frames[i], b.Times[i], &b.prepared[i], &b.Outcomes[i])
		}
	}
	b.prepared = b.prepared[:0]
}

// A packet's memory is asked for some time before the packet is decided, in three steps, since what to ask for
// hangs on what is there. Meanwhile the processor goes on with the packets before it; decided one by one, each
// packet would wait for its own memory.

// reachLeft asks for the left candidate sets, where most keys are.
func (m *Mirror) reachLeft(p *prepared) {
	for i := range p.places[:p.keyed] {
		prefetchSet(&m.table.sets[p.places[i].left])
	}
}

// reachRight asks for the right ones of keys that are not there.
func (m *Mirror) reachRight(p *prepared) {
	for i := range p.places[:p.keyed] {
		pl := &p.places[i]
		pl.hint = pl.left
		if m.table.sets[pl.left].matches(pl.tag) == 0 {
			pl.hint = pl.right
			prefetchSet(&m.table.sets[pl.right])
		}
	}
}

// reachSlot asks for the slots that seem to be the keys', and notes which.
func (m *Mirror) reachSlot(p *prepared) {
	for i := range p.places[:p.keyed] {
		pl := &p.places[i]
		set := pl.hint
		matches := m.table.sets[set].matches(pl.tag)
		if matches == 0 {
			pl.hint = NoSet
			continue
		}
		at := uint32(bits.TrailingZeros32(matches)) / 8 % SetSlots
		pl.hint = set*SetSlots + at
		prefetchSlot(&m.table.sets[set][at])
	}
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
	out.Kind, out.Dropped = Metered, false
	if a := &c.Actions[color]; a.Verbs != 0 {
		out.Dropped = act(f, &p.header, a)
	}
	out.Arrival, out.Color = p.arrival, color
	out.Class, out.Cost = p.class, p.cost.cost
	out.Slots = [MaxChain]uint32{NoSet, NoSet, NoSet}
	for i := range c.Meters {
		out.Slots[i] = m.chain.held[i].at
	}
}
