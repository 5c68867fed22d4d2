package pcaptest

import (
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/tricolor-policer/tricolor/loader"
	"github.com/tricolor-policer/tricolor/marker"
)

// Frames made of headers written by hand. All go from 192.0.2.1 to 198.51.100.7, or from 2001:db8::1 to
// 2001:db8::2, from port 4660 to 53, as AF12 and ECT(0).

const packetTOS = 12<<2 | 2

// octets joins bytes in hexadecimal; blanks are for the reader.
func octets(parts ...string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(strings.Join(parts, ""), " ", ""))
	if err != nil {
		panic(err)
	}
	return b
}

func zeros(n int) []byte { return make([]byte, n) }

// ip4 is an IPv4 packet.
type ip4 struct {
	proto   byte
	body    []byte
	options int    // bytes, padding of the header
	first   byte   // version and IHL; 0: right
	total   int    // the length field; 0: right, which is 0 where the packet is longer than it can say
	zero    bool   // the length field is 0
	offset  uint16 // flags and fragment offset
	src     byte   // last byte of the address; 0: 1
}

func (h ip4) bytes() []byte {
	b := slices.Concat(octets("4500 0000 0001 0000 4000 0000 c0000201 c6336407"), slices.Repeat([]byte{1}, h.options))
	b[0] += byte(h.options / 4)
	if h.first != 0 {
		b[0] = h.first
	}
	b[1] = packetTOS
	total := len(b) + len(h.body)
	if h.total != 0 {
		total = h.total
	}
	if !h.zero && total <= 0xffff {
		binary.BigEndian.PutUint16(b[2:], uint16(total))
	}
	binary.BigEndian.PutUint16(b[6:], h.offset)
	b[9] = h.proto
	if h.src != 0 {
		b[15] = h.src
	}
	binary.BigEndian.PutUint16(b[10:], ^sum(b))
	return append(b, h.body...)
}

// ip6 is an IPv6 packet.
type ip6 struct {
	next    byte
	body    []byte
	first   byte // version; 0: right
	payload int  // the length field; 0: right, which is 0 where the packet is longer than it can say
	zero    bool // the length field is 0
	src     byte // last byte of the address; 0: 1
}

func (h ip6) bytes() []byte {
	b := octets("60000000 0000 0040 20010db8000000000000000000000001 20010db8000000000000000000000002")
	if h.first != 0 {
		b[0] = h.first
	}
	b[0] |= packetTOS >> 4
	b[1] = packetTOS << 4 & 0xff
	payload := len(h.body)
	if h.payload != 0 {
		payload = h.payload
	}
	if !h.zero && payload <= 0xffff {
		binary.BigEndian.PutUint16(b[4:], uint16(payload))
	}
	b[6] = h.next
	if h.src != 0 {
		b[23] = h.src
	}
	return append(b, h.body...)
}

// udp is a header of 8 bytes, as UDP-Lite and, for its ports, DCCP have it; and payload.
func udp(payload int) []byte { return append(octets("1234 0035 0000 0000"), zeros(payload)...) }

// tcp is a header of 20 bytes and options, and payload.
func tcp(options, payload int) []byte {
	b := slices.Concat(octets("1234 0035 00000001 00000002 5010 ffff 0000 0000"), slices.Repeat([]byte{1}, options), zeros(payload))
	b[12] += byte(options / 4 << 4)
	return b
}

// sctp is a common header of 12 bytes, and chunks.
func sctp(chunks int) []byte { return append(octets("1234 0035 00000007 00000000"), zeros(chunks)...) }

// extension is an IPv6 extension header of size bytes, a multiple of 8, of padding; and what follows it.
func extension(next byte, size int, rest ...[]byte) []byte {
	return slices.Concat([]byte{next, byte(size/8 - 1), 1, byte(size - 4)}, zeros(size-4), slices.Concat(rest...))
}

// authentication is an AH of size bytes, a multiple of 4; and what follows it.
func authentication(next byte, size int, rest ...[]byte) []byte {
	return slices.Concat([]byte{next, byte(size/4 - 2)}, zeros(size-2), slices.Concat(rest...))
}

// jumbo is the hop-by-hop header that Linux puts on super-packets of IPv6 over 64 KiB; and TCP.
func jumbo(tcp []byte) []byte {
	return slices.Concat([]byte{6, 0, 0xc2, 4}, binary.BigEndian.AppendUint32(nil, uint32(8+len(tcp))), tcp)
}

// chain is n destination options of 8 bytes; and what follows them.
func chain(n int, next byte, rest ...[]byte) []byte {
	b := slices.Concat(rest...)
	for range n {
		b = extension(next, 8, b)
		next = 60
	}
	return b
}

// ether is a frame of Ethernet. The type, in hexadecimal, may have tags before it, and more behind it.
func ether(etherType string, parts ...[]byte) marker.Frame {
	return frameFrom(marker.LinkEthernet, slices.Concat(octets("020000000001 020000000002", etherType), slices.Concat(parts...)))
}

// frameFrom is a frame of which as much was captured as a test run takes.
func frameFrom(link marker.Link, b []byte) marker.Frame {
	return marker.Frame{Link: link, Data: b[:min(len(b), loader.RunMax)], Length: uint32(len(b))}
}

// behind is the frame with more bytes at its end.
func behind(f marker.Frame, b []byte) marker.Frame {
	return frameFrom(f.Link, slices.Concat(f.Data, b))
}

// captured is the frame of which a capture has the first n bytes only.
func captured(f marker.Frame, n int) marker.Frame {
	f.Data = f.Data[:n:n]
	return f
}

// offloaded is the frame with a tag that the device took off.
func offloaded(f marker.Frame, tci uint32) marker.Frame {
	f.VLAN = marker.VLANPresent | tci
	return f
}

// super is the frame as a super-packet of segments with so much payload.
func super(f marker.Frame, size, segments uint32) marker.Frame {
	f.GSOSize, f.GSOSegs = size, segments
	return f
}

// Keys as the table writes them.
const (
	udp4 = "udp 192.0.2.1:4660 > 198.51.100.7:53"
	udp6 = "udp [2001:db8::1]:4660 > [2001:db8::2]:53"
	tcp4 = "tcp 192.0.2.1:4660 > 198.51.100.7:53"
	tcp6 = "tcp [2001:db8::1]:4660 > [2001:db8::2]:53"
)

// of4 and of6 are keys without ports.
func of4(proto string) string { return proto + " 192.0.2.1 > 198.51.100.7" }
func of6(proto string) string { return proto + " 2001:db8::1 > 2001:db8::2" }
