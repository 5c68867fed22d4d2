package loader

import (
	"fmt"
	"testing"

	"github.com/tricolor-policer/tricolor/internal/netlab"
	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/marker"
)

// malformedPolicy has a class for what is not IP: a header that cannot be read would land there, or in no class.
const malformedPolicy = `
version: 1
malformed: %s
profiles:
  all: { meter: rfc4115, cir: 0B/s, cbs: 1GiB, eir: 1B/s, ebs: 1B }
classes:
  - { name: ip,    match: { ip: [4, 6] }, meters: [ { profile: all, per: flow } ] }
  - { name: other, match: { ip: none }, count: l2, meters: [ { profile: all, per: class } ] }
`

// malformedPackets are IP packets, from the IP header on, none of which can be read to the end of its headers.
func malformedPackets(tb testing.TB, h *netlab.Host) (packets [][]byte) {
	tb.Helper()
	change := func(p []byte, at int, to ...byte) []byte {
		p = append([]byte(nil), p...)
		copy(p[at:], to)
		return p
	}
	v4 := transportFrame(tb, h, false, true, 7001, 40, false)[14:]
	v6 := transportFrame(tb, h, true, true, 7001, 40, false)[14:]
	for n := 1; n < 20; n++ { // the IP header cut short
		packets = append(packets, v4[:n])
	}
	for n := 1; n < 40; n++ {
		packets = append(packets, v6[:n])
	}
	packets = append(packets,
		v4[:len(v4)-1],                        // total length beyond the frame
		change(v4, 0, 0x44),                   // IHL below 5
		change(v4, 0, 0x4f)[:40],              // IHL beyond the frame
		change(v4, 2, 0, 19),                  // total length below the header
		change(change(v4, 0, 0x4f), 2, 0, 59), // and so with options
		change(v4, 2, 0xff, 0xff),             // total length far beyond the frame
		v6[:len(v6)-1],                        // payload length beyond the frame
		change(v6, 4, 0xff, 0xff),             //
		change(v6, 4, 0, 4, 0)[:44],           // hop-by-hop options cut short
		change(change(v6, 6, 43), 40, 17, 20), // a routing header beyond the packet
		change(v6, 4, 0, 7, 44)[:47],          // a fragment header cut short
		change(change(v6, 6, 51), 40, 17, 60), // AH beyond the packet
		change(change(v6, 6, 60), 40, 0, 0, 1, 4, 0, 0, 0, 0, 17, 200), // the second of two beyond the packet
	)
	return packets
}

// A header that is cut short, or beyond the packet, makes the packet malformed: counted, and dropped or let
// through as the policy says. Never is it "not IP", and never does it spend.
func TestMalformedLive(t *testing.T) {
	testutils.RequireRoot(t)
	for _, w := range ways {
		if w.name == "bridge" && w.direction == Ingress {
			continue // where netfilter looks into bridges, it drops such packets before that hook
		}
		for _, verb := range []string{"drop", "pass"} {
			t.Run(fmt.Sprintf("%s %v %s", w.name, w.direction, verb), func(t *testing.T) {
				lab := newLab(t, netlab.Options{})
				way := w.open(t, lab)
				policed := police(t, way.host, way.device, w.direction, policyPlan(t, fmt.Sprintf(malformedPolicy, verb)))
				sent := uint64(0)
				for i, packet := range malformedPackets(t, lab.Left) {
					if err := way.send(packet); err != nil {
						t.Fatalf("packet %d (%d bytes): %v", i, len(packet), err)
					}
					sent++
					if got := policed.next(t); got.Kind != marker.Malformed {
						t.Errorf("packet %d (% x): %v; want malformed", i, packet, got)
					}
				}
				if s := policed.stats(t); s.Port != (marker.PortStats{Malformed: sent}) || total(&s) != sent {
					t.Errorf("counted %+v; want %d malformed", s, sent)
				}
				if n := len(policed.buckets(t)); n != 0 {
					t.Errorf("%d buckets were opened", n)
				}
			})
		}
	}
}

// What was malformed is really gone, or really let through: by a program behind.
func TestMalformedVerb(t *testing.T) {
	for verb, want := range map[string]bool{"drop": false, "pass": true} {
		t.Run(verb, func(t *testing.T) {
			lab := newLab(t, netlab.Options{})
			policed := police(t, lab.Left, "left0", Egress, policyPlan(t, fmt.Sprintf(malformedPolicy, verb)))
			after := newForeign(t)
			after.attachTCX(t, lab.Left, Egress, false)
			send := ethernet(t, lab.Left, "left0", lab.Right.MAC)
			packets := malformedPackets(t, lab.Left)
			for _, packet := range packets {
				if err := send(packet); err != nil {
					t.Fatal(err)
				}
			}
			policed.wait(t, uint64(len(packets)))
			if got := after.count(t); (got != 0) != want || want && got != uint64(len(packets)) {
				t.Errorf("%d of %d packets went on", got, len(packets))
			}
		})
	}
}

// A frame in pieces that ends within a header: outside the linear area, and of the frame.
func TestMalformedInPages(t *testing.T) {
	testutils.RequireRoot(t)
	lab := newLab(t, netlab.Options{})
	tap, err := lab.Left.OpenTap(netlab.TapOptions{Name: "tap0", Pieces: true})
	if err != nil {
		t.Skipf("no tap devices in pieces here: %v", err)
	}
	defer tap.Close()
	policed := police(t, lab.Left, "tap0", Ingress, policyPlan(t, fmt.Sprintf(malformedPolicy, "drop")))
	sent := uint64(0)
	for _, packet := range malformedPackets(t, lab.Left) {
		frame := inEthernet(lab.Left.MAC, packet)
		for linear := 14; linear < len(frame); linear += 3 {
			if err := tap.Send(netlab.Frame{Data: frame}, linear); err != nil {
				t.Fatalf("%d bytes, %d linear: %v", len(frame), linear, err)
			}
			sent++
			if got := policed.next(t); got.Kind != marker.Malformed {
				t.Errorf("% x, %d bytes linear: %v; want malformed", packet, linear, got)
			}
		}
	}
	if s := policed.stats(t); s.Port != (marker.PortStats{Malformed: sent}) || total(&s) != sent {
		t.Errorf("counted %+v; want %d malformed", s, sent)
	}
}
