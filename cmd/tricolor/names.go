package main

import (
	"fmt"
	"net/netip"

	"github.com/tricolor-policer/tricolor/marker"
)

// bucketNames tells whose bucket is whose: the number in a key is its meter's, through changes of policy.
type bucketNames struct {
	meters map[uint16]meterName // by marker.Meter.Family
	single bool                 // one class of one meter: a key says it all
}

// meterName is a meter of a policy.
type meterName struct {
	class    string // empty: the interface's
	position int    // in the chain, from 1; 0: the interface's
	profile  string
	meter    *marker.Meter
	packets  bool // it counts packets
	gone     bool // the policy in force has it no more
}

// newBucketNames takes the policy in force, then those before it.
func newBucketNames(plans ...*marker.Plan) *bucketNames {
	n := &bucketNames{
		meters: map[uint16]meterName{},
		single: len(plans) == 1 && len(plans[0].Classes) == 1 && len(plans[0].Classes[0].Meters) == 1,
	}
	for i, plan := range plans {
		for class := range plan.Classes {
			c := &plan.Classes[class]
			for position := range c.Meters {
				m := &c.Meters[position]
				if _, ok := n.meters[m.Family]; ok {
					continue
				}
				name := meterName{class: c.Name, position: position + 1, meter: m, packets: c.Count == marker.CountPackets, gone: i > 0}
				if int(m.Profile) < len(plan.Profiles) {
					name.profile = plan.Profiles[m.Profile].Name
				}
				if m.Per == marker.PerInterface {
					name.class, name.position = "", 0
				}
				n.meters[m.Family] = name
			}
		}
	}
	return n
}

// unknownClass stands for the class of a bucket that no known policy has.
const unknownClass = "?"

// of is the meter of a bucket. One that no policy has is gone.
func (n *bucketNames) of(key marker.KeyFields) meterName {
	if m, ok := n.meters[key.Class]; ok {
		return m
	}
	return meterName{class: unknownClass, position: key.Position() + 1, gone: true}
}

// bare reports whether a key of the meter needs no more words: the policy has no other meter.
func (n *bucketNames) bare(m *meterName) bool { return n.single && !m.gone }

// key is a bucket's key as a person reads it: `src 10.1.2.0/24`; in a policy of one meter, which says it
// itself, without the first word.
func (n *bucketNames) key(key marker.KeyFields, overflow bool) string {
	if overflow {
		return "(overflow: those without a slot)"
	}
	m := n.of(key)
	text := key.String()
	per := key.Per()
	switch per {
	case marker.PerSrc, marker.PerDst:
		text += prefixLength(m.meter, key)
		if !n.bare(&m) {
			text = per.String() + " " + text
		}
	case marker.PerInterface:
		if m.profile != "" && !n.bare(&m) {
			text += " " + m.profile
		}
	}
	return text
}

// name is a bucket's class, meter and key: `customers/2 src 10.1.2.0/24`.
func (n *bucketNames) name(key marker.KeyFields, overflow bool) string {
	m := n.of(key)
	text := n.key(key, overflow)
	if !n.bare(&m) && m.class != "" {
		text = fmt.Sprintf("%s/%d %s", m.class, m.position, text)
	}
	if m.gone {
		text += " (gone)"
	}
	return printable(text)
}

// prefixLength is the length of a key's address, where that is not the whole address: "/24".
func prefixLength(m *marker.Meter, key marker.KeyFields) string {
	if m == nil {
		return ""
	}
	version, whole := 0, netip.IPv4Unspecified().BitLen()
	if key.IPv6() {
		version, whole = 1, netip.IPv6Unspecified().BitLen()
	}
	if bits := int(m.Prefix[version]); bits < whole {
		return fmt.Sprintf("/%d", bits)
	}
	return ""
}
