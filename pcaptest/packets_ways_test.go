package pcaptest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tricolor-policer/tricolor/marker"
)

// A packetWay is a class of packetPolicy, which takes the packets with its mark.
type packetWay struct {
	class    string
	count    marker.Count
	overhead int64
	none     bool // it takes what is not IP
}

var packetWays = []packetWay{
	{class: "l3", count: marker.CountL3},
	{class: "l2", count: marker.CountL2},
	{class: "l1", count: marker.CountL1},
	{class: "packets", count: marker.CountPackets},
	{class: "l3-plus", count: marker.CountL3, overhead: 38},
	{class: "l2-plus", count: marker.CountL2, overhead: 38},
	{class: "l1-plus", count: marker.CountL1, overhead: 38},
	{class: "packets-plus", count: marker.CountPackets, overhead: 2},
	{class: "l3-minus", count: marker.CountL3, overhead: -20},
	{class: "l2-minus", count: marker.CountL2, overhead: -20},
	{class: "l1-minus", count: marker.CountL1, overhead: -20},
	{class: "l2-none", count: marker.CountL2, none: true},
	{class: "l1-none", count: marker.CountL1, none: true},
	{class: "packets-none", count: marker.CountPackets, none: true},
}

// Marks of two more classes, one of which takes fragments and the other everything else, and of none.
const (
	fragmentMark = 100
	noClassMark  = 101
)

// cost is what a packet costs, in the class's unit, and the bytes that are counted.
func (w *packetWay) cost(r *reading) (cost, bytes uint64) {
	cost = map[marker.Count]uint64{marker.CountL3: r.l3, marker.CountL2: r.l2, marker.CountL1: r.l1, marker.CountPackets: r.packets}[w.count]
	cost += uint64(w.overhead) * r.packets
	if w.count == marker.CountPackets {
		return cost, r.l3
	}
	return cost, cost
}

// packetPlan has a class for each way. A first meter shows the flow that a packet is taken for, a second
// its VLAN.
func packetPlan(t *testing.T) *marker.Plan {
	t.Helper()
	var b strings.Builder
	b.WriteString(`
version: 1
flows: 64k
profiles:
  bytes:   { meter: token, cir: 1B/s, cbs: 1GiB }
  packets: { meter: token, cir: 1pps, cbs: 1000000pkt }
classes:
`)
	for i, w := range packetWays {
		profile, ip, per := "bytes", "", "flow"
		if w.count == marker.CountPackets {
			profile = "packets"
		}
		green := "dscp: af11"
		if w.none {
			ip, per, green = ", ip: none", "class", "pass"
		}
		fmt.Fprintf(&b, "  - { name: %s, match: { mark: %d%s }, count: %v, overhead: %+d, meters: [ { profile: %s, per: %s }, { profile: %s, per: vlan } ], green: { %s } }\n",
			w.class, i+1, ip, w.count, w.overhead, profile, per, profile, strings.Replace(green, "pass", "pass: true", 1))
	}
	for _, yes := range []bool{true, false} {
		fmt.Fprintf(&b, "  - { name: fragment-%t, match: { mark: %d, fragment: %[1]t }, meters: [ { profile: bytes, per: class } ] }\n", yes, fragmentMark)
	}
	p, err := (&policyFiles{text: b.String()}).parse()
	if err != nil {
		t.Fatalf("%v\n%s", err, b.String())
	}
	plan, err := p.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return plan
}
