package marker

import "encoding/binary"

// checksumUpdate is RFC 1624, equation 3: HC' = ~(~HC + ~m + m'). Byte order does not matter as long
// as all are read alike. m differs from m', so the sum is never 0 and the result never 0xffff where 0
// is right.
func checksumUpdate(checksum, from, to uint16) uint16 {
	sum := uint32(^checksum) + uint32(^from) + uint32(to)
	sum = sum&0xffff + sum>>16
	sum = sum&0xffff + sum>>16
	return ^uint16(sum)
}

func remarkIPv4(ip []byte, tos uint8) {
	old := binary.BigEndian.Uint16(ip)
	ip[1] = tos
	checksum := checksumUpdate(binary.BigEndian.Uint16(ip[10:]), old, binary.BigEndian.Uint16(ip))
	binary.BigEndian.PutUint16(ip[10:], checksum)
}

func remarkIPv6(ip []byte, tos uint8) {
	ip[0] = ip[0]&0xf0 | tos>>4
	ip[1] = tos<<4 | ip[1]&0x0f
}

// remark writes the packet's DSCP and ECN, or CE alone: those bits and nothing else; the flow label and
// every other bit stay. A packet that is already right is not written.
func remark(f *Frame, h *header, tos uint8) {
	if h.tos == tos {
		return
	}
	ip := f.Data[h.l3:]
	if h.family == FamilyIPv6 {
		remarkIPv6(ip[:40], tos)
	} else {
		remarkIPv4(ip[:20], tos)
	}
}

// actionTOS is the DSCP and ECN that a packet of this tos gets by an action.
func actionTOS(a *Action, tos uint8) uint8 {
	if a.Verbs&VerbCE != 0 && tos&3 != 0 {
		return tos | 3
	}
	if a.Verbs&VerbDSCP != 0 {
		return a.DSCP<<2 | tos&3
	}
	return tos
}
