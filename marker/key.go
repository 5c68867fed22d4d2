package marker

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"unsafe"
)

// Per says who shares a bucket.
type Per uint8

// Who shares a bucket. From PerClass on a bucket has a reserved set and no hash.
const (
	PerFlow      Per = iota // source, destination, protocol, ports
	PerSrc                  // source address, or a prefix of it
	PerDst                  // destination address, or a prefix of it
	PerVLAN                 // outermost VLAN ID
	PerDSCP                 // DSCP on arrival
	PerClass                // one bucket for the class
	PerInterface            // one bucket for all classes that name its profile
)

var perNames = []string{"flow", "src", "dst", "vlan", "dscp", "class", "interface"}

// String returns the word of the policy.
func (p Per) String() string {
	if int(p) < len(perNames) {
		return perNames[p]
	}
	return fmt.Sprintf("per(%d)", uint8(p))
}

// Key says which bucket: class, meter position and family, and the fields of Per; the rest is zero.
// Its bytes in memory are those of KeyFields, as in the kernel's map.
type Key [5]uint64

// KeyFields are a key's bytes. An IPv4 address takes the first 4 bytes of its 16.
type KeyFields struct {
	Src, Dst     [16]byte
	Sport, Dport [2]byte // network order
	Proto        uint8
	Kind         uint8 // Per | position << 4 | IPv6 << 7
	Class        uint16
}

// The parts of KeyFields.Kind.
const (
	kindPositionShift = 4
	kindIPv6          = 0x80
)

// Key returns the fields as a key.
func (f *KeyFields) Key() Key { return *(*Key)(unsafe.Pointer(f)) }

// Bytes returns the key's bytes, in place: they sort by source, destination, ports, protocol.
func (k *Key) Bytes() *[40]byte { return (*[40]byte)(unsafe.Pointer(k)) }

// is reports whether both are one key. In words: the comparison of arrays is a call.
func (k *Key) is(o *Key) bool {
	return (k[0]^o[0])|(k[1]^o[1])|(k[2]^o[2])|(k[3]^o[3])|(k[4]^o[4]) == 0
}

// Fields returns the key's fields.
func (k *Key) Fields() KeyFields { return *(*KeyFields)(unsafe.Pointer(k)) }

// Per returns who shares the bucket.
func (f *KeyFields) Per() Per { return Per(f.Kind & (1<<kindPositionShift - 1)) }

// Position returns the meter's place in its class's chain, from 0.
func (f *KeyFields) Position() int { return int(f.Kind&^kindIPv6) >> kindPositionShift }

// IPv6 reports whether the key is of IPv6 packets.
func (f *KeyFields) IPv6() bool { return f.Kind&kindIPv6 != 0 }

func (f *KeyFields) addr(b [16]byte) netip.Addr {
	if f.IPv6() {
		return netip.AddrFrom16(b)
	}
	return netip.AddrFrom4([4]byte(b[:4]))
}

// String returns the key as a person reads it: `udp 192.0.2.1:53 > 198.51.100.7:4242`, or the
// address, or the class's number where the whole class shares the bucket.
func (f KeyFields) String() string {
	switch f.Per() {
	case PerFlow:
		sport, dport := binary.BigEndian.Uint16(f.Sport[:]), binary.BigEndian.Uint16(f.Dport[:])
		if !hasPorts(f.Proto) || sport == 0 && dport == 0 {
			return fmt.Sprintf("%s %v > %v", ProtoName(f.Proto), f.addr(f.Src), f.addr(f.Dst))
		}
		return fmt.Sprintf("%s %v > %v", ProtoName(f.Proto),
			netip.AddrPortFrom(f.addr(f.Src), sport), netip.AddrPortFrom(f.addr(f.Dst), dport))
	case PerSrc:
		return f.addr(f.Src).String()
	case PerDst:
		return f.addr(f.Dst).String()
	case PerVLAN, PerDSCP:
		return fmt.Sprintf("%v %d", f.Per(), binary.BigEndian.Uint16(f.Sport[:]))
	default:
		return f.Per().String()
	}
}

var protoNames = map[uint8]string{
	1: "icmp", 2: "igmp", 4: "ipip", protoTCP: "tcp", protoUDP: "udp", protoDCCP: "dccp", 41: "ipv6", 47: "gre",
	50: "esp", protoAH: "ah", 58: "icmpv6", 89: "ospf", 103: "pim", protoSCTP: "sctp", protoUDPLite: "udplite",
}

// ProtoName returns an IP protocol's short name, or its number.
func ProtoName(proto uint8) string {
	if name, ok := protoNames[proto]; ok {
		return name
	}
	return fmt.Sprintf("proto%d", proto)
}
