package policy

import (
	"fmt"
	"strings"
	"unicode"

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
	Per                string // flow, src, dst, src/24,56, dst/24,56, class
	Count              string // l3, l2, l1, packets
	Overhead           string // 24, -4
	Flows              string
	Green, Yellow, Red string // pass, drop, dscp=af12
	Malformed          string // drop, pass
}

// parameters are the fields that mean nothing without a meter.
var parameters = []string{"cir", "cbs", "ebs", "pir", "pbs", "eir", "coupling"}

// Policy reads the words.
//
// Its error wraps ErrPolicy and joins everything that is wrong, one a line, each beginning with the
// name of its flag: `--cir: "10mbps" is unclear: …`.
func (w Words) Policy() (*Policy, error) {
	var r reader
	profile := Profile{Name: DefaultClass}
	meter := w.meter(&r)
	count := read(&r, "count", w.Count, marker.CountL3, marker.ParseCount)
	u := unit{known: !r.unread["count"], count: count}
	profile.Packets = count == marker.CountPackets

	profile.Params = marker.Params{Meter: meter, Coupling: w.Coupling}
	profile.Aware = read(&r, "color", w.Color, false, parseAware)
	profile.CIR = read(&r, "cir", w.CIR, 0, u.rate)
	profile.PIR = read(&r, "pir", w.PIR, 0, u.rate)
	profile.EIR = read(&r, "eir", w.EIR, 0, u.rate)
	profile.CBS = r.burst(u, "cbs", w.CBS, "cir", profile.CIR)
	switch meter {
	case marker.SRTCM:
		profile.EBS = r.burst(u, "ebs", w.EBS, "cir", profile.CIR)
	case marker.RFC4115:
		profile.EBS = r.burst(u, "ebs", w.EBS, "eir", profile.EIR)
	default:
		profile.EBS = r.burst(u, "ebs", w.EBS, "", 0)
	}
	if meter == marker.TRTCM {
		profile.PBS = r.burst(u, "pbs", w.PBS, "pir", profile.PIR)
	} else {
		profile.PBS = r.burst(u, "pbs", w.PBS, "", 0)
	}

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
	if err := r.all(p.check()).err(); err != nil {
		return nil, err
	}
	return p, nil
}

// meter reads which meter; without one its parameters mean nothing.
func (w Words) meter(r *reader) marker.MeterType {
	if w.Meter == "" {
		r.refuse("meter", "none is given: say token, srtcm (RFC 2697), trtcm (RFC 2698) or rfc4115")
	}
	meter := read(r, "meter", w.Meter, marker.Token, marker.ParseMeterType)
	if r.unread["meter"] {
		for _, field := range parameters {
			r.skip(field)
		}
	}
	return meter
}

// reader collects what is wrong with the words.
type reader struct {
	faults faults
	unread map[string]bool // fields of which no value is known
}

func (r *reader) skip(field string) {
	if r.unread == nil {
		r.unread = map[string]bool{}
	}
	r.unread[field] = true
}

func (r *reader) refuse(field, text string) {
	r.faults.add("", flag(field), text)
	r.skip(field)
}

// read reads a word with parse; where it is empty or wrong, absent stands for it.
func read[T any](r *reader, field, word string, absent T, parse func(string) (T, error)) T {
	if word == "" {
		return absent
	}
	value, err := parse(word)
	if err != nil {
		r.refuse(field, err.Error())
		return absent
	}
	return value
}

// burst reads a size. A time is one at rate, written in the field at; at is empty where the meter has
// no such bucket.
func (r *reader) burst(u unit, field, word, at string, rate uint64) uint64 {
	size := read(r, field, word, units.Size{}, u.size)
	switch {
	case !size.IsTime:
		return size.Amount
	case at == "":
		return uint64(size.Time) // any number: the meter refuses the parameter, or is unknown
	case r.unread[at]:
		r.skip(field)
		return 0
	case rate == 0:
		r.refuse(field, fmt.Sprintf("%q is a time at %s, which is 0: write the size itself, or give the rate", word, flag(at)))
		return 0
	}
	amount, err := size.At(rate)
	if err != nil {
		r.refuse(field, err.Error())
	}
	return amount
}

// all returns the reader's faults and, with flags for fields, those checked of which all fields were
// read.
func (r *reader) all(checked faults) faults {
	all := r.faults
next:
	for _, f := range checked {
		for _, field := range f.fields() {
			if r.unread[field] {
				continue next
			}
		}
		all.add("", flag(f.field), f.text)
	}
	return all
}

// flag returns the flags of fields: "cbs, ebs" gives "--cbs, --ebs".
func flag(field string) string {
	words := strings.Fields(field)
	for i, word := range words {
		if unicode.IsLetter(rune(word[0])) {
			words[i] = "--" + word
		}
	}
	return strings.Join(words, " ")
}
