package marker

// prepared is the first half of a packet's way: what follows from policy, seeds and frame alone, whatever
// came before it.
type prepared struct {
	header
	generation uint32 // of the policy that it was prepared by
	class      uint16 // NoClass: not metered
	kind       Kind
	arrival    Color
	longChain  bool
	keyed      uint8           // how many places there are
	profile    uint32          // of its first meter, or in its place of the prefix that classify found it in
	cost       cost            // unmatched: packets alone
	places     [MaxChain]place // of the class's keyed meters, in chain order
}

// prepare does the first half for one frame at now (ns). It changes nothing but p.
func (m *Mirror) prepare(f *Frame, now uint64, p *prepared) {
	plan, prefixes, generation := m.generations.inForce(now)
	var headers packet
	parsed := parseFrame(f, &headers)
	if parsed == parsedNotIP {
		headers.family = FamilyNone
	}
	p.header, p.generation = headers.header, generation
	p.class, p.kind, p.keyed = NoClass, Malformed, 0
	p.longChain = parsed != parsedMalformed && headers.longChain
	if parsed == parsedMalformed {
		return
	}
	class := classify(plan, prefixes, &headers, f.Mark)
	if class >= MaxClasses {
		p.kind = NotIP
		if parsed == parsedIP {
			p.kind, p.cost.packets = Unmatched, wirePackets(f, &headers)
		}
		return
	}
	c := &plan.Classes[class]
	p.class, p.kind, p.profile = uint16(class), Metered, headers.profile
	if p.profile == NoProfile {
		p.profile = c.Meters[0].Profile
	}
	p.cost = costOf(c, f, &headers)
	p.arrival = Green
	if parsed == parsedIP {
		p.arrival = arrivalColor(c, headers.dscp)
	}
	for i := range c.Meters {
		if meter := &c.Meters[i]; meter.Per < PerClass {
			m.place(&headers, meter, i, &p.places[p.keyed])
			p.keyed++
		}
	}
}
