package policy

import (
	"github.com/tricolor-policer/tricolor/internal/units"
	"github.com/tricolor-policer/tricolor/marker"
)

// Words are one class as written on a command line: the values of the flags of the same names. Empty:
// not given. A rate or size not given is 0; per is flow, count l3, color blind, green and yellow pass,
// red and malformed drop, flows DefaultFlows.
type Words struct {
	Meter              string // token, srtcm, trtcm, rfc4115; the only one that must be given
	CIR, CBS           string
	EBS                string
	PIR, PBS           string
	EIR                string
	Color              string // blind, aware
	Coupling           bool
	Per                string // flow, src, dst, src/24,56, dst/24,56, vlan, dscp, class, interface
	Count              string // l3, l2, l1, packets
	Overhead           string // 24, -4
	Flows              string
	Green, Yellow, Red string // pass, drop, or some of ecn-ce, dscp=af12, mark=5, priority=1, with commas
	Malformed          string // drop, pass
}

// Policy reads the words.
//
// Its error wraps ErrPolicy and joins everything that is wrong, one a line, each beginning with the
// name of its flag: `--cir: "10mbps" is unclear: …`.
func (w Words) Policy() (*Policy, error) {
	r := reader{spell: flag}
	count := read(&r, "count", w.Count, marker.CountL3, marker.ParseCount)
	u := unit{known: !r.unread["count"], packets: count == marker.CountPackets, because: "count is " + count.String(), instead: "count packets"}
	profile := w.profile(&r, DefaultClass, u)

	drop := marker.Action{Verbs: marker.VerbDrop}
	class := Class{Name: DefaultClass, Count: count, Arrival: marker.DefaultArrival()}
	m := read(&r, "per", w.Per, Meter{Per: marker.PerFlow}, parsePer)
	m.Profile = profile.Name
	class.Meters = []Meter{m}
	class.Overhead = read(&r, "overhead", w.Overhead, 0, parseOverhead)
	class.Actions[marker.Green] = read(&r, "green", w.Green, marker.Action{}, parseAction)
	class.Actions[marker.Yellow] = read(&r, "yellow", w.Yellow, marker.Action{}, parseAction)
	class.Actions[marker.Red] = read(&r, "red", w.Red, drop, parseAction)

	p := &Policy{
		Flows:     read(&r, "flows", w.Flows, DefaultFlows, units.ParseCount),
		Malformed: read(&r, "malformed", w.Malformed, drop, parseMalformed),
		Profiles:  []Profile{profile},
		Classes:   []Class{class},
	}
	all := append(r.faults, r.readable(p.check())...)
	for _, f := range all {
		f.Part, f.Field = "", flag(f.Field)
	}
	if err := all.err(); err != nil {
		return nil, err
	}
	return p, nil
}
