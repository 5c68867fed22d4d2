package marker

const (
	ethernetMin = 60 // without FCS
	ethernetL1  = 24 // preamble, start delimiter, FCS, gap
	vlanTag     = 4
	gsoByFrags  = 0xffff // gso_size that says: segments of any size, as SCTP's
)

// CostMax is the largest cost of a packet in the packet path: more is clamped to it.
const CostMax = 1 << 24

// cost is what a packet costs: what was, or will be, on the wire. A super-packet (GSO, GRO) costs
// what its segments do, headers and all, each rounded up and adjusted by itself.
type cost struct {
	cost    uint64 // in the class's unit, at most CostMax
	bytes   uint64 // for the counters: the cost, or the IP bytes where packets are counted
	packets uint32 // on the wire
}

// wireCost is the cost of one wire packet: ip bytes from its IP header on, frame bytes from its link
// header on.
func wireCost(c *Class, ip, frame int64) uint64 {
	var cost int64
	switch c.Count {
	case CountL3:
		cost = ip
	case CountL2:
		cost = frame
	case CountL1:
		cost = frame + ethernetL1
	default:
		cost = 1
	}
	cost += c.Overhead
	return uint64(max(cost, 0))
}

// frameBytes is the frame's length on the wire, offloaded tag included.
func frameBytes(f *Frame, length uint32) uint32 {
	if f.VLAN != 0 {
		length += vlanTag
	}
	return max(length, ethernetMin)
}

// segments is how a super-packet is cut.
type segments struct {
	header  uint32 // IP bytes that each carries
	payload uint32 // that they share
	size    uint32 // payload of each but the last
	count   uint32
}

// segmentsOf is how f is cut; not for what is not IP, or no super-packet.
func segmentsOf(f *Frame, p *packet) (s segments) {
	s.header = p.l4 - p.l3 + uint32(p.l4Header)
	s.payload = f.Length - p.l3
	if s.payload > s.header {
		s.payload -= s.header
	} else {
		s.payload = 0
	}
	s.header -= uint32(p.jumbo)
	s.size = f.GSOSize
	s.count = f.GSOSegs
	if s.count == 0 {
		s.count = (s.payload + s.size - 1) / s.size
	}
	if s.count == 0 {
		s.count = 1
	}
	// What is known is their number and their sum: as if all were as large.
	if s.size == gsoByFrags {
		s.size = (s.payload + s.count - 1) / s.count
	}
	return s
}

// wirePackets is how many packets an IP frame is on the wire.
func wirePackets(f *Frame, p *packet) uint32 {
	if f.GSOSize == 0 {
		return 1
	}
	return segmentsOf(f, p).count
}

func segmentCost(c *Class, f *Frame, p *packet, ip uint32) uint64 {
	frame := ip
	if f.Link == LinkEthernet {
		frame = frameBytes(f, p.l3+ip)
	}
	return wireCost(c, int64(ip), int64(frame))
}

func costOf(c *Class, f *Frame, p *packet) (out cost) {
	if p.family == FamilyNone {
		frame := f.Length
		if f.Link == LinkEthernet {
			frame = frameBytes(f, f.Length)
		}
		out.packets = 1
		out.bytes = uint64(f.Length)
		out.cost = wireCost(c, int64(f.Length), int64(frame))
	} else if f.GSOSize == 0 {
		frame := p.ipLength
		if f.Link == LinkEthernet {
			frame = frameBytes(f, f.Length)
		}
		out.packets = 1
		out.bytes = uint64(p.ipLength)
		out.cost = wireCost(c, int64(p.ipLength), int64(frame))
	} else {
		s := segmentsOf(f, p)
		// Full segments, one with the rest, and empty ones where there are more than the payload
		// fills: the IP bytes add up in any case.
		full := s.count - 1
		if uint64(full)*uint64(s.size) > uint64(s.payload) {
			full = s.payload / s.size
		}
		rest := s.payload - full*s.size
		out.packets = s.count
		out.bytes = uint64(s.count)*uint64(s.header) + uint64(s.payload)
		out.cost = uint64(full)*segmentCost(c, f, p, s.header+s.size) +
			segmentCost(c, f, p, s.header+rest) +
			uint64(s.count-1-full)*segmentCost(c, f, p, s.header)
	}
	out.cost = min(out.cost, CostMax)
	if c.Count != CountPackets {
		out.bytes = out.cost
	}
	return out
}
