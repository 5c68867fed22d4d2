package loader

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/vishvananda/netlink"

	"github.com/tricolor-policer/tricolor/internal/netlab"
	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/marker"
)

// gsoPolicy charges each port in a unit of its own, from bursts that are never earned again: what they have
// spent is exact.
const gsoPolicy = `
version: 1
profiles:
  bytes:   { meter: rfc4115, cir: 0B/s, cbs: 1GiB, eir: 1B/s, ebs: 1B }
  packets: { meter: rfc4115, cir: 0pps, cbs: 1000000pkt, eir: 1pps, ebs: 1pkt }
classes:
  - { name: l3,      match: { dport: [7001] }, count: l3,      meters: [ { profile: bytes, per: class } ] }
  - { name: l2,      match: { dport: [7002] }, count: l2,      meters: [ { profile: bytes, per: class } ] }
  - { name: l1,      match: { dport: [7003] }, count: l1,      meters: [ { profile: bytes, per: class } ] }
  - { name: packets, match: { dport: [7004] }, count: packets, meters: [ { profile: packets, per: class } ] }
  - { name: plus,    match: { dport: [7005] }, count: l3,      overhead: 38,  meters: [ { profile: bytes, per: class } ] }
  - { name: minus,   match: { dport: [7006] }, count: l2,      overhead: -61, meters: [ { profile: bytes, per: class } ] }
`

const (
	gsoPort  = 7001
	gsoPorts = 6
)

// A gsoWay is how super-packets come to a policer. Where they are watched, they have been cut, or were not
// yet merged: each frame there is one packet of the wire.
type gsoWay struct {
	name      string
	options   netlab.Options
	direction Direction
	longest   uint64 // bytes: the hook is given a buffer this long at least; of TCP's, if TCP so chooses
	// prepare returns the policed device, a sender of traffic to a port, and what watches the wire.
	prepare func(tb testing.TB, lab *netlab.Lab, ipv6 bool) (policed *netlab.Host, device string, send func(port uint16))
	watched func(lab *netlab.Lab) (*netlab.Host, netlab.Direction)
}

func atRight(lab *netlab.Lab) (*netlab.Host, netlab.Direction) { return lab.Right, netlab.In }

var gsoWays = []gsoWay{
	{"TCP", netlab.Options{GSOSegments: 40}, Egress, 10_000, func(tb testing.TB, lab *netlab.Lab, ipv6 bool) (*netlab.Host, string, func(uint16)) {
		return lab.Left, "left0", tcpSender(tb, lab, ipv6, 200_001)
	}, atRight},
	{"BIG TCP", netlab.Options{GSOSegments: 128}, Egress, 65_536, func(tb testing.TB, lab *netlab.Lab, ipv6 bool) (*netlab.Host, string, func(uint16)) {
		allowBig(tb, lab.Left)
		return lab.Left, "left0", tcpSender(tb, lab, ipv6, 2_000_001)
	}, atRight},
	{"TCP merged on arrival", netlab.Options{GSOSegments: 40}, Ingress, 5_000, func(tb testing.TB, lab *netlab.Lab, ipv6 bool) (*netlab.Host, string, func(uint16)) {
		if err := lab.Right.SetGRO(true); err != nil {
			tb.Fatal(err)
		}
		return lab.Right, "right0", tcpSender(tb, lab, ipv6, 200_001)
	}, func(lab *netlab.Lab) (*netlab.Host, netlab.Direction) { return lab.Left, netlab.Out }},
	{"UDP", netlab.Options{Offload: true, GSOSegments: 1}, Egress, 40_000, func(tb testing.TB, lab *netlab.Lab, ipv6 bool) (*netlab.Host, string, func(uint16)) {
		return lab.Left, "left0", func(port uint16) {
			for _, f := range []netlab.UDPFlow{
				{Payload: 40 * 1000, GSO: 1000},
				{Payload: 60*7 + 1, GSO: 7}, // padded to Ethernet's 60 bytes, if it were on a wire
				{Payload: 9*1400 + 333, GSO: 1400},
				{Payload: 500, GSO: 500},
				{Payload: 1472},
			} {
				f.To, f.From, f.Count = netip.AddrPortFrom(lab.Right.Addr(ipv6), port), 5000, 3
				if ipv6 && f.GSO == 0 {
					f.Payload -= 20
				}
				if _, err := lab.Left.SendUDP(bounded(tb), f); err != nil {
					tb.Fatal(err)
				}
			}
		}
	}, atRight},
	// What packet sockets and taps send has gso_segs 0.
	{"packet socket", netlab.Options{}, Egress, 56_000, func(tb testing.TB, lab *netlab.Lab, ipv6 bool) (*netlab.Host, string, func(uint16)) {
		return lab.Left, "left0", func(port uint16) {
			if err := lab.Left.SendFrames(bounded(tb), superFrames(tb, lab, ipv6, port)...); err != nil {
				tb.Fatal(err)
			}
		}
	}, atRight},
	{"tap", netlab.Options{}, Ingress, 0, func(tb testing.TB, lab *netlab.Lab, ipv6 bool) (*netlab.Host, string, func(uint16)) {
		tap := openTap(tb, lab.Left, netlab.TapOptions{Name: "tap0", Offload: true})
		addBridge(tb, lab.Left, "tap0", "left0")
		return lab.Left, "tap0", func(port uint16) {
			for _, f := range superFrames(tb, lab, ipv6, port) {
				if err := tap.Send(f); err != nil {
					tb.Fatal(err)
				}
			}
		}
	}, atRight},
}

// SPEC 4.1: a super-packet costs what its segments cost on the wire, in each unit.
func TestSuperPackets(t *testing.T) {
	testutils.RequireRoot(t)
	for _, w := range gsoWays {
		for _, ipv6 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s %v ipv6=%t", w.name, w.direction, ipv6), func(t *testing.T) { testSuperPackets(t, w, ipv6) })
		}
	}
}

func testSuperPackets(t *testing.T, w gsoWay, ipv6 bool) {
	t.Helper()
	lab := newLab(t, w.options)
	plan := policyPlan(t, gsoPolicy)
	host, device, send := w.prepare(t, lab, ipv6)
	policed := police(t, host, device, w.direction, plan)
	var buffers *foreign // measures what the hook is given
	if device == host.Device && !testutils.KernelBefore(t, 6, 6) {
		buffers = newLargest(t, bufferLength)
		buffers.attachTCX(t, host, w.direction, true)
	}
	at, direction := w.watched(lab)
	watch, err := at.Watch(netlab.WatchOptions{Direction: direction, Keep: true})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	for i := range uint16(gsoPorts) {
		send(gsoPort + i)
	}
	// The wire is behind an egress hook and before an ingress one: wait for either to have all.
	seen := policed.stats(t)
	if w.direction == Egress || device != host.Device {
		if err := watch.Wait(bounded(t), total(&seen)); err != nil {
			t.Error(err)
		}
	}
	wire, err := watch.Stop()
	if err != nil {
		t.Fatal(err)
	}
	seen = policed.wait(t, wire.Total.Packets)
	if wire.Dropped != 0 || wire.Buffers != wire.Total.Packets {
		t.Fatalf("on the wire: %d frames lost, %d frames of %d packets", wire.Dropped, wire.Buffers, wire.Total.Packets)
	}

	want := marker.Stats{Classes: make([]marker.ClassStats, gsoPorts)}
	spent := make([]uint64, gsoPorts)
	for _, f := range wire.Frames {
		class, bytes, cost := wireCost(t, f.Data)
		want.Classes[class].Packets[marker.Green]++
		want.Classes[class].Bytes[marker.Green] += bytes
		spent[class] += cost
	}
	for class := range want.Classes {
		if got := seen.Classes[class]; got != want.Classes[class] {
			t.Errorf("%s: counted %v packets, %v bytes; on the wire %v, %v", plan.Classes[class].Name,
				got.Packets, got.Bytes, want.Classes[class].Packets, want.Classes[class].Bytes)
		}
		if got := policed.spent(t, class); got != spent[class] {
			t.Errorf("%s: %d spent, want %d", plan.Classes[class].Name, got, spent[class])
		}
	}
	if seen.Port != want.Port {
		t.Errorf("of no class: %+v", seen.Port)
	}
	if buffers != nil {
		longest := buffers.count(t)
		t.Logf("%d packets of %d bytes; the longest buffer at the hook has %d bytes", wire.Total.Packets, wire.Total.Bytes, longest)
		switch {
		case longest >= w.longest:
		case strings.Contains(w.name, "TCP"):
			t.Skipf("TCP made no buffers of %d bytes this time: what was to be tested did not come up", w.longest)
		default:
			t.Errorf("the hook was given no buffer longer than %d bytes: want %d", longest, w.longest)
		}
	}
}

// spent is what a class's own bucket has spent of its CBS, in whole bytes or packets.
func (p *policed) spent(tb testing.TB, class int) uint64 {
	tb.Helper()
	m := p.plan.Classes[class].Meters[0]
	for _, s := range p.buckets(tb) {
		if s.Key[4] == m.ID[0] {
			n := p.plan.Profiles[m.Profile].CBS - s.Bucket.Tc
			if n%marker.Nano != 0 {
				tb.Errorf("class %d: %d nanobytes spent are not whole", class, n)
			}
			return n / marker.Nano
		}
	}
	tb.Errorf("class %d has no bucket", class)
	return 0
}

// wireCost says of a frame on the wire which class it is of, and by SPEC 4.1 the bytes it counts and its cost.
func wireCost(tb testing.TB, frame []byte) (class int, bytes, cost uint64) {
	tb.Helper()
	ip := uint64(binary.BigEndian.Uint16(frame[16:]))
	transport := frame[34:]
	if frame[14]>>4 == 6 {
		ip = 40 + uint64(binary.BigEndian.Uint16(frame[18:]))
		transport = frame[54:]
	}
	l2 := max(uint64(len(frame)), 60)
	class = int(binary.BigEndian.Uint16(transport[2:])) - gsoPort
	switch class {
	case 0:
		return class, ip, ip
	case 1:
		return class, l2, l2
	case 2:
		return class, l2 + 24, l2 + 24
	case 3:
		return class, ip, 1
	case 4:
		return class, ip + 38, ip + 38
	case 5:
		return class, max(l2, 61) - 61, max(l2, 61) - 61
	}
	tb.Fatalf("a frame that nobody sent: % x", frame)
	return 0, 0, 0
}

// allowBig lets super-packets of TCP grow beyond 64 KiB, or skips the test.
func allowBig(tb testing.TB, h *netlab.Host) {
	tb.Helper()
	if testutils.KernelBefore(tb, 6, 3) {
		tb.Skip("needs Linux 6.3 for super-packets of IPv4 beyond 64 KiB")
	}
	if err := h.Do(func() error {
		dev, err := netlink.LinkByName(h.Device)
		if err != nil {
			return err
		}
		return errors.Join(netlink.LinkSetGSOMaxSize(dev, 180_000), netlink.LinkSetGSOIPv4MaxSize(dev, 180_000))
	}); err != nil {
		tb.Fatal(err)
	}
}

// tcpSender returns a sender of so many bytes, in one connection.
func tcpSender(tb testing.TB, lab *netlab.Lab, ipv6 bool, bytes int64) func(port uint16) {
	tb.Helper()
	return func(port uint16) {
		sink, err := lab.Right.ServeTCP(ipv6, port)
		if err != nil {
			tb.Fatal(err)
		}
		defer sink.Stop()
		if _, err := lab.Left.SendTCP(bounded(tb), netlab.TCPFlow{To: sink.Addr(), Bytes: bytes}); err != nil {
			tb.Fatal(err)
		}
		if err := sink.Settle(bounded(tb)); err != nil {
			tb.Fatal(err)
		}
	}
}

// superFrames are super-packets of TCP, with options and without, and of UDP where the kernel lets packet
// sockets send these; and single packets.
func superFrames(tb testing.TB, lab *netlab.Lab, ipv6 bool, port uint16) (frames []netlab.Frame) {
	tb.Helper()
	for _, c := range []struct {
		udp          bool
		payload, gso int
		options      bool
	}{
		{payload: 40 * 1400, gso: 1400},
		{payload: 40*1400 + 1, gso: 1400, options: true},
		{payload: 2*1000 - 1, gso: 1000},
		{payload: 30*3 + 2, gso: 3}, // padded to Ethernet's 60 bytes, if it were on a wire
		{payload: 1000, gso: 1000},  // a super-packet of one
		{payload: 1200},
		{udp: true, payload: 30*1300 + 7, gso: 1300},
		{udp: true, payload: 50 * 5, gso: 5},
		{udp: true, payload: 700},
	} {
		if c.udp && c.gso > 0 && testutils.KernelBefore(tb, 6, 2) {
			continue // no word for them in a virtio_net_hdr
		}
		frames = append(frames, netlab.Frame{Data: transportFrame(tb, lab.Left, ipv6, c.udp, port, c.payload, c.options), GSOSize: c.gso})
	}
	return frames
}

// transportFrame is an Ethernet frame of TCP or UDP from a host to its peer.
func transportFrame(tb testing.TB, from *netlab.Host, ipv6, udp bool, port uint16, payload int, options bool) []byte {
	tb.Helper()
	ether := &layers.Ethernet{SrcMAC: from.MAC, DstMAC: from.Peer().MAC, EthernetType: layers.EthernetTypeIPv4}
	proto := layers.IPProtocolTCP
	if udp {
		proto = layers.IPProtocolUDP
	}
	var ip interface {
		gopacket.SerializableLayer
		gopacket.NetworkLayer
	} = &layers.IPv4{Version: 4, TTL: 64, Protocol: proto, SrcIP: from.Addr(false).AsSlice(), DstIP: from.Peer().Addr(false).AsSlice()}
	if ipv6 {
		ether.EthernetType = layers.EthernetTypeIPv6
		ip = &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: proto, SrcIP: from.Addr(true).AsSlice(), DstIP: from.Peer().Addr(true).AsSlice()}
	}
	var transport gopacket.SerializableLayer
	var err error
	if udp {
		u := &layers.UDP{SrcPort: 5000, DstPort: layers.UDPPort(port)}
		err = u.SetNetworkLayerForChecksum(ip)
		transport = u
	} else {
		c := &layers.TCP{SrcPort: 5000, DstPort: layers.TCPPort(port), ACK: true, Window: 1000}
		if options { // time stamps: 12 bytes with their padding
			c.Options = []layers.TCPOption{{OptionType: 1, OptionLength: 1}, {OptionType: 1, OptionLength: 1},
				{OptionType: layers.TCPOptionKindTimestamps, OptionLength: 10, OptionData: make([]byte, 8)}}
		}
		err = c.SetNetworkLayerForChecksum(ip)
		transport = c
	}
	if err != nil {
		tb.Fatal(err)
	}
	out := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(out, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true},
		ether, ip, transport, gopacket.Payload(make([]byte, payload))); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}
