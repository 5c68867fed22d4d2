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

// touch reads a word of each cache line that deciding the packets will need. No read waits for the one before,
// so the processor has many under way; decided one by one, each packet would wait for its own.
func (m *Mirror) touch(packets []prepared) {
	sets, sum := m.table.sets, uint64(0)
	for i := range packets {
		p := &packets[i]
		for j := range p.places[:p.keyed] {
			pl := &p.places[j]
			sum += uint64(sets[pl.left][0].Tags) + uint64(sets[pl.right][0].Tags)
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
	ch := &m.chain
	ch.begin(&p.cost, now, p.generation, p.arrival)
	m.meter(c, p, ch)
	counters.ClockBack += uint64(ch.clockBack)
	if ch.overflow {
		counters.Overflow += uint64(p.cost.packets)
	}
	counters.Packets[ch.color] += uint64(p.cost.packets)
	counters.Bytes[ch.color] += p.cost.bytes
	*out = Outcome{
		Kind:    Metered,
		Dropped: act(f, &p.header, &c.Actions[ch.color]),
		Arrival: p.arrival,
		Color:   ch.color,
		Class:   p.class,
		Cost:    p.cost.cost,
		Slots:   [MaxChain]uint32{NoSet, NoSet, NoSet},
	}
	for i := range c.Meters {
		out.Slots[i] = ch.held[i].set*SetSlots + ch.held[i].slot
	}
}
