package marker

import "encoding/binary"

// Bounds of the parser.
const (
	maxTags       = 4 // VLAN tags, in the data or offloaded
	maxExtensions = 8 // IPv6 extension headers walked
)

// What the parser compares with.
const (
	ethIPv4  = 0x0800
	ethVLAN  = 0x8100
	ethIPv6  = 0x86dd
	ethPPPoE = 0x8864
	ethQinQ  = 0x88a8
	pppIPv4  = 0x0021
	pppIPv6  = 0x0057

	protoHopByHop = 0
	protoTCP      = 6
	protoUDP      = 17
	protoDCCP     = 33
	protoRouting  = 43
	protoFragment = 44
	protoAH       = 51
	protoDstOpts  = 60
	protoSCTP     = 132
	protoUDPLite  = 136
)

type parsed uint8

const (
	parsedIP parsed = iota
	parsedNotIP
	parsedMalformed
)

// Link says what a frame starts with.
type Link uint8

// What a frame starts with.
const (
	LinkEthernet Link = 0
	LinkOther    Link = 1 // no link header, not IP
	LinkIPv4     Link = 4 // the IPv4 header
	LinkIPv6     Link = 6 // the IPv6 header
)

// VLANPresent is the bit of Frame.VLAN that says there is an offloaded tag.
const VLANPresent = 1 << 16

// Frame is a frame as a hook sees it.
type Frame struct {
	Data    []byte // the captured bytes
	Length  uint32 // its true length, offloaded tag excluded; at least the captured bytes
	VLAN    uint32 // offloaded tag: VLANPresent | TCI, or 0
	GSOSize uint32 // of a super-packet: payload of each segment; else 0
	GSOSegs uint32
	Link    Link

	Mark, Priority uint32 // the skb's: as it came, and afterwards as it was set
}

// header is what marking needs of a packet's IP header.
type header struct {
	l3     uint32 // its offset
	family uint8  // FamilyIPv4, FamilyIPv6, FamilyNone
	tos    uint8  // DSCP and ECN
}

// packet is what the headers say.
type packet struct {
	key Key // of its flow: addresses, ports, protocol; kind and class 0
	header
	l4        uint32 // offset of the transport header
	ipLength  uint32 // of the single packet, header included
	l4Header  uint16 // of a super-packet: bytes of the transport header
	jumbo     uint16 // of a super-packet: bytes of a jumbo header that never is on the wire
	profile   uint32 // of the prefix set that classify found it in, or NoProfile
	vlan      uint16 // outermost tag's VID; 0 none
	dscp      uint8
	proto     uint8
	ports     bool   // the packet has ports, and they were read:
	sport     uint16 // host order
	dport     uint16
	fragment  bool
	longChain bool
	link      Link // what is at l3
}

const (
	ipv4MFOffset = 0x3fff
	ipv6Jumbo    = 0xc2 // option: RFC 2675
)

// inSet reports whether a protocol is one of a set given as a bitmap.
func inSet(proto uint8, first, third uint64) bool {
	set := uint64(0)
	if proto < 64 {
		set = first
	} else if proto>>6 == 2 {
		set = third
	}
	return set>>(proto&63)&1 != 0
}

// hasPorts reports whether a protocol's header starts with two ports.
func hasPorts(proto uint8) bool {
	return inSet(proto, 1<<protoTCP|1<<protoUDP|1<<protoDCCP, 1<<(protoSCTP-128)|1<<(protoUDPLite-128))
}

// isExtension reports whether it is an IPv6 extension header that is walked.
func isExtension(next uint8) bool {
	return inSet(next, 1<<protoHopByHop|1<<protoRouting|1<<protoDstOpts|1<<protoAH, 0)
}

func isTag(etherType uint16) bool {
	return etherType == ethVLAN || etherType == ethQinQ
}

// parseSegmentHeader reads the transport header's length, which each segment of a super-packet carries.
func parseSegmentHeader(f *Frame, p *packet, proto uint8) parsed {
	if proto == protoUDP || proto == protoUDPLite {
		p.l4Header = 8
	}
	if proto == protoSCTP {
		p.l4Header = 12
	}
	if proto != protoTCP {
		return parsedIP
	}
	p.l4Header = 20
	if int(p.l4)+20 > len(f.Data) {
		return parsedIP
	}
	if words := f.Data[p.l4+12] >> 4; words > 5 {
		p.l4Header = uint16(words) * 4
	}
	return parsedIP
}

// parseTransport reads protocol and ports; ports only where their four bytes lie within the IP packet
// and are captured.
func parseTransport(f *Frame, p *packet, proto uint8) parsed {
	p.proto = proto
	p.key[4] = transport(0, proto)
	if p.fragment || p.longChain || !hasPorts(proto) {
		return parsedIP
	}
	if p.l4+4 > p.l3+p.ipLength || int(p.l4)+4 > len(f.Data) {
		return parsedIP
	}
	ports := f.Data[p.l4 : p.l4+4]
	p.key[4] = transport(binary.NativeEndian.Uint32(ports), proto)
	p.ports, p.sport, p.dport = true, binary.BigEndian.Uint16(ports), binary.BigEndian.Uint16(ports[2:])
	if f.GSOSize != 0 {
		return parseSegmentHeader(f, p, proto)
	}
	return parsedIP
}

func parseIPv4(f *Frame, p *packet) parsed {
	if len(f.Data) < int(p.l3)+20 {
		return parsedMalformed
	}
	ip := f.Data[p.l3 : p.l3+20 : p.l3+20]
	header := uint32(ip[0]&0xf) * 4
	if ip[0]>>4 != 4 || header < 20 || int(p.l3+header) > len(f.Data) {
		return parsedMalformed
	}
	p.ipLength = uint32(binary.BigEndian.Uint16(ip[2:]))
	if p.ipLength == 0 {
		p.ipLength = f.Length - p.l3 // a super-packet, too long for the field
	}
	if p.ipLength < header || p.l3+p.ipLength > f.Length {
		return parsedMalformed
	}

	p.key[0] = half(binary.NativeEndian.Uint32(ip[12:]))
	p.key[2] = half(binary.NativeEndian.Uint32(ip[16:]))
	p.family = FamilyIPv4
	p.tos = ip[1]
	p.dscp = ip[1] >> 2
	p.fragment = binary.BigEndian.Uint16(ip[6:])&ipv4MFOffset != 0
	p.l4 = p.l3 + header
	return parseTransport(f, p, ip[9])
}

func parseIPv6(f *Frame, p *packet) parsed {
	if len(f.Data) < int(p.l3)+40 {
		return parsedMalformed
	}
	ip := f.Data[p.l3 : p.l3+40 : p.l3+40]
	if ip[0]>>4 != 6 {
		return parsedMalformed
	}
	payload := uint32(binary.BigEndian.Uint16(ip[4:]))
	p.ipLength = 40 + payload
	if payload == 0 && (f.GSOSize != 0 || f.Length-p.l3 > 40+0xffff) {
		p.ipLength = f.Length - p.l3
	}
	if p.l3+p.ipLength > f.Length {
		return parsedMalformed
	}

	p.key[0] = binary.NativeEndian.Uint64(ip[8:])
	p.key[1] = binary.NativeEndian.Uint64(ip[16:])
	p.key[2] = binary.NativeEndian.Uint64(ip[24:])
	p.key[3] = binary.NativeEndian.Uint64(ip[32:])
	p.family = FamilyIPv6
	p.tos = ip[0]&0xf<<4 | ip[1]>>4
	p.dscp = p.tos >> 2

	// An extension header belongs to the packet: it is cut short by the packet's end as well.
	limit := min(p.l3+p.ipLength, uint32(len(f.Data)))
	off := p.l3 + 40
	next := ip[6]
	for i := 0; i < maxExtensions && isExtension(next); i++ {
		if off+8 > limit {
			return parsedMalformed
		}
		extension := f.Data[off : off+8]
		size := (uint32(extension[1]) + 1) * 8
		if next == protoAH {
			size = (uint32(extension[1]) + 2) * 4
		}
		// The kernel puts one on super-packets beyond 64 KiB (BIG TCP); it goes again before they are
		// cut into segments.
		if f.GSOSize != 0 && payload == 0 && i == 0 && next == protoHopByHop && size == 8 && extension[2] == ipv6Jumbo {
			p.jumbo = 8
		}
		next = extension[0]
		off += size
		if off > limit {
			return parsedMalformed
		}
	}
	p.longChain = isExtension(next)
	if next == protoFragment {
		if off+8 > limit {
			return parsedMalformed
		}
		p.fragment = true // the first and an atomic one too
		next = f.Data[off]
		off += 8
	}
	p.l4 = off
	return parseTransport(f, p, next)
}

// parseEthernet reads the frame from its link header on: finds the IP header, and its family.
func parseEthernet(f *Frame, p *packet) parsed {
	if len(f.Data) < 14 {
		return parsedMalformed
	}
	off, tags := uint32(14), 0
	etherType := binary.BigEndian.Uint16(f.Data[12:])
	if f.VLAN != 0 {
		p.vlan = uint16(f.VLAN & 0xfff)
		tags = 1
	}
	for isTag(etherType) && tags < maxTags {
		if len(f.Data) < int(off)+4 {
			return parsedMalformed
		}
		tag := f.Data[off : off+4]
		if tags == 0 {
			p.vlan = binary.BigEndian.Uint16(tag) & 0xfff
		}
		tags++
		etherType = binary.BigEndian.Uint16(tag[2:])
		off += 4
	}
	if etherType == ethPPPoE {
		if len(f.Data) < int(off)+8 {
			return parsedMalformed
		}
		pppoe := f.Data[off : off+8]
		if pppoe[0] != 0x11 || pppoe[1] != 0 {
			return parsedNotIP
		}
		switch binary.BigEndian.Uint16(pppoe[6:]) {
		case pppIPv4:
			etherType = ethIPv4
		case pppIPv6:
			etherType = ethIPv6
		default:
			etherType = 0
		}
		off += 8
	}
	p.l3 = off
	switch etherType {
	case ethIPv4:
		p.link = LinkIPv4
	case ethIPv6:
		p.link = LinkIPv6
	default:
		p.link = LinkOther // and more tags than are walked
	}
	return parsedIP
}

// parseFrame reads f into p, which must be zero.
func parseFrame(f *Frame, p *packet) parsed {
	if f.Link == LinkEthernet {
		if parsed := parseEthernet(f, p); parsed != parsedIP {
			return parsed
		}
	} else {
		p.link = f.Link
	}
	switch p.link {
	case LinkIPv4:
		return parseIPv4(f, p)
	case LinkIPv6:
		return parseIPv6(f, p)
	default:
		return parsedNotIP
	}
}
