package marker

import "encoding/binary"

// checksumUpdate is RFC 1624, equation 3: HC' = ~(~HC + ~m + m'). Byte order does not matter as long
// as all are read alike. m differs from m', so the sum is never 0 and the result never 0xffff where 0
// is right.
func checksumUpdate(checksum, old, new uint16) uint16 {
	sum := uint32(^checksum) + uint32(^old) + uint32(new)
	sum = sum&0xffff + sum>>16
	sum = sum&0xffff + sum>>16
	return ^uint16(sum)
}

func remarkIPv4(ip []byte, dscp uint8) {
	old := binary.BigEndian.Uint16(ip)
	ip[1] = dscp<<2 | ip[1]&3
	checksum := checksumUpdate(binary.BigEndian.Uint16(ip[10:]), old, binary.BigEndian.Uint16(ip))
	binary.BigEndian.PutUint16(ip[10:], checksum)
}

func remarkIPv6(ip []byte, dscp uint8) {
	ip[0] = ip[0]&0xf0 | dscp>>2
	ip[1] = dscp&3<<6 | ip[1]&0x3f
}

// remark writes the packet's DSCP: those six bits and nothing else; ECN and flow label stay. A packet
// that is already right is not written.
func remark(f *Frame, p *packet, dscp uint8) {
	if p.dscp == dscp {
		return
	}
	ip := f.Data[p.l3:]
	if p.ipv6 != 0 {
		remarkIPv6(ip[:40], dscp)
	} else {
		remarkIPv4(ip[:20], dscp)
	}
}
