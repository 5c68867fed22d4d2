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

// hold finds or makes the buckets of a packet's class.
func (m *Mirror) hold(c *Class, p *prepared, now uint64) {
	places := p.places[:]
	for i := range c.Meters {
		meter, h := &c.Meters[i], &m.chain.held[i]
		h.profile, h.overflow = meter.Profile, false
		if i == 0 {
			h.profile = p.profile
		}
		if meter.Per >= PerClass {
			h.at = meter.Reserved * SetSlots
			continue
		}
		pl := &places[0]
		places = places[1:]
		if at := pl.hint; at != NoSet && m.table.slot(at).Key.is(&pl.key) {
			h.at = at
		} else {
			m.find(pl, meter, now, p.generation, h)
		}
	}
}

// bring readies the bucket of one meter: it is there, and of the packet's profile and generation. Returns it, with
// the profile that counts.
func (m *Mirror) bring(meter *Meter, h *held, now uint64, generation uint32) (*Slot, *Profile) {
	p := m.generations.profile(h.profile, generation)
	if h.overflow || meter.Per >= PerClass {
		m.table.reserved(h.at, p, meter.ID[0], h.profile, generation, now)
	}
	slot := m.table.slot(h.at)
	if slot.Generation != generation || slot.Profile != h.profile {
		m.generations.settle(slot, h.profile, generation)
		p = m.generations.profile(slot.Profile, slot.Generation)
	}
	return slot, p
}

// judge has each meter of the class judge, in chain order, and returns the packet's colour.
func (m *Mirror) judge(c *Class, p *prepared, now uint64) (color Color) {
	ch, in := &m.chain, p.arrival
	ch.overflow, ch.clockBack = false, 0
	for i := range c.Meters {
		h := &ch.held[i]
		slot, profile := m.bring(&c.Meters[i], h, now, p.generation)
		own, clockBack := profile.Judge(&slot.Bucket, now, p.cost.cost*Nano, in)
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
	return color
}

// pay counts the packet in its buckets. If it is red, what its meters spent is given back.
func (m *Mirror) pay(c *Class, p *prepared, color Color) {
	for i := range c.Meters {
		slot := m.table.slot(m.chain.held[i].at)
		if own := m.chain.colors[i]; own != color && color == Red {
			m.generations.profile(slot.Profile, slot.Generation).giveBack(&slot.Bucket, p.cost.cost*Nano, own)
		}
		slot.Packets[color] += uint64(p.cost.packets)
		slot.Bytes[color] += p.cost.bytes
	}
}

// meter meters a packet by its class's chain, and returns its colour.
func (m *Mirror) meter(c *Class, p *prepared, now uint64) Color {
	w := m.chain.watch
	m.hold(c, p, now)
	if w != nil {
		w.found(m, c, p)
	}
	color := m.judge(c, p, now)
	if w != nil {
		w.judged(m, c, p, now)
	}
	m.pay(c, p, color)
	return color
}
