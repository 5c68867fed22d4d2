package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// ErrPolicy is what every refusal of this package wraps.
var ErrPolicy = errors.New("policy")

// maxFaults is how many faults are told of one policy: a hostile file has no end of them.
const maxFaults = 200

// Fault is one thing wrong with a policy.
//
//nolint:errname // it is what an error is made of, and has more to say than its text
type Fault struct {
	Place   Place
	Part    string // "profile gold", "class voice"; empty: of the whole policy
	Field   string // as it is written: "cbs", or several: "cbs, ebs"
	Text    string // what is wrong, and what would be right
	Excerpt string // the source line with a caret under it; empty for a command line
	unit    string // set where the fault is that the unit of a profile of this name does not fit
}

// Error returns `voice.yaml:7:12: profile gold: cbs: must be larger than 0`, and the excerpt.
func (f *Fault) Error() string {
	var b strings.Builder
	for _, where := range []string{f.Place.String(), f.Part, f.Field} {
		if where != "" {
			// What a file is called, or a part of it, begins no line of the message.
			b.WriteString(strings.ReplaceAll(where, "\n", `\n`) + ": ")
		}
	}
	b.WriteString(f.Text)
	if f.Excerpt != "" {
		b.WriteString("\n" + f.Excerpt)
	}
	return b.String()
}

func (f *Fault) Unwrap() error { return ErrPolicy }

// fields returns the fields' names one by one.
func (f *Fault) fields() []string { return fieldsOf(f.Field) }

func fieldsOf(field string) []string {
	return strings.FieldsFunc(field, func(c rune) bool { return !unicode.IsLetter(c) && c != '-' })
}

// Faults returns what an error of this package joins, in order; nil for any other error.
func Faults(err error) []*Fault {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		var all []*Fault
		for _, e := range joined.Unwrap() {
			all = append(all, Faults(e)...)
		}
		return all
	}
	var f *Fault
	if errors.As(err, &f) {
		return []*Fault{f}
	}
	return nil
}

// part is a piece of the policy, and where its fields are written.
type part struct {
	name   string
	places Places
}

// faults is all that is wrong with a policy.
type faults []*Fault

func (f *faults) add(at part, field, text string) {
	*f = append(*f, &Fault{Place: at.places.of(fieldsOf(field)), Part: at.name, Field: field, Text: text})
}

// addAll takes every leaf of a joined error whose texts read `field: what is wrong`.
func (f *faults) addAll(at part, err error) {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		for _, e := range joined.Unwrap() {
			f.addAll(at, e)
		}
		return
	}
	if field, text, ok := strings.Cut(err.Error(), ": "); ok {
		f.add(at, field, text)
	}
}

// sorted returns the faults of a file in the order of its lines, each once.
func (f faults) sorted(file string) faults {
	slices.SortStableFunc(f, func(a, b *Fault) int {
		switch {
		case a.Place.before(b.Place, file):
			return -1
		case b.Place.before(a.Place, file):
			return 1
		default:
			return 0
		}
	})
	return slices.CompactFunc(f, func(a, b *Fault) bool { return a.Place == b.Place && a.Text == b.Text })
}

// err joins the faults, one a line; nil where there are none.
func (f faults) err() error {
	if len(f) > maxFaults {
		rest := len(f) - maxFaults
		f = append(f[:maxFaults:maxFaults], &Fault{Text: fmt.Sprintf("and %d more like these", rest)})
	}
	errs := make([]error, len(f))
	for i, e := range f {
		errs[i] = e
	}
	return errors.Join(errs...)
}
