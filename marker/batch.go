package marker

import "slices"

// Batch is packets that are policed one after the other, and what became of each. To use it, fill Frames and
// Times, of the same length; Prepare; Decide. Its memory is kept for the next use.
type Batch struct {
	Frames   []Frame   // no two share bytes; Decide marks them in place
	Times    []uint64  // ns: when each is policed
	Outcomes []Outcome // one for each frame, by Decide

	prepared []prepared
	changes  uint64 // of policy, before it was prepared
}

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
	for at := 0; at < n+3*reachAhead; at += reachBlock {
		m.reachLeft(block(b.prepared, at))
		m.reachRight(block(b.prepared, at-reachAhead))
		m.reachSlot(block(b.prepared, at-2*reachAhead))
		at := at - 3*reachAhead
		packets, frames, times, outcomes := block(b.prepared, at), block(b.Frames, at), block(b.Times, at), block(b.Outcomes, at)
		for i := range packets {
			m.decide(&frames[i], times[i], &packets[i], &outcomes[i])
		}
	}
	b.prepared = b.prepared[:0]
}

// block is the block of s that begins at a place; nothing beyond its ends.
func block[T any](s []T, at int) []T {
	if at < 0 || at >= len(s) {
		return nil
	}
	return s[at:min(at+reachBlock, len(s))]
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
	color, done := m.single(c, p, now)
	if !done {
		color = m.meter(c, p, now)
	}
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
