package loader

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/tricolor-policer/tricolor/internal/netlab"
	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/marker"
)

// devicePolicy has every meter, and earns next to nothing: what it answers does not depend on when packets come.
const devicePolicy = `
version: 1
profiles:
  gold:   { meter: trtcm, cir: 1B/s, cbs: 2700B, pir: 1B/s, pbs: 5300B, color: aware }
  silver: { meter: srtcm, cir: 1B/s, cbs: 2700B, ebs: 2600B }
  bronze: { meter: rfc4115, cir: 1B/s, cbs: 3300B, eir: 1B/s, ebs: 2300B, color: aware }
  link:   { meter: token, cir: 1B/s, cbs: 21300B }
classes:
  - { name: voice, match: { dscp: [ef, af11, af12, af13] }, meters: [ { profile: gold, per: flow } ] }
  - { name: web, match: { dport: [443] }, meters: [ { profile: silver, per: src }, { profile: link, per: interface } ] }
  - { name: rest, match: { dport: [7000-7999] }, meters: [ { profile: bronze, per: "dst/24,56" } ] }
`

// devicePackets are IP packets of all sorts, from the IP header on, with Ethernet's padding where it has some.
func devicePackets(tb testing.TB, from *netlab.Host) (packets [][]byte) {
	tb.Helper()
	tos := []uint8{0, 0, 46 << 2, af11 << 2, af12<<2 | ect0, 14 << 2, 8<<2 | 3}
	payload := []int{0, 1, 17, 400, 999, 1400}
	ports := []uint16{443, 443, 7000, 7001, 53}
	r := rand.New(rand.NewPCG(4, 8)) // always the same: they are chosen to have every fate
	for i := range 150 {
		if i == 50 {
			payload = payload[3:] // the last that conform are not to be short of a few bytes
		}
		frame, err := from.UDPFrame(netlab.UDPFlow{
			To:      netip.AddrPortFrom(from.Peer().Addr(r.IntN(2) == 1), ports[r.IntN(len(ports))]),
			From:    uint16(5000 + r.IntN(2)),
			Payload: payload[r.IntN(len(payload))],
			TOS:     tos[r.IntN(len(tos))],
		})
		if err != nil {
			tb.Fatal(err)
		}
		packets = append(packets, frame.Data[14:])
	}
	return packets
}

// typeOf is the EtherType of an IP packet.
func typeOf(packet []byte) uint16 {
	if packet[0]>>4 == 6 {
		return unix.ETH_P_IPV6
	}
	return unix.ETH_P_IP
}

// mirrorFates asks the mirror, with so much time between two packets.
func mirrorFates(tb testing.TB, plan *marker.Plan, packets [][]byte, interval time.Duration) ([]fate, *marker.Mirror) {
	tb.Helper()
	mirror, err := marker.NewMirror(plan, marker.SeedsFrom(1))
	if err != nil {
		tb.Fatal(err)
	}
	var fates []fate
	for i, packet := range packets {
		link := marker.LinkIPv4
		if typeOf(packet) == unix.ETH_P_IPV6 {
			link = marker.LinkIPv6
		}
		before := *mirror.Stats()
		frame := marker.Frame{Data: append([]byte(nil), packet...), Length: uint32(len(packet)), Link: link}
		mirror.Packet(&frame, uint64(time.Hour+time.Duration(i)*interval))
		fates = append(fates, fateOf(&before, mirror.Stats()))
	}
	return fates, mirror
}

// A way for IP packets to meet a policer.
type way struct {
	host   *netlab.Host
	device string
	send   func(packet []byte) error
}

var ways = []struct {
	name      string
	direction Direction
	open      func(tb testing.TB, lab *netlab.Lab) way
}{
	{"Ethernet", Ingress, func(tb testing.TB, lab *netlab.Lab) way {
		return way{lab.Right, "right0", ethernet(tb, lab.Left, "left0", lab.Right.MAC)}
	}},
	{"Ethernet", Egress, func(tb testing.TB, lab *netlab.Lab) way {
		return way{lab.Left, "left0", ethernet(tb, lab.Left, "left0", lab.Right.MAC)}
	}},
	{"loopback", Ingress, func(tb testing.TB, lab *netlab.Lab) way {
		return way{lab.Left, "lo", ethernet(tb, lab.Left, "lo", make([]byte, 6))}
	}},
	{"loopback", Egress, func(tb testing.TB, lab *netlab.Lab) way {
		return way{lab.Left, "lo", ethernet(tb, lab.Left, "lo", make([]byte, 6))}
	}},
	{"tun", Ingress, func(tb testing.TB, lab *netlab.Lab) way {
		tun := openTap(tb, lab.Left, netlab.TapOptions{Name: "tun0", L3: true})
		return way{lab.Left, "tun0", func(packet []byte) error { return tun.Send(netlab.Frame{Data: packet}) }}
	}},
	{"tun", Egress, func(tb testing.TB, lab *netlab.Lab) way {
		openTap(tb, lab.Left, netlab.TapOptions{Name: "tun0", L3: true})
		return way{lab.Left, "tun0", bare(tb, lab.Left, "tun0")}
	}},
	{"tap", Ingress, func(tb testing.TB, lab *netlab.Lab) way {
		tap := openTap(tb, lab.Left, netlab.TapOptions{Name: "tap0"})
		return way{lab.Left, "tap0", func(packet []byte) error {
			return tap.Send(netlab.Frame{Data: inEthernet(lab.Left.MAC, packet)})
		}}
	}},
	{"bridge port", Ingress, func(tb testing.TB, lab *netlab.Lab) way {
		addBridge(tb, lab.Right, lab.Right.Device)
		return way{lab.Right, "right0", ethernet(tb, lab.Left, "left0", lab.Right.MAC)}
	}},
	{"bridge port", Egress, func(tb testing.TB, lab *netlab.Lab) way {
		addBridge(tb, lab.Left, lab.Left.Device)
		return way{lab.Left, "left0", ethernet(tb, lab.Left, "br0", lab.Right.MAC)}
	}},
	{"bridge", Ingress, func(tb testing.TB, lab *netlab.Lab) way {
		addBridge(tb, lab.Right, lab.Right.Device) // it has its port's address
		return way{lab.Right, "br0", ethernet(tb, lab.Left, "left0", lab.Right.MAC)}
	}},
	{"bridge", Egress, func(tb testing.TB, lab *netlab.Lab) way {
		addBridge(tb, lab.Left, lab.Left.Device)
		return way{lab.Left, "br0", ethernet(tb, lab.Left, "br0", lab.Right.MAC)}
	}},
	{"macvlan", Ingress, func(tb testing.TB, lab *netlab.Lab) way {
		mac := []byte{2, 0, 0, 0, 0, 7}
		addDevice(tb, lab.Right, &netlink.Macvlan{Mode: netlink.MACVLAN_MODE_BRIDGE,
			LinkAttrs: netlink.LinkAttrs{Name: "macvlan0", ParentIndex: lab.Right.Ifindex, HardwareAddr: mac}})
		return way{lab.Right, "macvlan0", ethernet(tb, lab.Left, "left0", mac)}
	}},
	{"macvlan", Egress, func(tb testing.TB, lab *netlab.Lab) way {
		addDevice(tb, lab.Left, &netlink.Macvlan{Mode: netlink.MACVLAN_MODE_BRIDGE,
			LinkAttrs: netlink.LinkAttrs{Name: "macvlan0", ParentIndex: lab.Left.Ifindex}})
		return way{lab.Left, "macvlan0", ethernet(tb, lab.Left, "macvlan0", lab.Right.MAC)}
	}},
	{"VLAN device", Ingress, func(tb testing.TB, lab *netlab.Lab) way {
		for _, h := range []*netlab.Host{lab.Left, lab.Right} {
			addDevice(tb, h, &netlink.Vlan{VlanId: 100, LinkAttrs: netlink.LinkAttrs{Name: "vlan0", ParentIndex: h.Ifindex}})
		}
		return way{lab.Right, "vlan0", ethernet(tb, lab.Left, "vlan0", lab.Right.MAC)}
	}},
	{"VLAN device", Egress, func(tb testing.TB, lab *netlab.Lab) way {
		addDevice(tb, lab.Left, &netlink.Vlan{VlanId: 100, LinkAttrs: netlink.LinkAttrs{Name: "vlan0", ParentIndex: lab.Left.Ifindex}})
		return way{lab.Left, "vlan0", ethernet(tb, lab.Left, "vlan0", lab.Right.MAC)}
	}},
	{"below a VLAN device", Egress, func(tb testing.TB, lab *netlab.Lab) way {
		addDevice(tb, lab.Left, &netlink.Vlan{VlanId: 100, LinkAttrs: netlink.LinkAttrs{Name: "vlan0", ParentIndex: lab.Left.Ifindex}})
		return way{lab.Left, "left0", ethernet(tb, lab.Left, "vlan0", lab.Right.MAC)}
	}},
	{"dummy", Egress, func(tb testing.TB, lab *netlab.Lab) way {
		addDevice(tb, lab.Left, &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: "dummy0"}})
		return way{lab.Left, "dummy0", ethernet(tb, lab.Left, "dummy0", lab.Right.MAC)}
	}},
}

// SPEC 4: the same IP packets have the same fate on every device, each packet its own: class, colour and
// cost. And so they have in the mirror.
func TestDevicesAgree(t *testing.T) {
	testutils.RequireRoot(t)
	for _, w := range ways {
		t.Run(fmt.Sprintf("%s %v", w.name, w.direction), func(t *testing.T) {
			lab := newLab(t, netlab.Options{})
			plan := policyPlan(t, devicePolicy)
			packets := devicePackets(t, lab.Left)
			want, mirror := mirrorFates(t, plan, packets, 0)
			if slow, _ := mirrorFates(t, plan, packets, time.Second/2); !cmp.Equal(want, slow) {
				t.Fatalf("the packets' fate depends on time: %s", cmp.Diff(want, slow))
			}
			for _, class := range mirror.Stats().Classes {
				if slices.Contains(class.Packets[:], 0) {
					t.Fatalf("a colour is not tested: %+v", mirror.Stats().Classes)
				}
			}
			way := w.open(t, lab)
			policed := police(t, way.host, way.device, w.direction, plan)
			for i, packet := range packets {
				if err := way.send(packet); err != nil {
					t.Fatalf("packet %d: %v", i, err)
				}
				if got := policed.next(t); got != want[i] {
					t.Errorf("packet %d (% x): %v; want %v", i, packet[:28], got, want[i])
				}
			}
			if diff := cmp.Diff(*mirror.Stats(), policed.stats(t)); diff != "" {
				t.Errorf("counters (-mirror +kernel):\n%s", diff)
			}
			policed.wantKeys(t, mirror)
		})
	}
}

// inEthernet puts an Ethernet header before an IP packet.
func inEthernet(to, packet []byte) []byte {
	frame := append(append([]byte(nil), to...), 2, 0, 0, 0, 0, 0x11)
	return append(binary.BigEndian.AppendUint16(frame, typeOf(packet)), packet...)
}

// ethernet returns a sender of IP packets as Ethernet frames out of a device.
func ethernet(tb testing.TB, h *netlab.Host, device string, to []byte) func(packet []byte) error {
	tb.Helper()
	raw := openRaw(tb, h, device)
	return func(packet []byte) error { return raw.Send(typeOf(packet), inEthernet(to, packet)) }
}

// bare returns a sender of IP packets as they are.
func bare(tb testing.TB, h *netlab.Host, device string) func(packet []byte) error {
	tb.Helper()
	raw := openRaw(tb, h, device)
	return func(packet []byte) error { return raw.Send(typeOf(packet), packet) }
}

func openRaw(tb testing.TB, h *netlab.Host, device string) *netlab.Raw {
	tb.Helper()
	raw, err := h.Raw(device)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { raw.Close() })
	return raw
}

// openTap makes a tap or tun device, or skips the test where the kernel has none.
func openTap(tb testing.TB, h *netlab.Host, o netlab.TapOptions) *netlab.Tap {
	tb.Helper()
	tap, err := h.OpenTap(o)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) {
		tb.Skipf("this kernel has no tun and tap devices: %v", err)
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { tap.Close() })
	return tap
}

// addDevice makes a device, up and ready, or skips the test where the kernel has none of its kind.
func addDevice(tb testing.TB, h *netlab.Host, device netlink.Link) {
	tb.Helper()
	if err := h.Do(func() error { return netlink.LinkAdd(device) }); err != nil {
		if errors.Is(err, unix.EOPNOTSUPP) {
			tb.Skipf("this kernel has no %s devices: %v", device.Type(), err)
		}
		tb.Fatalf("make a %s device: %v", device.Type(), err)
	}
	bringUp(tb, h, device)
}

// addBridge makes a bridge of the given ports.
func addBridge(tb testing.TB, h *netlab.Host, ports ...string) {
	tb.Helper()
	quiet := false
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}, MulticastSnooping: &quiet}
	if err := h.Do(func() error {
		if err := netlink.LinkAdd(bridge); err != nil {
			return err
		}
		for _, name := range ports {
			port, err := netlink.LinkByName(name)
			if err != nil {
				return err
			}
			if err := netlink.LinkSetMaster(port, bridge); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		if errors.Is(err, unix.EOPNOTSUPP) {
			tb.Skipf("this kernel has no bridges: %v", err)
		}
		tb.Fatalf("make a bridge: %v", err)
	}
	bringUp(tb, h, bridge)
}

// bringUp returns once the device carries traffic.
func bringUp(tb testing.TB, h *netlab.Host, device netlink.Link) {
	tb.Helper()
	name := device.Attrs().Name
	if err := h.Do(func() error {
		if err := errors.Join(netlink.LinkSetARPOff(device), netlink.LinkSetUp(device)); err != nil {
			return err
		}
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			now, err := netlink.LinkByName(name)
			if err != nil {
				return err
			}
			if now.Attrs().RawFlags&unix.IFF_RUNNING != 0 {
				return nil
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("its link is %v", now.Attrs().OperState)
			}
		}
	}); err != nil {
		tb.Fatalf("bring up %s: %v", name, err)
	}
}
