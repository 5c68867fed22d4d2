package marker

// A class's chain of meters, narrow to wide.
//
// All buckets are found, then judged in chain order, then paid together or not at all: an aware meter
// takes the worst colour so far (the first one the packet's own); the packet's colour is the worst. If
// that is red nothing is spent anywhere, else each bucket spends by its own meter's colour.
type chain struct {
	now        uint64
	nanobytes  uint64
	bytes      uint64
	packets    uint32
	generation uint32
	held       [MaxChain]held
	slot       [MaxChain]*Slot
	colors     [MaxChain]Color // by each meter
	in         Color           // the worst colour so far; at first the packet's own
	color      Color           // of the packet: the worst
	overflow   bool            // an overflow bucket is among them
	clockBack  uint32          // buckets that saw a time before their last
	watch      *watch          // of a packet that is explained; nil: nobody looks
}

// begin readies the chain for a packet. What the class's meters fill in stays as it was.
func (ch *chain) begin(c *cost, now uint64, generation uint32, arrival Color) {
	ch.now, ch.nanobytes, ch.bytes, ch.packets = now, c.cost*Nano, c.bytes, c.packets
	ch.generation, ch.in, ch.color, ch.overflow, ch.clockBack = generation, arrival, Green, false, 0
}

// judge brings the bucket of one meter of the chain to now, and judges.
func (m *Mirror) judge(meter *Meter, ch *chain, i int) {
	h := &ch.held[i]
	p := m.generations.profile(h.profile, ch.generation)
	slot := &m.table.sets[h.set][h.slot]
	if h.overflow || meter.Per >= PerClass {
		m.table.reserved(h.set, p, meter.ID[0], h.profile, ch.generation, ch.now)
	}
	if slot.Generation != ch.generation || slot.Profile != h.profile {
		m.generations.settle(slot, h.profile, ch.generation)
		p = m.generations.profile(slot.Profile, slot.Generation)
	}
	if p.Refill(&slot.Bucket, ch.now) {
		ch.clockBack++
	}
	if h.overflow {
		ch.overflow = true
		slot.Bucket.Last = max(slot.Bucket.Last, h.forgot)
	}
	ch.colors[i] = p.Color(&slot.Bucket, ch.nanobytes, ch.in)
	ch.color = max(ch.color, ch.colors[i])
	ch.in = ch.color
	ch.slot[i] = slot
}

// pay takes what one meter of the chain spends, and counts.
func (m *Mirror) pay(ch *chain, i int) {
	slot := ch.slot[i]
	if ch.color != Red {
		p := m.generations.profile(slot.Profile, slot.Generation)
		p.Spend(&slot.Bucket, ch.nanobytes, ch.colors[i])
	}
	slot.Packets[ch.color] += uint64(ch.packets)
	slot.Bytes[ch.color] += ch.bytes
}

// meter meters a packet by its class's chain.
func (m *Mirror) meter(c *Class, p *prepared, ch *chain) {
	keyed := 0
	for i := range c.Meters {
		meter, h := &c.Meters[i], &ch.held[i]
		h.profile, h.slot, h.overflow = meter.Profile, 0, false
		if i == 0 && p.profile != NoProfile {
			h.profile = p.profile
		}
		if meter.Per >= PerClass {
			h.set = meter.Reserved
		} else {
			m.hold(&p.places[keyed], meter, ch.now, ch.generation, h)
			keyed++
		}
	}
	if ch.watch != nil {
		ch.watch.found(m, c)
	}
	for i := range c.Meters {
		m.judge(&c.Meters[i], ch, i)
	}
	if ch.watch != nil {
		ch.watch.judged(m, c)
	}
	for i := range c.Meters {
		m.pay(ch, i)
	}
}
