package loader

import (
	"fmt"
	"net/netip"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/tricolor-policer/tricolor/internal/netlab"
	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/marker"
)

const ect0 = 2 // ECN: it must pass untouched

// What the counters say is what the far side sees: on either hook, by either mechanism, over IPv4 and
// IPv6, as single packets and as super-packets.
func TestLive(t *testing.T) {
	for _, m := range []Mechanism{TCX, Clsact} {
		for _, d := range []Direction{Ingress, Egress} {
			for _, ipv6 := range []bool{false, true} {
				for _, gso := range []bool{false, true} {
					t.Run(fmt.Sprintf("%v %v ipv6=%t gso=%t", m, d, ipv6, gso), func(t *testing.T) {
						testLive(t, m, d, ipv6, gso)
					})
				}
			}
		}
	}
}

func testLive(t *testing.T, m Mechanism, d Direction, ipv6, gso bool) {
	t.Helper()
	needs(t, m)
	lab := newLab(t, netlab.Options{Offload: gso})
	sink, err := lab.Right.ReceiveUDP(ipv6, port)
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Stop()
	watch, err := lab.Right.Watch(netlab.WatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	policed := lab.Right
	if d == Egress {
		policed = lab.Left
	}
	a := attach(t, policed, AttachOptions{Direction: d, Mechanism: m})
	if a.Mechanism != m {
		t.Errorf("attached by %v", a.Mechanism)
	}

	flow := netlab.UDPFlow{To: sink.Addr(), From: port, Payload: packetLen - 28, Count: 40, TOS: ect0}
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
	got, err := sink.Stop()
	if err != nil {
		t.Fatal(err)
	}
	if got.Datagrams != 20 || got.TOS[af11<<2|ect0] != 10 || got.TOS[af12<<2|ect0] != 10 || got.BadChecksums != 0 || got.Dropped != 0 {
		t.Errorf("received %d datagrams, %d AF11, %d AF12, %d bad checksums, %d lost; want 20, 10, 10, 0, 0",
			got.Datagrams, got.TOS[af11<<2|ect0], got.TOS[af12<<2|ect0], got.BadChecksums, got.Dropped)
	}
	if diff := cmp.Diff(marker.Stats{Classes: []marker.ClassStats{counted}}, stats(t, a)); diff != "" {
		t.Errorf("counters (-want +got):\n%s", diff)
	}
	seen, err := watch.Stop()
	if err != nil {
		t.Fatal(err)
	}
	if gso && testutils.KernelBefore(t, 6, 2) {
		return // packet sockets cannot tell what a super-packet of UDP is
	}
	// Packet sockets sit before an ingress policer.
	wantDSCP := map[int]netlab.Count{0: {Packets: 40, Bytes: 40 * packetLen}}
	if d == Egress {
		wantDSCP = map[int]netlab.Count{
			af11: {Packets: 10, Bytes: 10 * packetLen},
			af12: {Packets: 10, Bytes: 10 * packetLen},
		}
	}
	for dscp, count := range seen.DSCP {
		if count != wantDSCP[dscp] {
			t.Errorf("on the wire, DSCP %d: %+v, want %+v", dscp, count, wantDSCP[dscp])
		}
	}
	if seen.BadChecksums != 0 || seen.Dropped != 0 || seen.Ignored != 0 {
		t.Errorf("on the wire: %d bad checksums, %d lost, %d that are not IP", seen.BadChecksums, seen.Dropped, seen.Ignored)
	}
}

// Tags are looked behind, be they in the data (as a sender's at egress) or beside it (as the kernel has
// the outer one at ingress).
func TestVLAN(t *testing.T) {
	for _, tags := range [][]netlab.Tag{{{VLAN: 100}}, {{VLAN: 200, Service: true}, {VLAN: 100}}} {
		for _, d := range []Direction{Ingress, Egress} {
			for _, ipv6 := range []bool{false, true} {
				t.Run(fmt.Sprintf("%d tags %v ipv6=%t", len(tags), d, ipv6), func(t *testing.T) {
					testVLAN(t, d, ipv6, tags)
				})
			}
		}
	}
}

func testVLAN(t *testing.T, d Direction, ipv6 bool, tags []netlab.Tag) {
	t.Helper()
	lab := newLab(t, netlab.Options{})
	policed := lab.Right
	if d == Egress {
		policed = lab.Left
	}
	a := attach(t, policed, AttachOptions{Direction: d})
	after := newForeign(t)
	after.attachTCX(t, policed, d, false)
	watch, err := lab.Right.Watch(netlab.WatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	flow := netlab.UDPFlow{To: netip.AddrPortFrom(lab.Right.Addr(ipv6), port), Payload: packetLen - 28}
	if ipv6 {
		flow.Payload = packetLen - 48
	}
	frame, err := lab.Left.UDPFrame(flow, tags...)
	if err != nil {
		t.Fatal(err)
	}
	frames := make([]netlab.Frame, 40)
	for i := range frames {
		frames[i] = frame
	}
	if err := lab.Left.SendFrames(bounded(t), frames...); err != nil {
		t.Fatal(err)
	}
	arrive := uint64(40)
	if d == Egress {
		arrive = 20
	}
	if err := watch.Wait(bounded(t), arrive); err != nil {
		t.Fatal(err)
	}
	seen, err := watch.Stop()
	if err != nil {
		t.Fatal(err)
	}
	if seen.Tagged != arrive || seen.Total.Packets != arrive || seen.BadChecksums != 0 {
		t.Errorf("on the wire: %d packets, %d tagged, %d bad checksums; want %d, all tagged, all right",
			seen.Total.Packets, seen.Tagged, seen.BadChecksums, arrive)
	}
	if d == Egress && (seen.DSCP[af11].Packets != 10 || seen.DSCP[af12].Packets != 10) {
		t.Errorf("on the wire: %d AF11 and %d AF12, want 10 and 10", seen.DSCP[af11].Packets, seen.DSCP[af12].Packets)
	}
	if diff := cmp.Diff(marker.Stats{Classes: []marker.ClassStats{counted}}, stats(t, a)); diff != "" {
		t.Errorf("counters (-want +got):\n%s", diff)
	}
	if n := after.count(t); n != 20 {
		t.Errorf("the program behind saw %d packets, want 20", n)
	}
}

// A tun device has no link header: its packets start at the IP header.
func TestTun(t *testing.T) {
	for _, m := range mechanisms {
		t.Run(m.String(), func(t *testing.T) {
			needs(t, m)
			lab := newLab(t, netlab.Options{})
			tun := &netlink.Tuntap{
				LinkAttrs:  netlink.LinkAttrs{Name: "tun0"},
				Mode:       netlink.TUNTAP_MODE_TUN,
				Flags:      netlink.TUNTAP_NO_PI | netlink.TUNTAP_ONE_QUEUE,
				NonPersist: true,
				Queues:     1,
			}
			var a *Attachment
			plan := testPlan(t)
			err := lab.Left.Do(func() (err error) {
				if err := netlink.LinkAdd(tun); err != nil {
					return fmt.Errorf("make a tun device: %w", err)
				}
				if err := netlink.LinkSetUp(tun); err != nil {
					return err
				}
				a, err = Attach("tun0", plan, AttachOptions{Direction: Ingress, Mechanism: m})
				return err
			})
			if err != nil {
				if _, missing := os.Stat("/dev/net/tun"); missing != nil && os.Getenv("TRICOLOR_REQUIRE_KERNEL") != "1" {
					t.Skipf("needs tun devices: %v", err)
				}
				t.Fatal(err)
			}
			defer a.Close()
			defer tun.Fds[0].Close()
			for _, ipv6 := range []bool{false, true} {
				flow := netlab.UDPFlow{To: netip.AddrPortFrom(lab.Right.Addr(ipv6), port), Payload: packetLen - 28}
				if ipv6 {
					flow.Payload = packetLen - 48
				}
				frame, err := lab.Left.UDPFrame(flow)
				if err != nil {
					t.Fatal(err)
				}
				for range 40 {
					if _, err := tun.Fds[0].Write(frame.Data[14:]); err != nil {
						t.Fatal(err)
					}
				}
			}
			want := marker.Stats{Classes: []marker.ClassStats{counted}}
			for color := range marker.Colors {
				want.Classes[0].Packets[color] *= 2
				want.Classes[0].Bytes[color] *= 2
			}
			if diff := cmp.Diff(want, stats(t, a)); diff != "" {
				t.Errorf("counters (-want +got):\n%s", diff)
			}
			if err := detach(lab.Left, a); err != nil {
				t.Error(err)
			}
		})
	}
}

// A device whose packets start with neither is refused, by its name and kind.
func TestDeviceType(t *testing.T) {
	for encap, want := range map[string]struct{ l3, refused bool }{
		"ether": {}, "loopback": {}, "none": {l3: true}, "ppp": {l3: true}, "ipip": {l3: true}, "tunnel6": {l3: true},
		"sit": {l3: true}, "gre": {l3: true}, "unknown823": {l3: true}, "unknown519": {l3: true},
		"ieee802.11/radiotap": {refused: true}, "infiniband": {refused: true}, "unknown280": {refused: true}, "": {refused: true},
	} {
		l3, err := isL3(&netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: "dev7", EncapType: encap}})
		wantError(t, "link type "+encap, err, map[bool]error{true: ErrDeviceType}[want.refused], map[bool][]string{true: {"dev7", encap}}[want.refused]...)
		if l3 != want.l3 {
			t.Errorf("link type %s: L3 is %t", encap, l3)
		}
	}

	// The table above trusts names; this asks the kernel for its own.
	testutils.RequireRoot(t)
	lab := newLab(t, netlab.Options{})
	err := lab.Left.Do(func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		if l3, err := isL3(lo); l3 || err != nil {
			t.Errorf("lo: L3 is %t, %v", l3, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
