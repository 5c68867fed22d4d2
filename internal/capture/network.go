package capture

import "encoding/binary"

// Network is the packet from its network header on, for every link type but
// EN10MB (whose Data goes to the policer as it is, and comes back with family
// 0).
//
// family is 4, 6, or 0 for anything else; ip is the captured bytes behind the
// link header; length is the true length in bytes from there on. A link header
// that the captured bytes cut short gives family 4 without any bytes, which a
// policer calls malformed.
func (p *Packet) Network() (family int, ip []byte, length int) {
	header := 0
	switch p.Link {
	case LinkIPv4:
		family = 4
	case LinkIPv6:
		family = 6
	case LinkRaw:
		family, header = rawFamily(p.Data)
	case LinkNull, LinkLoop:
		family, header = loopbackFamily(p.Data, p.Link == LinkNull)
	case LinkSLL:
		family, header = etherTypeFamily(p.Data, 14, 16)
	case LinkSLL2:
		family, header = etherTypeFamily(p.Data, 0, 20)
	case LinkPPP, LinkPPPSerial:
		family, header = pppFamily(p.Data)
	}
	if header == cutHeader {
		return 4, nil, 0
	}
	return family, p.Data[header:], p.Length - header
}

// cutHeader stands for the length of a link header that is not all there.
const cutHeader = -1

// Each of these returns the family and the link header's length.

func rawFamily(b []byte) (family, header int) {
	if len(b) == 0 {
		return 4, cutHeader
	}
	if version := b[0] >> 4; version == 4 || version == 6 {
		return int(version), 0
	}
	return 0, 0
}

// loopbackFamily reads an address family: 2 is AF_INET everywhere; AF_INET6 is
// 10 on Linux, 24, 28 and 30 on the BSDs and macOS. NULL holds it in the byte
// order of the machine that captured.
func loopbackFamily(b []byte, eitherOrder bool) (family, header int) {
	const size = 4
	if len(b) < size {
		return 4, cutHeader
	}
	family = addressFamily(binary.BigEndian.Uint32(b))
	if family == 0 && eitherOrder {
		family = addressFamily(binary.LittleEndian.Uint32(b))
	}
	return family, size
}

func addressFamily(af uint32) int {
	switch af {
	case 2:
		return 4
	case 10, 24, 28, 30:
		return 6
	}
	return 0
}

func etherTypeFamily(b []byte, at, size int) (family, header int) {
	if len(b) < size {
		return 4, cutHeader
	}
	switch binary.BigEndian.Uint16(b[at:]) {
	case 0x0800:
		return 4, size
	case 0x86dd:
		return 6, size
	}
	return 0, size
}

// pppFamily reads PPP (RFC 1661, 1662): address and control may be left out,
// and the protocol be compressed to one byte, which is then odd.
func pppFamily(b []byte) (family, header int) {
	if len(b) >= 1 && b[0] == 0xff {
		if len(b) < 2 {
			return 4, cutHeader
		}
		if b[1] == 0x03 {
			header = 2
		}
	}
	if len(b) <= header {
		return 4, cutHeader
	}
	protocol := uint16(b[header])
	header++
	if protocol&1 == 0 {
		if len(b) <= header {
			return 4, cutHeader
		}
		protocol = protocol<<8 | uint16(b[header])
		header++
	}
	switch protocol {
	case 0x21:
		return 4, header
	case 0x57:
		return 6, header
	}
	return 0, header
}
