package loader

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/tricolor-policer/tricolor/internal/netlab"
	"github.com/tricolor-policer/tricolor/marker"
)

// A VLAN device is an Ethernet of its own: its packets have no tag there.
func TestVLANDevice(t *testing.T) {
	overEach(t, func(tb testing.TB, lab *netlab.Lab) string {
		tb.Helper()
		for _, h := range []*netlab.Host{lab.Left, lab.Right} {
			addDevice(tb, h, &netlink.Vlan{VlanId: 100, LinkAttrs: netlink.LinkAttrs{Name: "vlan100", ParentIndex: h.Ifindex}})
		}
		return "vlan100"
	})
}

// overEach tests a device that carries IP over the laboratory's link, and that lay makes at both ends: on
// either hook, by either mechanism, as single packets and as super-packets, over IPv4 and IPv6.
func overEach(t *testing.T, lay func(tb testing.TB, lab *netlab.Lab) (device string)) {
	t.Helper()
	for _, m := range mechanisms {
		for _, d := range []Direction{Ingress, Egress} {
			for _, gso := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v %v gso=%t", m, d, gso), func(t *testing.T) {
					needs(t, m)
					lab := newLab(t, netlab.Options{Offload: gso})
					device := lay(t, lab)
					routeOver(t, lab.Left, device)
					at := lab.Right
					if d == Egress {
						at = lab.Left
					}
					for _, ipv6 := range []bool{false, true} {
						testOver(t, lab, at, device, AttachOptions{Direction: d, Mechanism: m}, ipv6, gso)
					}
				})
			}
		}
	}
}

func testOver(t *testing.T, lab *netlab.Lab, at *netlab.Host, device string, o AttachOptions, ipv6, gso bool) {
	t.Helper()
	a, err := tryAttach(t, at, device, o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(detach(at, a), a.Close()); err != nil {
			t.Error(err)
		}
	}()
	sink := receiveTOS(t, lab.Right, ipv6)
	flow := netlab.UDPFlow{
		To: netip.AddrPortFrom(lab.Right.Addr(ipv6), port), From: port, Payload: packetLen - 28, Count: 40, TOS: ect0,
	}
	if ipv6 {
		flow.Payload = packetLen - 48
	}
	if gso { // four sends of ten packets
		flow.GSO = flow.Payload
		flow.Payload *= 10
		flow.Count = 4
	}
	if _, err := lab.Left.SendUDP(bounded(t), flow); err != nil {
		t.Fatal(err)
	}
	want := map[byte]int{af11<<2 | ect0: 10, af12<<2 | ect0: 10}
	if diff := cmp.Diff(want, sink(20)); diff != "" {
		t.Errorf("IPv6 %t: received by TOS (-want +got):\n%s", ipv6, diff)
	}
	// Of a tunnel's packets the last may still be on their way.
	all := (&policed{Attachment: a, plan: testPlan(t)}).wait(t, 40)
	if diff := cmp.Diff(marker.Stats{Classes: []marker.ClassStats{counted}}, all); diff != "" {
		t.Errorf("IPv6 %t: counters (-want +got):\n%s", ipv6, diff)
	}
}

// routeOver has the host send to its peer's addresses through a device.
func routeOver(tb testing.TB, h *netlab.Host, device string) {
	tb.Helper()
	err := h.Do(func() error {
		link, err := netlink.LinkByName(device)
		if err != nil {
			return err
		}
		for _, ipv6 := range []bool{false, true} {
			to := h.Peer().Addr(ipv6)
			if len(link.Attrs().HardwareAddr) > 0 {
				if err := setNeighbour(link, to, h.Peer().MAC); err != nil {
					return err
				}
			}
			host := &net.IPNet{IP: to.AsSlice(), Mask: net.CIDRMask(to.BitLen(), to.BitLen())}
			if err := netlink.RouteReplace(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: host, Scope: netlink.SCOPE_LINK}); err != nil {
				return fmt.Errorf("route to %s: %w", to, err)
			}
		}
		return nil
	})
	if err != nil {
		tb.Fatalf("send over %s: %v", device, err)
	}
}

func setNeighbour(link netlink.Link, at netip.Addr, mac net.HardwareAddr) error {
	return netlink.NeighSet(&netlink.Neigh{
		LinkIndex: link.Attrs().Index, State: netlink.NUD_PERMANENT, IP: at.AsSlice(), HardwareAddr: mac,
	})
}

// receiveTOS opens a socket at the host. What it returns waits for so many datagrams, and counts them by the
// TOS or traffic class that they came with. The minute is for a machine that hangs.
func receiveTOS(tb testing.TB, h *netlab.Host, ipv6 bool) func(datagrams int) map[byte]int {
	tb.Helper()
	var socket *net.UDPConn
	err := h.Do(func() (err error) {
		socket, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(h.Addr(ipv6), port)))
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { socket.Close() })
	level, option := unix.IPPROTO_IP, unix.IP_RECVTOS
	if ipv6 {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		tb.Fatal(err)
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), level, option, 1) }); err != nil || failed != nil {
		tb.Fatal(err, failed)
	}
	return func(datagrams int) map[byte]int {
		tb.Helper()
		if err := socket.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			tb.Fatal(err)
		}
		got := make(map[byte]int)
		for n := range datagrams {
			data, oob := make([]byte, packetLen), make([]byte, 64)
			_, oobn, _, _, err := socket.ReadMsgUDPAddrPort(data, oob)
			if err != nil {
				tb.Fatalf("received %d datagrams of %d, by TOS %v: %v", n, datagrams, got, err)
			}
			_, tos, _, err := unix.ParseOneSocketControlMessage(oob[:oobn])
			if err != nil {
				tb.Fatal(err)
			}
			got[tos[0]]++ // of an int of the host's byte order, which is little-endian wherever this is tested
		}
		return got
	}
}
