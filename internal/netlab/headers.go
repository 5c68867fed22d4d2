package netlab

import (
	"encoding/binary"
)

const (
	etherLen     = 14
	tagLen       = 4
	ipv4Len      = 20
	ipv6Len      = 40
	tcpLen       = 20
	udpLen       = 8
	typeIPv4     = 0x0800
	typeIPv6     = 0x86dd
	typeTag      = 0x8100 // 802.1Q
	typeSTag     = 0x88a8 // 802.1ad
	typeReserved = 0xffff // no frame has it
	protoTCP     = 6
	protoUDP     = 17
	fragments    = 0x1fff // the fragment offset in IPv4's flags word
)

// headers is what the observer reads from an Ethernet frame. It is written apart
// from the policer's parsers, so that it can disagree with them. Extension headers
// of IPv6 are not walked.
type headers struct {
	l2, l3, l4   int // bytes of link header with tags, of IP header, of TCP or UDP header (0: neither)
	ipv6         bool
	ip           int // bytes of the IP packet as its header has it; 0 if it does not say
	dscp, ecn    uint8
	proto        uint8
	sport, dport uint16
	checksumOK   bool // of the IPv4 header; true for IPv6
}

// parseHeaders reads the start of a frame. It returns false for what is not IP,
// and for what is too short to tell.
func parseHeaders(b []byte) (h headers, ok bool) {
	if len(b) < etherLen {
		return h, false
	}
	h.l2 = etherLen
	kind := binary.BigEndian.Uint16(b[12:])
	for kind == typeTag || kind == typeSTag {
		if len(b) < h.l2+tagLen {
			return h, false
		}
		kind = binary.BigEndian.Uint16(b[h.l2+2:])
		h.l2 += tagLen
	}
	p := b[h.l2:]
	var fragment bool
	switch {
	case kind == typeIPv4 && len(p) >= ipv4Len && p[0]>>4 == 4:
		h.l3 = int(p[0]&15) * 4
		if h.l3 < ipv4Len || len(p) < h.l3 {
			return h, false
		}
		h.dscp, h.ecn = p[1]>>2, p[1]&3
		h.ip = int(binary.BigEndian.Uint16(p[2:]))
		h.proto = p[9]
		h.checksumOK = fold(sum(0, p[:h.l3])) == 0xffff
		fragment = binary.BigEndian.Uint16(p[6:])&fragments != 0
	case kind == typeIPv6 && len(p) >= ipv6Len && p[0]>>4 == 6:
		h.ipv6 = true
		h.l3 = ipv6Len
		class := p[0]<<4 | p[1]>>4
		h.dscp, h.ecn = class>>2, class&3
		if n := int(binary.BigEndian.Uint16(p[4:])); n > 0 {
			h.ip = ipv6Len + n
		}
		h.proto = p[6]
		h.checksumOK = true
	default:
		return h, false
	}
	if t := p[h.l3:]; !fragment {
		switch {
		case h.proto == protoUDP && len(t) >= udpLen:
			h.l4 = udpLen
		case h.proto == protoTCP && len(t) >= tcpLen:
			h.l4 = int(t[12]>>4) * 4
		}
		if h.l4 > 0 {
			h.sport, h.dport = binary.BigEndian.Uint16(t), binary.BigEndian.Uint16(t[2:])
		}
	}
	return h, true
}

// onWire returns how many packets a frame of the given length is on the wire, and
// how many bytes of IP they hold together. gso is the bytes of payload a segment
// carries, 0 for a frame that is one packet.
func (h headers) onWire(length, gso int) (packets, bytes uint64) {
	if gso == 0 {
		if h.ip > 0 && h.ip <= length-h.l2 { // else padding would be counted
			return 1, uint64(h.ip)
		}
		return 1, uint64(length - h.l2)
	}
	each := h.l3 + h.l4
	payload := length - h.l2 - each
	segments := max(1, (payload+gso-1)/gso)
	return uint64(segments), uint64(payload + segments*each)
}

// sum adds b, as big-endian words, to an Internet checksum (RFC 1071).
func sum(s uint32, b []byte) uint32 {
	for ; len(b) >= 2; b = b[2:] {
		s += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) == 1 {
		s += uint32(b[0]) << 8
	}
	return s
}

func fold(s uint32) uint16 {
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	return uint16(s)
}
