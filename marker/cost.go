package marker

const (
	ethernetMin = 60 // without FCS
	ethernetL1  = 24 // preamble, start delimiter, FCS, gap
	vlanTag     = 4
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

// wirePackets is how many packets a frame is on the wire, as far as it says so itself.
func wirePackets(f *Frame) uint32 {
	if f.GSOSize != 0 && f.GSOSegs != 0 {
		return f.GSOSegs
	}
	return 1
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
		header := p.l4 - p.l3 + uint32(p.l4Header)
		payload := f.Length - p.l3
		if payload > header {
			payload -= header
		} else {
			payload = 0
		}
		header -= uint32(p.jumbo)
		segments := f.GSOSegs
		if segments == 0 {
			segments = (payload + f.GSOSize - 1) / f.GSOSize
		}
		if segments == 0 {
			segments = 1
		}
		// Full segments, one with the rest, and empty ones where there are more than the payload
		// fills: the IP bytes add up in any case.
		full := segments - 1
		if uint64(full)*uint64(f.GSOSize) > uint64(payload) {
			full = payload / f.GSOSize
		}
		rest := payload - full*f.GSOSize
		out.packets = segments
		out.bytes = uint64(segments)*uint64(header) + uint64(payload)
		out.cost = uint64(full)*segmentCost(c, f, p, header+f.GSOSize) +
			segmentCost(c, f, p, header+rest) +
			uint64(segments-1-full)*segmentCost(c, f, p, header)
	}
	out.cost = min(out.cost, CostMax)
	if c.Count != CountPackets {
		out.bytes = out.cost
	}
	return out
}
