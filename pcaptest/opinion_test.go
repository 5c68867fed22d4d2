package pcaptest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/tricolor-policer/tricolor/internal/capture"
	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/marker"
)

// A third opinion on what the parser reads: gopacket's layers, which share nothing with it. Layer by
// layer, to the outermost IP header and what it carries, no further.

// opinion is what gopacket reads of a packet.
type opinion struct {
	src, dst   netip.Addr
	proto      uint8
	ports      [2]uint16
	havePorts  bool // read whole, so both must have them
	dscp       uint8
	start      int  // of the IP header, in the frame
	length     int  // of the IP packet by its length field, header included
	version    byte // which gopacket does not check
	unsaid     bool // that field is 0, for a packet too long for it
	fragment   bool
	extensions int  // IPv6 extension headers that are walked
	tags       int  // VLAN tags
	cut        bool // the captured bytes, or the packet, end within its extension headers
}

// errNoIP is where gopacket finds no IP packet at all.
var errNoIP = errors.New("no IP")

// secondOpinion reads data, which starts with a header of the type.
func secondOpinion(first gopacket.LayerType, data []byte) (*opinion, error) {
	o := &opinion{}
	frame := len(data)
	for {
		var decoder gopacket.DecodingLayer
		o.start = frame - len(data)
		switch first {
		case layers.LayerTypeEthernet:
			decoder = &layers.Ethernet{}
		case layers.LayerTypeDot1Q:
			decoder = &layers.Dot1Q{}
			o.tags++
		case layers.LayerTypePPPoE:
			// No DecodingLayer: six bytes to the protocol.
			if len(data) < 8 {
				return nil, io.ErrUnexpectedEOF
			}
			first = map[[2]byte]gopacket.LayerType{{0, 0x21}: layers.LayerTypeIPv4, {0, 0x57}: layers.LayerTypeIPv6}[[2]byte(data[6:])]
			data = data[8:]
			continue
		case layers.LayerTypeIPv4:
			o.version = 4
			return o, o.ipv4(data)
		case layers.LayerTypeIPv6:
			o.version = 6
			return o, o.ipv6(data)
		default:
			return nil, errNoIP
		}
		if err := decoder.DecodeFromBytes(data, gopacket.NilDecodeFeedback); err != nil {
			return nil, err
		}
		first, data = decoder.NextLayerType(), decoder.LayerPayload()
	}
}

func (o *opinion) ipv4(data []byte) error {
	var ip layers.IPv4
	if err := ip.DecodeFromBytes(data, gopacket.NilDecodeFeedback); err != nil {
		return err
	}
	o.src, _ = netip.AddrFromSlice(ip.SrcIP.To4())
	o.dst, _ = netip.AddrFromSlice(ip.DstIP.To4())
	o.proto, o.dscp, o.length = uint8(ip.Protocol), ip.TOS>>2, int(ip.Length)
	o.unsaid = data[2]|data[3] == 0 // gopacket stands in what was captured
	o.fragment = ip.Flags&layers.IPv4MoreFragments != 0 || ip.FragOffset != 0
	o.transport(ip.Payload)
	return nil
}

func (o *opinion) ipv6(data []byte) error {
	var ip layers.IPv6
	if err := ip.DecodeFromBytes(data, gopacket.NilDecodeFeedback); err != nil {
		return err
	}
	o.src, _ = netip.AddrFromSlice(ip.SrcIP)
	o.dst, _ = netip.AddrFromSlice(ip.DstIP)
	o.dscp, o.length, o.unsaid = ip.TrafficClass>>2, 40+int(ip.Length), ip.Length == 0
	next, rest := ip.NextHeader, ip.Payload
	if ip.HopByHop != nil { // read along with the header
		next, rest = ip.HopByHop.NextHeader, ip.HopByHop.Payload
		o.extensions++
	}
	for {
		o.proto = uint8(next)
		var size int
		switch next {
		case layers.IPProtocolIPv6HopByHop, layers.IPProtocolIPv6Destination, layers.IPProtocolIPv6Routing, layers.IPProtocolAH:
			var skipper layers.IPv6ExtensionSkipper
			if next == layers.IPProtocolAH {
				p := gopacket.NewPacket(rest, layers.LayerTypeIPSecAH, gopacket.DecodeOptions{Lazy: true, NoCopy: true})
				ah, ok := p.Layer(layers.LayerTypeIPSecAH).(*layers.IPSecAH)
				if !ok {
					o.cut = true
					return nil
				}
				size = len(ah.Contents)
				next = ah.NextHeader
			} else {
				if o.cut = skipper.DecodeFromBytes(rest, gopacket.NilDecodeFeedback) != nil; o.cut {
					return nil
				}
				size = len(skipper.Contents)
				next = skipper.NextHeader
			}
			o.extensions++
		case layers.IPProtocolIPv6Fragment:
			p := gopacket.NewPacket(rest, layers.LayerTypeIPv6Fragment, gopacket.DecodeOptions{Lazy: true, NoCopy: true})
			f, ok := p.Layer(layers.LayerTypeIPv6Fragment).(*layers.IPv6Fragment)
			if !ok {
				o.cut = true
				return nil
			}
			o.fragment, o.proto = true, uint8(f.NextHeader)
			return nil
		default:
			o.transport(rest)
			return nil
		}
		rest = rest[size:]
	}
}

func (o *opinion) transport(data []byte) {
	var decoder gopacket.DecodingLayer
	var ports func() [2]uint16
	switch layers.IPProtocol(o.proto) {
	case layers.IPProtocolTCP:
		tcp := &layers.TCP{}
		decoder, ports = tcp, func() [2]uint16 { return [2]uint16{uint16(tcp.SrcPort), uint16(tcp.DstPort)} }
	case layers.IPProtocolUDP:
		udp := &layers.UDP{}
		decoder, ports = udp, func() [2]uint16 { return [2]uint16{uint16(udp.SrcPort), uint16(udp.DstPort)} }
	case layers.IPProtocolSCTP:
		sctp := &layers.SCTP{}
		decoder, ports = sctp, func() [2]uint16 { return [2]uint16{uint16(sctp.SrcPort), uint16(sctp.DstPort)} }
	default:
		return // and UDP-Lite, which it decodes without saying whether it could
	}
	if !o.fragment && decoder.DecodeFromBytes(data, gopacket.NilDecodeFeedback) == nil {
		o.ports, o.havePorts = ports(), true
	}
}

// linkLayer is what gopacket starts with for a frame.
func linkLayer(f *marker.Frame) gopacket.LayerType {
	switch f.Link {
	case marker.LinkEthernet:
		return layers.LayerTypeEthernet
	case marker.LinkIPv4:
		return layers.LayerTypeIPv4
	case marker.LinkIPv6:
		return layers.LayerTypeIPv6
	}
	return gopacket.LayerTypeZero
}

// disagreement is how the two differ on a frame, or "". Where the rules of this project differ from
// gopacket's on purpose, the rule stands here.
func disagreement(o *opinion, s marker.Seen, cost uint64, f *marker.Frame) string {
	src, dst := s.Flow.Src, s.Flow.Dst
	addr := func(b [16]byte) netip.Addr {
		if s.Flow.IPv6() {
			return netip.AddrFrom16(b)
		}
		return netip.AddrFrom4([4]byte(b[:4]))
	}
	ports := [2]uint16{uint16(s.Flow.Sport[0])<<8 | uint16(s.Flow.Sport[1]), uint16(s.Flow.Dport[0])<<8 | uint16(s.Flow.Dport[1])}
	length := o.length
	if rest := int(f.Length) - o.start; o.unsaid && (!s.Flow.IPv6() || rest > 65_575) {
		length = rest // a super-packet is as long as its frame
	}
	switch {
	case addr(src) != o.src || addr(dst) != o.dst:
		return fmt.Sprintf("addresses %v > %v, not %v > %v", addr(src), addr(dst), o.src, o.dst)
	case s.DSCP != o.dscp:
		return fmt.Sprintf("DSCP %d, not %d", s.DSCP, o.dscp)
	case int(cost) != length:
		return fmt.Sprintf("%d bytes of IP, not %d", cost, length)
	case o.extensions > 8:
		return "" // no further than eight extension headers
	case s.Flow.Proto != o.proto:
		return fmt.Sprintf("protocol %d, not %d", s.Flow.Proto, o.proto)
	case o.fragment && ports != [2]uint16{}:
		return fmt.Sprintf("a fragment with ports %v", ports)
	case o.havePorts && ports != o.ports:
		return fmt.Sprintf("ports %v, not %v", ports, o.ports)
	}
	return ""
}

// Where both the parser and gopacket read a packet, of all shared captures, they read the same; where the
// parser finds none, gopacket finds none or one that breaks a rule.
func TestGopacketsOpinion(t *testing.T) {
	dir := filepath.Join(testutils.SharedDir(t), "pcaps")
	var files []string
	for _, pattern := range []string{"*.pcap", "*.pcapng", "odd/*.pcap", "odd/*.pcapng", "perf/3-*.pcap"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	plan := planOf(t, marker.Params{Meter: marker.Token, CIR: 1, CBS: 1}, marker.PerFlow, 64)
	m, err := NewMirror(plan, marker.SeedsFrom(1))
	if err != nil {
		t.Fatal(err)
	}
	var both, fragments, ported, extended, tagged, malformed, notIP, only int
	for _, path := range files {
		name, err := filepath.Rel(dir, path)
		if err != nil {
			t.Fatal(err)
		}
		r, err := capture.Open(path)
		if err != nil {
			if refused[name] == nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		for {
			var p capture.Packet
			if err := r.Next(&p); err != nil {
				break // the readers' own tests say whether rightly
			}
			f := frameOf(&p, 1<<20)
			seen := marker.See(&f)
			o, err := secondOpinion(linkLayer(&f), f.Data)
			copied := f
			copied.Data = bytes.Clone(f.Data)
			out := m.Mirror.Packet(&copied, 0)
			switch {
			case out.Kind == marker.NotIP:
				if notIP++; err == nil && o.tags <= 4 {
					t.Errorf("%s: packet %d is not IP, but gopacket reads %+v", name, p.Number, *o)
				}
			case out.Kind == marker.Malformed:
				if malformed++; err == nil && !o.cut && o.version == f.Data[o.start]>>4 && o.start+o.length <= int(f.Length) {
					t.Errorf("%s: packet %d is malformed, but gopacket reads %+v", name, p.Number, *o)
				}
			case err != nil:
				only++
				t.Logf("%s: packet %d, %v: gopacket says %v", name, p.Number, seen.Flow, err)
			default:
				both++
				for _, c := range []struct {
					yes bool
					n   *int
				}{{o.fragment, &fragments}, {o.havePorts, &ported}, {o.extensions > 0, &extended}, {o.tags > 0, &tagged}} {
					if c.yes {
						*c.n++
					}
				}
				if d := disagreement(o, seen, out.Cost, &f); d != "" {
					t.Errorf("%s: packet %d: %s\n%x", name, p.Number, d, f.Data[:min(len(f.Data), 120)])
				}
			}
		}
		r.Close()
	}
	t.Logf("%d packets read by both: %d with ports, %d fragments, %d with extension headers, %d with tags; %d malformed, %d not IP, %d read by the parser only",
		both, ported, fragments, extended, tagged, malformed, notIP, only)
	for what, n := range map[string]int{"ports": ported / 10_000, "fragments": fragments, "extension headers": extended, "tags": tagged} {
		if n == 0 {
			t.Errorf("hardly a packet had %s", what)
		}
	}
}
