package marker

// A class's chain of meters, narrow to wide.
//
// All buckets are found, then judged in chain order, then paid together or not at all: an aware meter
// takes the worst colour so far (the first one the packet's own); the packet's colour is the worst. If
// that is red nothing is spent anywhere, else each bucket spends by its own meter's colour.
//
// Nobody else is here to see a bucket in between. So a meter judges and spends in one, and where the
// packet is red after all, gets back to the nanobyte what it spent.
type chain struct {
	held      [MaxChain]held
	colors    [MaxChain]Color // by each meter
	overflow  bool            // an overflow bucket is among them
	clockBack uint32          // buckets that saw a time before their last
	watch     *watch          // of a packet that is explained; nil: nobody looks
}

// meter meters a packet by its class's chain, and returns its colour. It is one function so that what it works
// with stays in registers.
func (m *Mirror) meter(c *Class, p *prepared, now uint64) (color Color) {
	ch, t := &m.chain, &m.table
	keyed := 0
	for i := range c.Meters {
		meter, h := &c.Meters[i], &ch.held[i]
		h.profile, h.overflow = meter.Profile, false
		if i == 0 {
			h.profile = p.profile
		}
		if meter.Per >= PerClass {
			h.at = meter.Reserved * SetSlots
			continue
		}
		pl := &p.places[keyed]
		keyed++
		if h.at = pl.hint; h.at == NoSet || !t.slot(h.at).Key.is(&pl.key) {
			m.find(pl, meter, now, p.generation, h)
		}
	}
	if ch.watch != nil {
		ch.watch.found(m, c, p)
	}
	nanobytes, in := p.cost.cost*Nano, p.arrival
	ch.overflow, ch.clockBack = false, 0
	for i := range c.Meters {
		meter, h := &c.Meters[i], &ch.held[i]
		profile := m.generations.profile(h.profile, p.generation)
		if h.overflow || meter.Per >= PerClass {
			t.reserved(h.at, profile, meter.ID[0], h.profile, p.generation, now)
		}
		slot := t.slot(h.at)
		if slot.Generation != p.generation || slot.Profile != h.profile {
			m.generations.settle(slot, h.profile, p.generation)
			profile = m.generations.profile(slot.Profile, slot.Generation)
		}
		own, clockBack := profile.Judge(&slot.Bucket, now, nanobytes, in)
		if clockBack {
			ch.clockBack++
		}
		if h.overflow {
			ch.overflow = true
			slot.Bucket.Last = max(slot.Bucket.Last, h.forgot)
		}
		ch.colors[i] = own
		color = max(color, own)
		in = color
	}
	if ch.watch != nil {
		ch.watch.judged(m, c, p, now)
	}
	for i := range c.Meters {
		slot := t.slot(ch.held[i].at)
		if own := ch.colors[i]; own != color && color == Red {
			m.generations.profile(slot.Profile, slot.Generation).giveBack(&slot.Bucket, nanobytes, own)
		}
		slot.Packets[color] += uint64(p.cost.packets)
		slot.Bytes[color] += p.cost.bytes
	}
	return color
}

// single is meter where the class has one meter, whose bucket was found ahead and is of the packet's profile and
// generation: most packets. Reports whether it was so; else nothing was done.
func (m *Mirror) single(c *Class, p *prepared, now uint64) (color Color, done bool) {
	at := p.places[0].hint
	if len(c.Meters) != 1 || p.keyed != 1 || at == NoSet || m.chain.watch != nil {
		return 0, false
	}
	slot := m.table.slot(at)
	if !slot.Key.is(&p.places[0].key) || slot.Generation != p.generation || slot.Profile != p.profile {
		return 0, false
	}
	color, clockBack := m.generations.profile(p.profile, p.generation).Judge(&slot.Bucket, now, p.cost.cost*Nano, p.arrival)
	m.chain.held[0].at, m.chain.overflow, m.chain.clockBack = at, false, 0
	if clockBack {
		m.chain.clockBack = 1
	}
	slot.Packets[color] += uint64(p.cost.packets)
	slot.Bytes[color] += p.cost.bytes
	return color, true
}
