// Package record is the file of a policer's decisions: what each packet cost, in which colour it came and
// went, and what its buckets held afterwards. It knows no meter: whoever proves something from a record
// does so by other code than that which decided.
//
// A file is a magic line, then items: a byte that says what it is, its length (uvarint), its bytes. Numbers are
// uvarints, times nanoseconds of the policer's monotonic clock, tokens nanobytes (10^-9 byte; of a packet
// where packets are counted).
//
//	H  the header, JSON: a Header. First, and once
//	P  a policy, JSON: a Policy. Numbered from 0, as they come; before the records that they are of
//	K  a key: what a person calls it. Numbered from 0, as they come
//	R  a record: see appendRecord
//	L  records were lost: the time, and how many there are of them up to now
//	E  the end, JSON: an End with the CRC-32C of all bytes before it. Last, and once
//
// Records stand in the order of their packets' clock reads. Those of several CPUs come mixed, so whoever
// writes sorts them; one that came after its place had been written is marked late. A bucket may count a packet
// later than the packet's own time, where another CPU was ahead: its Meter.Time says when.
package record

import "errors"

// Errors of a file.
var (
	// ErrFile is what every refusal of a file wraps that no recorder wrote, or that was damaged.
	ErrFile = errors.New("not a record of tricolor, or damaged")
	// ErrCut is returned where the file ends before its end item: its recorder was killed. What was read holds.
	ErrCut = errors.New("the record is cut short")
)

// Bounds of a file.
const (
	MaxChain    = 3       // meters of a record
	MaxKeys     = 1 << 24 // keys of a file
	MaxPolicies = 1 << 12
	MaxName     = 255      // bytes of a key's name
	maxJSON     = 16 << 20 // bytes of a header, a policy or an end
	maxRecord   = 256      // bytes of a record
)

const magic = "tricolor record 1\n"

// Kinds of item.
const (
	itemHeader = 'H'
	itemPolicy = 'P'
	itemKey    = 'K'
	itemRecord = 'R'
	itemLost   = 'L'
	itemEnd    = 'E'
)

// Color is a packet's colour, from best to worst.
type Color uint8

// The colours.
const (
	Green Color = iota
	Yellow
	Red
	colors
)

// String returns the colour's name.
func (c Color) String() string {
	if c < colors {
		return [...]string{"green", "yellow", "red"}[c]
	}
	return "?"
}

// Header says what was recorded.
type Header struct {
	Device    string `json:"device"`
	Direction string `json:"direction"`
	Version   string `json:"version"` // of tricolor that recorded
	Boot      string `json:"boot"`    // the kernel's boot id: whose clock the times are by
	Start     uint64 `json:"start_ns"`
	Unix      int64  `json:"start_unix_ns"` // the same moment, in ns since 1970
	Sample    uint32 `json:"sample"`        // one decision in so many was recorded; 1: all
}

// Policy is what its packets met.
type Policy struct {
	Generation uint32    `json:"generation"`
	Since      uint64    `json:"since_ns"` // when it took over from the one before
	Classes    []Class   `json:"classes"`
	Profiles   []Profile `json:"profiles"`
}

// Class is packets treated alike.
type Class struct {
	Name   string   `json:"name"`
	Count  string   `json:"count"` // what a cost counts: l3, l2, l1 (bytes) or packets
	Meters []string `json:"meters"`
}

// Profile is a meter's parameters. X is the second bucket: E of srtcm and rfc4115, P of trtcm.
type Profile struct {
	Name     string `json:"name"`
	Meter    string `json:"meter"` // token, srtcm, trtcm or rfc4115
	Aware    bool   `json:"aware,omitempty"`
	Coupling bool   `json:"coupling,omitempty"`
	CIR      uint64 `json:"cir"` // bytes per second
	XIR      uint64 `json:"xir"`
	CBS      uint64 `json:"cbs_nb"` // nanobytes
	XBS      uint64 `json:"xbs_nb"`
}

// Record is one decision. It is of a packet that met a class.
type Record struct {
	Time    uint64
	Late    bool   // it came when its place had been written
	Policy  uint32 // number in the file
	Class   uint16 // in that policy
	Cost    uint64 // in the class's unit
	Packets uint32 // on the wire
	Arrival Color
	Color   Color
	Chain   int // meters that judged; 0: its buckets could not be locked in time, and it is red
	Meters  [MaxChain]Meter
}

// Meter is what one meter of a chain made of a packet.
type Meter struct {
	Key      uint32 // number in the file
	Overflow bool   // there was no room for the key, and it shared the overflow bucket:
	Shared   uint32 // the key of that, where Overflow
	Color    Color
	Time     uint64 // when its bucket counted the packet: the record's time, or later
	Policy   uint32 // number of the policy that the bucket counted by: the record's, or a later one
	Profile  uint32 // in that policy
	C, X     uint64 // tokens left
}

// Spent reports whether a bucket gave tokens for the packet: red spends nothing anywhere.
func (r *Record) Spent() bool { return r.Color < Red && r.Chain > 0 }

// End says how a recording came out.
type End struct {
	Time    uint64 `json:"time_ns"`
	Reason  string `json:"reason"`   // why it ended
	Records uint64 `json:"records"`  // in the file
	Lost    uint64 `json:"lost"`     // that are not in the file for want of room
	LeftOut uint64 `json:"left_out"` // by sampling
	Late    uint64 `json:"late"`     // records that came when their place had been written
	CRC     uint32 `json:"crc32c"`   // of all bytes before this item
}
