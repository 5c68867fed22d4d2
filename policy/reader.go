package policy

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/tricolor-policer/tricolor/internal/units"
	"github.com/tricolor-policer/tricolor/marker"
)

// reader collects what is wrong with the words of one part of a policy.
type reader struct {
	at     part
	spell  func(field string) string // as a person writes the field: --cir, or cir
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
	r.faults.add(r.at, field, text)
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
		r.refuse(field, fmt.Sprintf("%q is a time at %s, which is 0: write the size itself, or give the rate", word, r.spell(at)))
		return 0
	}
	amount, err := size.At(rate)
	if err != nil {
		r.refuse(field, err.Error())
	}
	return amount
}

// parameters are the fields that mean nothing without a meter.
var parameters = []string{"cir", "cbs", "ebs", "pir", "pbs", "eir", "coupling"}

// profile reads the words of a meter's parameters.
func (w *Words) profile(r *reader, name string, u unit) Profile {
	meter := w.meter(r)
	p := Profile{Name: name, Packets: u.packets, Params: marker.Params{Meter: meter, Coupling: w.Coupling}}
	p.Aware = read(r, "color", w.Color, false, parseAware)
	p.CIR = read(r, "cir", w.CIR, 0, u.rate)
	p.PIR = read(r, "pir", w.PIR, 0, u.rate)
	p.EIR = read(r, "eir", w.EIR, 0, u.rate)
	p.CBS = r.burst(u, "cbs", w.CBS, "cir", p.CIR)
	switch meter {
	case marker.SRTCM:
		p.EBS = r.burst(u, "ebs", w.EBS, "cir", p.CIR)
	case marker.RFC4115:
		p.EBS = r.burst(u, "ebs", w.EBS, "eir", p.EIR)
	default:
		p.EBS = r.burst(u, "ebs", w.EBS, "", 0)
	}
	if meter == marker.TRTCM {
		p.PBS = r.burst(u, "pbs", w.PBS, "pir", p.PIR)
	} else {
		p.PBS = r.burst(u, "pbs", w.PBS, "", 0)
	}
	return p
}

// meter reads which meter; without one its parameters mean nothing.
func (w *Words) meter(r *reader) marker.MeterType {
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

// readable returns the faults of which every field was read: the others follow from a fault that was
// told already.
func (r *reader) readable(checked faults) (told faults) {
next:
	for _, f := range checked {
		for _, field := range f.fields() {
			if r.unread[field] {
				continue next
			}
		}
		told = append(told, f)
	}
	return told
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
