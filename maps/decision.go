package maps

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"github.com/tricolor-policer/tricolor/bpf"
	"github.com/tricolor-policer/tricolor/marker"
)

// Decision is what became of one metered packet, as the program told it.
type Decision struct {
	CPU        int    // that decided it: its decisions come in the order of their time
	Now        uint64 // ns: the packet's clock read
	Flow       marker.Key
	Cost       uint64 // in the class's unit
	Packets    uint32 // on the wire
	Generation uint32 // of the policy that it met
	Class      uint16 // in that policy
	VLAN       uint16
	DSCP       uint8
	IPv6       bool
	Arrival    marker.Color
	Color      marker.Color
	Chain      int // meters that judged; 0: contended
	Judged     [marker.MaxChain]Judged
}

// Judged is what one meter of a chain made of a packet.
type Judged struct {
	Color      marker.Color
	Overflow   bool          // its bucket is the overflow one
	Bucket     marker.Bucket // brought to the packet's time, after spending
	Profile    uint32        // index in its generation's profiles
	Generation uint32        // of the policy that counted the tokens; newer than the packet's in a change
}

// ErrDecision is returned for bytes that are no decision.
var ErrDecision = errors.New("not a decision of the kernel program")

const (
	judgedAt   = unsafe.Offsetof(bpf.PolicerDecision{}.Judged)
	judgedSize = unsafe.Sizeof(bpf.PolicerDecision{}.Judged[0])
)

// Fits reports whether a plan has the decision's class, with as many meters: else it was by another.
func (d *Decision) Fits(plan *marker.Plan) bool {
	return int(d.Class) < len(plan.Classes) && d.Chain <= len(plan.Classes[d.Class].Meters)
}

// Parse reads what the program wrote to a ring. Returns ErrDecision where it is of no shape that it writes.
func (d *Decision) Parse(data []byte) error {
	var raw bpf.PolicerDecision
	if uintptr(len(data)) < judgedAt {
		return fmt.Errorf("%w: %d bytes", ErrDecision, len(data))
	}
	copy((*[unsafe.Sizeof(raw)]byte)(unsafe.Pointer(&raw))[:], data)
	if raw.Chain > marker.MaxChain || uintptr(len(data)) < judgedAt+uintptr(raw.Chain)*judgedSize || raw.Color >= uint8(marker.Colors) {
		return fmt.Errorf("%w: a chain of %d in %d bytes, colour %d", ErrDecision, raw.Chain, len(data), raw.Color)
	}
	*d = Decision{
		Now: raw.Now, Flow: raw.Key.Word, Cost: uint64(raw.Cost), Packets: raw.Packets,
		Generation: raw.Generation, Class: raw.Class, VLAN: raw.Vlan, DSCP: raw.Dscp,
		IPv6:    raw.Family == uint8(bpf.PolicerFamilyFAMILY_IPV6),
		Arrival: marker.Color(raw.Arrival), Color: marker.Color(raw.Color), Chain: int(raw.Chain),
	}
	for i := range d.Chain {
		j := &raw.Judged[i]
		d.Judged[i] = Judged{
			Color: marker.Color(raw.Colors[i]), Overflow: raw.Overflow>>i&1 != 0,
			Bucket:  marker.Bucket{Last: j.Bucket.Last, Tc: j.Bucket.Tc, Tx: j.Bucket.Tx},
			Profile: j.Profile, Generation: j.Generation,
		}
	}
	return nil
}

// Key is the key by which a meter found its bucket, or would have where that was the overflow one.
func (d *Decision) Key(m *marker.Meter) marker.Key {
	version := 0
	if d.IPv6 {
		version = 1
	}
	if m.Per >= marker.PerClass {
		return marker.Key{4: m.ID[0]}
	}
	key := d.Flow
	for i := range key {
		key[i] &= m.Mask[version][i]
	}
	key[4] |= m.ID[version]
	fields := key.Fields()
	switch m.Per {
	case marker.PerVLAN:
		binary.BigEndian.PutUint16(fields.Sport[:], d.VLAN)
	case marker.PerDSCP:
		binary.BigEndian.PutUint16(fields.Sport[:], uint16(d.DSCP))
	}
	return fields.Key()
}
