package marker

// Kind says what became of a packet before any meter saw it.
type Kind uint8

// What became of a packet before any meter saw it.
const (
	Metered   Kind = iota
	Unmatched      // IP, but of no class
	NotIP
	Malformed
)

var kindNames = []string{"metered", "unmatched", "not-ip", "malformed"}

// String returns the kind as in counters.
func (k Kind) String() string { return kindNames[k&3] }

// Outcome is what was decided of one packet. Class, colours, cost and slots are of metered packets.
type Outcome struct {
	Kind    Kind
	Dropped bool
	Arrival Color // by the DSCP it came with
	Color   Color
	Class   uint16           // NoClass: not metered
	Cost    uint64           // in the class's unit
	Slots   [MaxChain]uint32 // bucket of each meter: set × SetSlots + slot, or NoSet
}

// Unmetered is the outcome of a packet that no meter saw, before its verdict.
func Unmetered(kind Kind) Outcome {
	return Outcome{Kind: kind, Class: NoClass, Slots: [MaxChain]uint32{NoSet, NoSet, NoSet}}
}

// Mirror is the kernel program in user space: the same table, the same decisions. Not safe for
// concurrent use.
type Mirror struct {
	plan  *Plan
	table table
	stats Stats
}

// NewMirror makes the mirror of a program with this plan and these seeds. Returns an error that wraps
// ErrPlan where the plan breaks its bounds.
func NewMirror(plan *Plan, seeds Seeds) (*Mirror, error) {
	if err := plan.Check(); err != nil {
		return nil, err
	}
	return &Mirror{
		plan:  plan,
		table: table{sets: make([]Set, plan.Geometry.Sets), seeds: seeds, plan: plan},
		stats: Stats{Classes: make([]ClassStats, len(plan.Classes))},
	}, nil
}

// Plan returns the mirror's plan.
func (m *Mirror) Plan() *Plan { return m.plan }

// Sets returns the table's sets, in place.
func (m *Mirror) Sets() []Set { return m.table.sets }

// Stats returns the counters, in place.
func (m *Mirror) Stats() *Stats { return &m.stats }

// OnForget has f told of each bucket that is about to be forgotten, so that its counters can be kept.
func (m *Mirror) OnForget(f func(*Slot)) { m.table.forgetting = f }

// Seen is what the mirror reads of a frame, for people.
type Seen struct {
	IP   bool      // it is IP and not malformed: the rest holds
	Flow KeyFields // of its flow: addresses, protocol, ports
	Key  KeyFields // of its class's first bucket; zero without a class
	DSCP uint8
}

// See reads a frame without policing it.
func See(plan *Plan, f *Frame) Seen {
	var p packet
	if parseFrame(f, &p) != parsedIP {
		return Seen{}
	}
	s := Seen{IP: true, DSCP: p.dscp, Flow: p.key.Fields()}
	s.Flow.Kind = p.ipv6 << 7
	if class := classify(plan, &p); class < MaxClasses {
		k := plan.Classes[class].Meters[0].key(&p)
		s.Key = k.Fields()
	}
	return s
}

// holdKeyed finds or makes the bucket of a key.
func (m *Mirror) holdKeyed(meter *Meter, p *packet, now uint64) held {
	stage := &m.plan.Geometry.Stages[0]
	k := meter.key(p)
	h := m.table.seeds.hash(&k)
	left := stage.Base + hashLeft(h, stage.Mask)
	right := stage.Base + hashRight(h, stage.Mask)
	tag := hashTag(h)

	if i := m.table.sets[left].find(&k, tag); i >= 0 {
		return held{set: left, slot: uint32(i)}
	}
	if i := m.table.sets[right].find(&k, tag); i >= 0 {
		return held{set: right, slot: uint32(i)}
	}
	return m.table.insert(&k, meter, left, right, tag, now)
}

// judge judges and pays in a bucket.
func (m *Mirror) judge(slot *Slot, p *Profile, now uint64, c *cost, arrival Color) (color Color, clockBack bool) {
	color, clockBack = p.Judge(&slot.Bucket, now, c.cost*Nano, arrival)
	slot.Packets[color] += uint64(c.packets)
	slot.Bytes[color] += c.bytes
	return color, clockBack
}

// act does the action and reports whether the packet is dropped.
func act(f *Frame, p *packet, a *Action) bool {
	if a.Verbs&VerbDrop != 0 {
		return true
	}
	if a.Verbs&VerbDSCP != 0 {
		remark(f, p, a.DSCP)
	}
	return false
}

// Packet polices one frame at now (ns), and marks its bytes in place.
func (m *Mirror) Packet(f *Frame, now uint64) Outcome {
	var p packet
	switch parseFrame(f, &p) {
	case parsedNotIP:
		m.stats.Port.NotIP++
		return Unmetered(NotIP)
	case parsedMalformed:
		m.stats.Port.Malformed++
		out := Unmetered(Malformed)
		out.Dropped = m.plan.Malformed.Verbs&VerbDrop != 0
		return out
	}
	if p.longChain {
		m.stats.Port.LongChain++
	}

	class := classify(m.plan, &p)
	if class >= MaxClasses {
		m.stats.Port.Unmatched += uint64(f.wirePackets())
		return Unmetered(Unmatched)
	}
	c := &m.plan.Classes[class]
	counters := &m.stats.Classes[class]
	meter := &c.Meters[0]
	profile := &m.plan.Profiles[meter.Profile]

	cost := costOf(c, f, &p)
	arrival := arrivalColor(c, p.dscp)
	color, slot := m.meter(meter, profile, counters, &p, now, &cost, arrival)
	counters.Packets[color] += uint64(cost.packets)
	counters.Bytes[color] += cost.bytes
	return Outcome{
		Kind:    Metered,
		Dropped: act(f, &p, &c.Actions[color]),
		Arrival: arrival,
		Color:   color,
		Class:   uint16(class),
		Cost:    cost.cost,
		Slots:   [MaxChain]uint32{slot, NoSet, NoSet},
	}
}

// meter finds the packet's bucket, judges and pays.
func (m *Mirror) meter(meter *Meter, profile *Profile, counters *ClassStats, p *packet, now uint64, c *cost, arrival Color) (Color, uint32) {
	h := held{set: meter.Reserved}
	if meter.Per >= PerClass {
		m.table.reserved(h.set, profile, meter.ID[0], meter.Profile, now)
	} else {
		h = m.holdKeyed(meter, p, now)
	}
	color, clockBack := m.judge(&m.table.sets[h.set][h.slot], profile, now, c, arrival)
	if clockBack {
		counters.ClockBack++
	}
	if h.overflow {
		counters.Overflow += uint64(c.packets)
	}
	return color, h.set*SetSlots + h.slot
}

// wirePackets is how many packets a frame is on the wire, as far as it says so itself.
func (f *Frame) wirePackets() uint32 {
	if f.GSOSize != 0 && f.GSOSegs != 0 {
		return f.GSOSegs
	}
	return 1
}
