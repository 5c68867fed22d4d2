package loader

import (
	"fmt"
	"maps"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tricolor-policer/tricolor/internal/netlab"
	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/marker"
)

// markPolicy marks all of IP: congestion by port, and fragments by a class of their own.
const markPolicy = `
version: 1
profiles:
  all: { meter: rfc4115, cir: 0B/s, cbs: 1GiB, eir: 1B/s, ebs: 1B }
classes:
  - { name: fragments, match: { fragment: true }, meters: [ { profile: all, per: flow } ], green: { dscp: af11 } }
  - { name: congested, match: { dport: [7002] },  meters: [ { profile: all, per: flow } ], green: { ecn-ce: true, dscp: af12 } }
  - { name: rest,      match: { dport: [7001] },  meters: [ { profile: all, per: flow } ], green: { dscp: af11 } }
`

const cs1 = 8 // DSCP that packets are sent with

// holdFrames starts to hold the frames of a device until the test's end.
func holdFrames(tb testing.TB, h *netlab.Host, device string) *netlab.Hold {
	tb.Helper()
	hold, err := h.Hold(device)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { hold.Close() })
	return hold
}

// heldTOS counts the held frames by DSCP<<2 | ECN.
func heldTOS(tb testing.TB, hold *netlab.Hold) map[uint8]uint64 {
	tb.Helper()
	frames, err := hold.Read()
	if err != nil {
		tb.Fatal(err)
	}
	tos := map[uint8]uint64{}
	for _, f := range frames {
		tos[tosOf(f[14:])]++
	}
	return tos
}

// tosOf is the DSCP<<2 | ECN of an IP packet.
func tosOf(packet []byte) uint8 {
	if packet[0]>>4 == 6 {
		return packet[0]<<4 | packet[1]>>4
	}
	return packet[1]
}

// SPEC 4.5: the DSCP is written and ECN kept, in all four values; the receiver finds every checksum right. Who
// took the packet before the hook still has the old mark, who takes it behind has the new one.
func TestMarkLive(t *testing.T) {
	testutils.RequireRoot(t)
	for _, d := range []Direction{Ingress, Egress} {
		for _, ipv6 := range []bool{false, true} {
			for _, offload := range []bool{false, true} { // the UDP checksum is left unfinished
				t.Run(fmt.Sprintf("%v ipv6=%t offload=%t", d, ipv6, offload), func(t *testing.T) { testMarkLive(t, d, ipv6, offload) })
			}
		}
	}
}

func testMarkLive(t *testing.T, d Direction, ipv6, offload bool) {
	t.Helper()
	const count = 5 // of each ECN
	lab := newLab(t, netlab.Options{Offload: offload})
	host := lab.Right
	if d == Egress {
		host = lab.Left
	}
	policed := police(t, host, host.Device, d, policyPlan(t, markPolicy))
	for port, mark := range map[uint16]func(tos uint8) uint8{
		7001: func(tos uint8) uint8 { return af11<<2 | tos&3 },
		7002: func(tos uint8) uint8 {
			if tos&3 == 0 { // not ECN-capable
				return af12 << 2
			}
			return tos | 3
		},
	} {
		left, right := holdFrames(t, lab.Left, "left0"), holdFrames(t, lab.Right, "right0")
		sink, err := lab.Right.ReceiveUDP(ipv6, port)
		if err != nil {
			t.Fatal(err)
		}
		defer sink.Stop()
		sent, marked := map[uint8]uint64{}, map[uint8]uint64{}
		for ecn := range uint8(4) {
			tos := uint8(cs1<<2) | ecn
			flow := netlab.UDPFlow{To: sink.Addr(), From: 5000, Payload: 100 + int(ecn), Count: count, TOS: tos}
			if _, err := lab.Left.SendUDP(bounded(t), flow); err != nil {
				t.Fatal(err)
			}
			sent[tos] += count
			marked[mark(tos)] += count
		}
		got, err := sink.Stop()
		if err != nil {
			t.Fatal(err)
		}
		received := map[uint8]uint64{}
		for tos, n := range got.TOS {
			if n > 0 {
				received[uint8(tos)] = n
			}
		}
		if !maps.Equal(received, marked) || got.BadChecksums != 0 || got.Dropped != 0 {
			t.Errorf("port %d: received by TOS %v, %d bad checksums, %d lost; want %v", port, received, got.BadChecksums, got.Dropped, marked)
		}
		// Packet sockets are behind an egress hook, and before an ingress one.
		wire := sent
		if d == Egress {
			wire = marked
		}
		for device, h := range map[string]*netlab.Hold{"left0": left, "right0": right} {
			if got := heldTOS(t, h); !maps.Equal(got, wire) {
				t.Errorf("port %d: a packet socket on %s holds by TOS %v, want %v", port, device, got, wire)
			}
		}
	}
	if s := policed.stats(t); s.Port != (marker.PortStats{}) || total(&s) != 2*4*count {
		t.Errorf("counted %+v, want %d packets", s, 2*4*count)
	}
}

// A bridge floods one packet to two ports: what is marked on its way out of the one is not on the other.
func TestMarkOneClone(t *testing.T) {
	testutils.RequireRoot(t)
	for _, device := range []string{"left0", "tap0"} {
		for _, ipv6 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s ipv6=%t", device, ipv6), func(t *testing.T) {
				lab := newLab(t, netlab.Options{})
				tap := openTap(t, lab.Left, netlab.TapOptions{Name: "tap0"})
				addBridge(t, lab.Left, "tap0", "left0")
				police(t, lab.Left, device, Egress, policyPlan(t, markPolicy))
				right := holdFrames(t, lab.Right, "right0")
				watch, err := lab.Right.Watch(netlab.WatchOptions{})
				if err != nil {
					t.Fatal(err)
				}
				defer watch.Stop()
				frame, err := lab.Left.UDPFrame(netlab.UDPFlow{
					To: netip.AddrPortFrom(lab.Right.Addr(ipv6), 7001), Payload: 100, TOS: cs1<<2 | ect0,
				})
				if err != nil {
					t.Fatal(err)
				}
				send := ethernet(t, lab.Left, "br0", []byte{2, 0, 0, 0, 0, 9}) // nobody's address
				const count = 10
				for range count {
					if err := send(frame.Data[14:]); err != nil {
						t.Fatal(err)
					}
				}
				if err := watch.Wait(bounded(t), count); err != nil {
					t.Error(err)
				}
				want := map[string]map[uint8]uint64{"left0": {cs1<<2 | ect0: count}, "tap0": {cs1<<2 | ect0: count}}
				want[device] = map[uint8]uint64{af11<<2 | ect0: count}
				got := map[string]map[uint8]uint64{"left0": heldTOS(t, right), "tap0": {}}
				for range count {
					packet, err := tap.Receive()
					if err != nil {
						t.Fatal(err)
					}
					got["tap0"][tosOf(packet[14:])]++
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("by TOS (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// Every fragment is marked, the first and those after it, and all of a datagram's share a bucket without ports;
// the datagram is whole at the other end.
func TestMarkFragments(t *testing.T) {
	testutils.RequireRoot(t)
	for _, d := range []Direction{Ingress, Egress} {
		for _, ipv6 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v ipv6=%t", d, ipv6), func(t *testing.T) { testMarkFragments(t, d, ipv6) })
		}
	}
}

func testMarkFragments(t *testing.T, d Direction, ipv6 bool) {
	t.Helper()
	const count, payload, fragments = 10, 4000, 3
	lab := newLab(t, netlab.Options{})
	host := lab.Right
	if d == Egress {
		host = lab.Left
	}
	policed := police(t, host, host.Device, d, policyPlan(t, markPolicy))
	watch, err := lab.Right.Watch(netlab.WatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	sink, err := lab.Right.ReceiveUDP(ipv6, 7001)
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Stop()
	flow := netlab.UDPFlow{To: sink.Addr(), From: 5000, Payload: payload, Count: count, TOS: cs1<<2 | ect0}
	if _, err := lab.Left.SendUDP(bounded(t), flow); err != nil {
		t.Fatal(err)
	}
	got, err := sink.Stop()
	if err != nil {
		t.Fatal(err)
	}
	if got.Datagrams != count || got.Bytes != count*payload || got.TOS[af11<<2|ect0] != count || got.BadChecksums != 0 {
		t.Errorf("received %d datagrams, %d bytes, %d marked, %d bad checksums; want %d, %d, all, none",
			got.Datagrams, got.Bytes, got.TOS[af11<<2|ect0], got.BadChecksums, count, count*payload)
	}
	wire, err := watch.Stop()
	if err != nil {
		t.Fatal(err)
	}
	dscp := cs1 // packet sockets are before an ingress hook
	if d == Egress {
		dscp = af11
	}
	if wire.Total.Packets != count*fragments || wire.DSCP[dscp] != wire.Total || wire.ECN[ect0] != wire.Total || wire.BadChecksums != 0 {
		t.Errorf("on the wire: %+v, want %d packets; DSCP %d: %+v; ECT(0): %+v; %d bad checksums",
			wire.Total, count*fragments, dscp, wire.DSCP[dscp], wire.ECN[ect0], wire.BadChecksums)
	}
	want := marker.Stats{Classes: make([]marker.ClassStats, 3)}
	want.Classes[0].Packets[marker.Green], want.Classes[0].Bytes[marker.Green] = wire.Total.Packets, wire.Total.Bytes
	if diff := cmp.Diff(want, policed.stats(t)); diff != "" {
		t.Errorf("counters (-want +got):\n%s", diff)
	}
	buckets := policed.buckets(t)
	if len(buckets) != 1 {
		t.Fatalf("%d buckets, want 1", len(buckets))
	}
	if f := buckets[0].Key.Fields(); f.Sport != [2]byte{} || f.Dport != [2]byte{} || f.Proto != 17 {
		t.Errorf("the fragments' key: %+v; want UDP without ports", f)
	}
}
