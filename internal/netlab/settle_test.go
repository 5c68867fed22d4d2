package netlab

import (
	"context"
	"errors"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
)

// While a connection may still send, Settle waits.
func TestSettle(t *testing.T) {
	lab := newLab(t, Options{})
	for _, ipv6 := range []bool{false, true} {
		sink, err := lab.Right.ServeTCP(ipv6, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer sink.Stop()
		open, err := lab.Left.dialTCP(bounded(t), TCPFlow{To: sink.Addr()})
		if err != nil {
			t.Fatal(err)
		}
		defer open.Close()
		done, cancel := context.WithCancel(bounded(t))
		cancel()
		if err := sink.Settle(done); !errors.Is(err, context.Canceled) {
			t.Errorf("ipv6 %t: with an open connection: %v", ipv6, err)
		}
		if err := open.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := lab.Left.SendTCP(bounded(t), TCPFlow{To: sink.Addr(), Bytes: 1 << 16}); err != nil {
			t.Fatal(err)
		}
		if err := sink.Settle(bounded(t)); err != nil {
			t.Fatal(err)
		}
		if n, err := sink.open(); n != 0 || err != nil {
			t.Errorf("ipv6 %t: settled, %d connections are left: %v", ipv6, n, err)
		}
	}
}

// A wrong checksum is counted whatever the protocol and the family.
func TestChecksumErrors(t *testing.T) {
	lab := newLab(t, Options{})
	before, err := lab.Right.ChecksumErrors()
	if err != nil {
		t.Fatal(err)
	}
	if before != 0 {
		t.Errorf("before any packet: %d", before)
	}
	for _, ipv6 := range []bool{false, true} {
		tcp, err := lab.Right.ServeTCP(ipv6, 9)
		if err != nil {
			t.Fatal(err)
		}
		defer tcp.Stop()
		udp, err := lab.Right.ReceiveUDP(ipv6, 9)
		if err != nil {
			t.Fatal(err)
		}
		defer udp.Stop()
		datagram, err := lab.Left.UDPFrame(UDPFlow{To: udp.Addr(), Payload: 20})
		if err != nil {
			t.Fatal(err)
		}
		datagram.Data[len(datagram.Data)-1] ^= 1 // the payload's: it takes no padding
		segment := tcpFrame(t, lab.Left, ipv6, 9)
		good := Frame{Data: append([]byte(nil), segment.Data...)}
		segment.Data[len(segment.Data)-1] ^= 1
		w := watch(t, lab.Right, WatchOptions{})
		if err := lab.Left.SendFrames(bounded(t), datagram, segment, good); err != nil {
			t.Fatal(err)
		}
		stop(t, w, 3)
	}
	if n, err := lab.Right.ChecksumErrors(); n != 4 || err != nil {
		t.Errorf("%d, want 4: %v", n, err)
	}
}

// tcpFrame returns a segment of 10 bytes to a port of the peer, of no connection.
func tcpFrame(t *testing.T, h *Host, ipv6 bool, port uint16) Frame {
	t.Helper()
	tcp := &layers.TCP{SrcPort: 5, DstPort: layers.TCPPort(port), ACK: true, Window: 100}
	ether := &layers.Ethernet{SrcMAC: h.MAC, DstMAC: h.peer.MAC, EthernetType: layers.EthernetTypeIPv4}
	var ip gopacket.SerializableLayer
	var network gopacket.NetworkLayer
	if ipv6 {
		ether.EthernetType = layers.EthernetTypeIPv6
		v6 := &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: layers.IPProtocolTCP,
			SrcIP: h.Addr(true).AsSlice(), DstIP: h.peer.Addr(true).AsSlice()}
		ip, network = v6, v6
	} else {
		v4 := &layers.IPv4{Version: 4, TTL: 64, Protocol: layers.IPProtocolTCP,
			SrcIP: h.Addr(false).AsSlice(), DstIP: h.peer.Addr(false).AsSlice()}
		ip, network = v4, v4
	}
	if err := tcp.SetNetworkLayerForChecksum(network); err != nil {
		t.Fatal(err)
	}
	out := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(out, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true},
		ether, ip, tcp, gopacket.Payload("0123456789")); err != nil {
		t.Fatal(err)
	}
	return Frame{Data: out.Bytes()}
}
