package demo

import (
	"fmt"
	"time"

	"github.com/tricolor-policer/tricolor/internal/netlab"
	"github.com/tricolor-policer/tricolor/maps"
	"github.com/tricolor-policer/tricolor/marker"
)

// evidence is what was measured on either side, each in its own way.
type evidence struct {
	profile marker.Profile
	flows   []flowEvidence

	// The far side.
	total        netlab.Seen // whatever arrived
	badChecksums uint64      // TCP segments and UDP datagrams that the host refused

	// The policer's counters.
	class marker.ClassStats
	port  marker.PortStats
}

// flowEvidence is what was measured of one flow.
type flowEvidence struct {
	flow flow
	// sent is the sender's count: UDP datagrams, or bytes of TCP payload; received is its receiver's.
	sent, received uint64
	took           time.Duration // at least the time from the first to the last packet at the policer
	lost           uint64        // datagrams for which the receiver had no room
	seen           netlab.Seen   // by the capture at the far side
	// The bucket's counters, by colour: packets, and bytes of IP.
	packets, bytes [marker.Colors]uint64
}

// through is what the policer counted as let through.
func (f *flowEvidence) through() (packets, bytes uint64) {
	return f.packets[marker.Green] + f.packets[marker.Yellow], f.bytes[marker.Green] + f.bytes[marker.Yellow]
}

// readCounters reads the policer's side.
func (e *evidence) readCounters(m *maps.Maps, plan *marker.Plan) error {
	stats, err := m.Stats(plan)
	if err != nil {
		return err
	}
	e.class, e.port = stats.Classes[0], stats.Port
	buckets, err := maps.OpenBuckets(m.Buckets)
	if err != nil {
		return err
	}
	defer buckets.Close()
	var torn int
	for at, slot := range buckets.All(&torn) {
		if at.Set >= plan.Geometry.Reserved {
			continue // an overflow bucket, of no flow
		}
		key := slot.Key.Fields()
		f, err := e.flowOf(&key)
		if err != nil {
			return err
		}
		for color := range marker.Colors {
			f.packets[color] += slot.Packets[color]
			f.bytes[color] += slot.Bytes[color]
		}
	}
	if torn > 0 {
		return fmt.Errorf("%d sets of buckets kept changing though nobody sends: the table cannot be read", torn)
	}
	return nil
}

// flowOf finds the flow that a bucket is of.
func (e *evidence) flowOf(key *marker.KeyFields) (*flowEvidence, error) {
	for i := range e.flows {
		if e.flows[i].flow.has(key) {
			return &e.flows[i], nil
		}
	}
	return nil, fmt.Errorf("the policer has a bucket of %s, which nobody sent", key)
}
