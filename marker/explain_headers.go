package marker

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// Reading says what the parser made of a frame.
type Reading uint8

// What the parser made of a frame.
const (
	ReadIP Reading = iota
	ReadNotIP
	ReadMalformed
)

var readingNames = []string{"ip", "not-ip", "malformed"}

// String returns the word in JSON.
func (r Reading) String() string { return readingNames[r] }

// Tag is a VLAN tag, or an offloaded one.
type Tag struct {
	EtherType uint16 // 0x8100 or 0x88a8; offloaded: not known, 0
	TCI       uint16 // priority (3 bits), DEI, VID (12 bits)
	Offloaded bool
}

// VID is the tag's VLAN.
func (t Tag) VID() uint16 { return t.TCI & 0xfff }

// PPPoE is the header of a PPPoE session.
type PPPoE struct {
	Session  uint16
	Protocol uint16 // of PPP: 0x0021 IPv4, 0x0057 IPv6
}

// Headers is how a frame's headers were read. What stands before the fault of a malformed one is there, too.
type Headers struct {
	Link      Link
	Captured  uint32 // bytes of the frame that are there
	Length    uint32 // bytes of the frame on the wire, without an offloaded tag
	Tags      []Tag  // outermost first, as far as they were read
	VLAN      uint16 // that rules and keys see: the outermost tag's VID; 0 without one
	PPPoE     *PPPoE
	EtherType uint16 // Ethernet: behind the tags
	Reading   Reading
	Why       string // not IP, or malformed: what is so

	// Of IP:
	Version      int // 4 or 6
	Src, Dst     netip.Addr
	At           uint32 // where the IP header begins in the frame
	HeaderLength uint32 // bytes up to the transport header: options and extension headers included
	IPLength     uint32 // bytes of the packet, header included; of a super-packet as it is
	LengthField  bool   // the header says so itself; else it says 0, and the frame's length is taken
	DSCP, ECN    uint8
	Fragment     bool
	Offset       uint32  // a fragment's place in its datagram, in bytes
	More         bool    // more fragments follow
	Extensions   []uint8 // IPv6: headers walked, by their numbers, the Fragment header included
	LongChain    bool    // there are more of them than are walked
	Proto        uint8
	Ports        bool // they were read:
	Sport, Dport uint16
	NoPorts      string // why not

	// Of a super-packet: payload of each segment in bytes, and how many it says it has (0: it does not).
	GSOSize, GSOSegs uint32
}

// headersOf says in words what the parser read of f into p. It follows p, and decides nothing itself.
func headersOf(f *Frame, p *packet, result parsed) Headers {
	h := Headers{
		Link: f.Link, Captured: uint32(len(f.Data)), Length: f.Length, VLAN: p.vlan, GSOSize: f.GSOSize, GSOSegs: f.GSOSegs,
	}
	cut := h.readLink(f)
	switch result {
	case parsedNotIP:
		h.Reading, h.Why = ReadNotIP, h.notIP()
		return h
	case parsedMalformed:
		h.Reading, h.Why = ReadMalformed, cut
		if cut == "" {
			h.Why = malformedIP(f, p)
		}
		return h
	}
	h.readIP(f, p)
	return h
}

// readLink walks what stands before the IP header, and says what of it is cut short.
func (h *Headers) readLink(f *Frame) (cut string) {
	if f.Link != LinkEthernet {
		return ""
	}
	if f.VLAN != 0 {
		h.Tags = append(h.Tags, Tag{TCI: uint16(f.VLAN), Offloaded: true})
	}
	if h.Captured < 14 {
		return h.short("the Ethernet header", 0, 14)
	}
	off := uint32(14)
	h.EtherType = binary.BigEndian.Uint16(f.Data[12:])
	for isTag(h.EtherType) && len(h.Tags) < maxTags {
		if h.Captured < off+4 {
			return h.short("a VLAN tag", off, 4)
		}
		h.Tags = append(h.Tags, Tag{EtherType: h.EtherType, TCI: binary.BigEndian.Uint16(f.Data[off:])})
		h.EtherType = binary.BigEndian.Uint16(f.Data[off+2:])
		off += 4
	}
	if h.EtherType != ethPPPoE {
		return ""
	}
	if h.Captured < off+8 {
		return h.short("the PPPoE header", off, 8)
	}
	if f.Data[off] == 0x11 && f.Data[off+1] == 0 {
		h.PPPoE = &PPPoE{binary.BigEndian.Uint16(f.Data[off+2:]), binary.BigEndian.Uint16(f.Data[off+6:])}
	}
	return ""
}

// short says what is cut by the captured bytes.
func (h *Headers) short(what string, at, size uint32) string {
	return fmt.Sprintf("%s is cut short: it has %d bytes from byte %d on, and %d of the frame's were captured", what, size, at, h.Captured)
}

var etherTypeNames = map[uint16]string{
	0x0806: "ARP", 0x8035: "RARP", 0x8847: "MPLS", 0x8848: "MPLS multicast", 0x8863: "PPPoE discovery", ethPPPoE: "PPPoE session",
	0x88cc: "LLDP", 0x888e: "EAPOL", 0x88e5: "MACsec", 0x9000: "loopback test", ethVLAN: "802.1Q", ethQinQ: "802.1ad",
	ethIPv4: "IPv4", ethIPv6: "IPv6",
}

// EtherTypeName is an EtherType's short name, if it has one, and its number: `ARP (0x0806)`.
func EtherTypeName(t uint16) string {
	if name, ok := etherTypeNames[t]; ok {
		return fmt.Sprintf("%s (0x%04x)", name, t)
	}
	return fmt.Sprintf("0x%04x", t)
}

// notIP says what a frame is instead.
func (h *Headers) notIP() string {
	switch {
	case h.Link != LinkEthernet:
		return "it is announced neither as IPv4 nor as IPv6"
	case h.PPPoE != nil:
		return fmt.Sprintf("the PPP protocol is 0x%04x, neither IPv4 (0x0021) nor IPv6 (0x0057)", h.PPPoE.Protocol)
	case h.EtherType == ethPPPoE:
		return "the PPPoE header is not that of a session's data (version 1, type 1, code 0)"
	case isTag(h.EtherType):
		return fmt.Sprintf("there are more than %d VLAN tags", maxTags)
	case h.EtherType < 0x600:
		return fmt.Sprintf("the frame is of IEEE 802.3: a length (%d) stands for the EtherType", h.EtherType)
	}
	return fmt.Sprintf("the EtherType is %s", EtherTypeName(h.EtherType))
}

// malformedIP says what is wrong of an IP packet, in the order in which the parser looks.
func malformedIP(f *Frame, p *packet) string {
	h := Headers{Captured: uint32(len(f.Data))}
	version, fixed := byte(4), uint32(20)
	if p.link == LinkIPv6 {
		version, fixed = 6, 40
	}
	if h.Captured < p.l3+fixed {
		return h.short(fmt.Sprintf("the IPv%d header", version), p.l3, fixed)
	}
	ip := f.Data[p.l3:]
	there := f.Length - p.l3
	if ip[0]>>4 != version {
		return fmt.Sprintf("the version is %d, where IPv%d was announced", ip[0]>>4, version)
	}
	if version == 4 {
		header := uint32(ip[0]&0xf) * 4
		switch {
		case header < fixed:
			return fmt.Sprintf("the header length is %d bytes (IHL %d): at least %d", header, ip[0]&0xf, fixed)
		case h.Captured < p.l3+header:
			return h.short("the IPv4 header", p.l3, header)
		case p.ipLength < header:
			return fmt.Sprintf("the total length is %d bytes, less than the header's %d", p.ipLength, header)
		}
		return fmt.Sprintf("the total length is %d bytes, and the frame holds %d from there on", p.ipLength, there)
	}
	if p.ipLength > there {
		return fmt.Sprintf("header and payload length are %d bytes, and the frame holds %d from there on", p.ipLength, there)
	}
	return "an extension header is cut short, by the captured bytes or the packet's own end"
}

// readIP fills in what the parser read of an IP packet.
func (h *Headers) readIP(f *Frame, p *packet) {
	ip := f.Data[p.l3:]
	h.At, h.HeaderLength, h.IPLength = p.l3, p.l4-p.l3, p.ipLength
	h.DSCP, h.ECN = p.dscp, p.tos&3
	h.Fragment, h.LongChain = p.fragment, p.longChain
	h.Proto, h.Ports, h.Sport, h.Dport = p.proto, p.ports, p.sport, p.dport
	if p.family == FamilyIPv4 {
		h.Version = 4
		h.Src, h.Dst = netip.AddrFrom4([4]byte(ip[12:16])), netip.AddrFrom4([4]byte(ip[16:20]))
		h.LengthField = binary.BigEndian.Uint16(ip[2:]) != 0
		field := binary.BigEndian.Uint16(ip[6:])
		h.Offset, h.More = uint32(field&0x1fff)*8, field&0x2000 != 0
	} else {
		h.Version = 6
		h.Src, h.Dst = netip.AddrFrom16([16]byte(ip[8:24])), netip.AddrFrom16([16]byte(ip[24:40]))
		h.LengthField = h.IPLength == 40+uint32(binary.BigEndian.Uint16(ip[4:]))
		h.walk(f.Data[p.l3:p.l4])
	}
	switch {
	case h.Ports:
	case h.Fragment:
		h.NoPorts = "it is a fragment"
	case h.LongChain:
		h.NoPorts = fmt.Sprintf("there are more than %d extension headers", maxExtensions)
	case !hasPorts(h.Proto):
		h.NoPorts = "the protocol has none"
	case p.l4+4 > p.l3+p.ipLength:
		h.NoPorts = "the packet ends before them"
	default:
		h.NoPorts = "they were not captured"
	}
}

// walk lists the extension headers between the IPv6 header and where the parser found the transport's.
func (h *Headers) walk(headers []byte) {
	next := headers[6]
	for off := 40; off < len(headers); {
		h.Extensions = append(h.Extensions, next)
		size := (int(headers[off+1]) + 1) * 8
		switch next {
		case protoAH:
			size = (int(headers[off+1]) + 2) * 4
		case protoFragment:
			size = 8
			field := binary.BigEndian.Uint16(headers[off+2:])
			h.Offset, h.More = uint32(field&0xfff8), field&1 != 0
		}
		next = headers[off]
		off += size
	}
}

var extensionNames = map[uint8]string{
	protoHopByHop: "hop-by-hop", protoRouting: "routing", protoFragment: "fragment", protoAH: "ah", protoDstOpts: "destination",
}

// ExtensionName is an IPv6 extension header's short name, or its number.
func ExtensionName(header uint8) string {
	if name, ok := extensionNames[header]; ok {
		return name
	}
	return ProtoName(header)
}
