package marker

import "encoding/binary"

// Explanation is a packet's way through the mirror: what was read of it, what it matched, what it cost, what each
// bucket of its chain held, and what was done.
type Explanation struct {
	Outcome  Outcome
	Now      uint64 // ns: when it was policed
	Plan     *Plan  // the policy it met
	Headers  Headers
	Rule     int    // index in Plan.Rules of the one that matched; -1: none did, or none was asked
	Charge   Charge // of a metered packet, as Chain and Waits
	Chain    []Judgement
	Waits    [Red]Wait // for green, and for yellow or better
	Action   Action    // of its colour, or of malformed packets
	Changed  bool      // bytes of the packet were written
	TOS      [2]uint8  // of IP: DSCP and ECN before and after
	Checksum [2]uint16 // of IPv4: the header's before and after
}

// Wait is when a packet would have got a colour or a better one from its buckets if nothing else had come.
type Wait struct {
	Never bool
	NS    uint64 // later than it came; 0: it did
}

// Found says how a packet came to its bucket.
type Found uint8

// How a packet came to its bucket.
const (
	FoundThere    Found = iota // it had been made before
	FoundNew                   // made in an empty slot
	FoundReused                // made in the slot of a bucket that was full, and is forgotten
	FoundOverflow              // there is no room for the key: the bucket of all such
)

var foundNames = []string{"there", "new", "reused", "overflow"}

// String returns the word in JSON.
func (f Found) String() string { return foundNames[f] }

// Judgement is what one meter of a chain made of a packet.
type Judgement struct {
	Meter     *Meter
	Profile   Profile   // by which the bucket earned
	FromLine  bool      // the profile is that of a prefix's line in a file
	Key       KeyFields // of the packet; also where that has no bucket of its own
	Slot      uint32    // set × SetSlots + slot
	Found     Found
	First     bool           // nobody had used the bucket before
	Forgotten KeyFields      // FoundReused: whose slot it was
	Packets   [Colors]uint64 // that the bucket had seen before, by colour
	Settled   bool           // a change of policy had touched the bucket's profile since it was last counted

	Before  Bucket // as it was found
	AtNow   Bucket // brought to the packet's time
	After   Bucket
	Arrival Color // in which the chain gave it to the meter, aware or not
	Color   Color // by this meter
	Short   [Red]Short
}

// watch looks at the chain of a packet that is explained.
type watch struct {
	packet    packet
	chain     []Judgement
	forgotten map[*Slot]KeyFields
}

// Explain polices one frame at now (ns), as Packet does, and says why it fared so.
func (m *Mirror) Explain(f *Frame, now uint64) *Explanation {
	plan, prefixes, _ := m.generations.inForce(now)
	w := watch{forgotten: map[*Slot]KeyFields{}}
	p := &w.packet
	parsed := parseFrame(f, p)
	e := &Explanation{Now: now, Plan: plan, Headers: headersOf(f, p, parsed), Rule: -1}
	if parsed == parsedNotIP {
		p.family = FamilyNone
	}
	if parsed != parsedMalformed {
		e.Rule = ruleOf(plan, prefixes, p, f.Mark)
	}
	if e.Rule >= 0 {
		e.Charge = chargeOf(&plan.Classes[plan.Rules[e.Rule].Class], f, p)
	}
	e.TOS[0], e.Checksum[0] = writable(f, p)

	forgetting := m.table.forgetting
	m.table.forgetting = func(slot *Slot) {
		w.forgotten[slot] = slot.Key.Fields()
		if forgetting != nil {
			forgetting(slot)
		}
	}
	m.chain.watch = &w
	e.Outcome = m.Packet(f, now)
	m.chain.watch = nil
	m.table.forgetting = forgetting

	e.TOS[1], e.Checksum[1] = writable(f, p)
	e.Changed = e.TOS[0] != e.TOS[1]
	switch e.Outcome.Kind {
	case Malformed:
		e.Action = plan.Malformed
	case Metered:
		e.Action = plan.Classes[e.Outcome.Class].Actions[e.Outcome.Color]
		e.Chain = w.chain
		e.foresee()
	}
	for i := range e.Chain {
		at := e.Chain[i].Slot
		e.Chain[i].After = m.table.sets[at/SetSlots][at%SetSlots].Bucket
	}
	return e
}

// ruleOf is the index of the rule that decides a packet's class, or -1. Rules are asked one by one.
func ruleOf(plan *Plan, prefixes []prefixTable, p *packet, mark uint32) int {
	for i := range plan.Rules {
		if classify(&Plan{Rules: plan.Rules[i : i+1]}, prefixes, p, mark) != NoClass {
			return i
		}
	}
	return -1
}

// writable are the bits that marking writes, and the IPv4 header's checksum.
func writable(f *Frame, p *packet) (tos uint8, checksum uint16) {
	switch p.family {
	case FamilyIPv4:
		return f.Data[p.l3+1], binary.BigEndian.Uint16(f.Data[p.l3+10:])
	case FamilyIPv6:
		return f.Data[p.l3]<<4 | f.Data[p.l3+1]>>4, 0
	}
	return 0, 0
}

// found notes the buckets before they are brought to the packet's time.
func (w *watch) found(m *Mirror, c *Class, p *prepared) {
	for i := range c.Meters {
		h, meter := &m.chain.held[i], &c.Meters[i]
		slot := m.table.slot(h.at)
		j := Judgement{
			Meter: meter, FromLine: h.profile != meter.Profile, Slot: h.at,
			Packets: slot.Packets, Before: slot.Bucket,
		}
		var key Key
		meter.key(&w.packet, &key)
		j.Key = key.Fields()
		if h.overflow || meter.Per >= PerClass {
			j.First = slot.Tags == 0 || slot.Key[4] != meter.ID[0]
		} else {
			j.First = slot.Packets == [Colors]uint64{} // each packet of a bucket is counted
		}
		forgotten, reused := w.forgotten[slot]
		switch {
		case h.overflow:
			j.Found = FoundOverflow
		case reused:
			j.Found, j.Forgotten = FoundReused, forgotten
		case j.First:
			j.Found, j.Packets = FoundNew, [Colors]uint64{}
		}
		j.Settled = !j.First && (slot.Generation != p.generation || slot.Profile != h.profile)
		w.chain = append(w.chain, j)
	}
}

// judged notes what the meters made of it.
func (w *watch) judged(m *Mirror, c *Class, p *prepared, now uint64) {
	ch := &m.chain
	in := p.arrival
	for i := range c.Meters {
		j, slot := &w.chain[i], m.table.slot(ch.held[i].at)
		j.Profile = *m.generations.profile(slot.Profile, slot.Generation)
		j.AtNow = slot.Bucket
		j.Profile.giveBack(&j.AtNow, p.cost.cost*Nano, ch.colors[i])
		if j.First && (j.Found == FoundOverflow || j.Meter.Per >= PerClass) {
			j.Before = j.AtNow // it was made just now
		}
		j.Arrival, j.Color = in, ch.colors[i]
		if i == 0 {
			in = Green
		}
		in = max(in, j.Color)
		for want := range j.Short {
			j.Short[want] = j.Profile.Short(j.AtNow, now, p.cost.cost*Nano, j.Arrival, Color(want))
		}
	}
}

// foresee says when the chain would have given it a better colour.
func (e *Explanation) foresee() {
	chain := make([]ChainMeter, len(e.Chain))
	for i := range e.Chain {
		chain[i] = ChainMeter{&e.Chain[i].Profile, e.Chain[i].AtNow}
	}
	for want := range e.Waits {
		wait, ok := ChainWait(chain, e.Now, e.Outcome.Cost*Nano, e.Outcome.Arrival, Color(want))
		e.Waits[want] = Wait{Never: !ok, NS: wait}
	}
}

// Charge is how a packet's cost is made.
type Charge struct {
	Count    Count
	Overhead int64
	Segments uint32 // packets on the wire; more than 1 only of a super-packet
	IP       uint64 // bytes from the IP header on (of what is not IP, of the frame); of a super-packet, its segments'
	Frame    uint64 // l2, l1: bytes of the frame on the wire, 60 at least on Ethernet; of a super-packet, its segments'
	Header   uint32 // of a super-packet: IP bytes that each segment carries
	Payload  uint32 // of a super-packet: bytes that its segments share
	Size     uint32 // of a super-packet: payload of each segment but the last
	Cost     uint64 // in the class's unit, at most CostMax
}

// chargeOf asks for the cost in one unit after the other.
func chargeOf(c *Class, f *Frame, p *packet) Charge {
	total := costOf(c, f, p)
	out := Charge{Count: c.Count, Overhead: c.Overhead, Segments: total.packets, Cost: total.cost}
	out.IP = costOf(&Class{Count: CountPackets}, f, p).bytes // never clamped
	switch {
	case f.Link != LinkEthernet:
		out.Frame = out.IP
	case p.family == FamilyNone || f.GSOSize == 0:
		out.Frame = uint64(frameBytes(f, f.Length))
	default:
		out.Frame = costOf(&Class{Count: CountL2}, f, p).cost
	}
	if p.family != FamilyNone && f.GSOSize != 0 {
		s := segmentsOf(f, p)
		out.Header, out.Payload, out.Size = s.header, s.payload, s.size
	}
	return out
}
