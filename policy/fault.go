package policy

import (
	"errors"
	"strings"
	"unicode"
)

// ErrPolicy is what every refusal of this package wraps.
var ErrPolicy = errors.New("policy")

// fault is one thing wrong with a policy. Where it stands in the writing is for the reader of that
// writing to say, from part and field.
type fault struct {
	part  string // "profile gold", "class voice"; empty: of the whole policy
	field string // as it is written: "cbs", or several: "cbs, ebs"
	text  string // what is wrong, and what would be right
}

// Error returns `profile gold: cbs: must be larger than 0`.
func (f *fault) Error() string {
	var b strings.Builder
	for _, where := range []string{f.part, f.field} {
		if where != "" {
			b.WriteString(where + ": ")
		}
	}
	return b.String() + f.text
}

func (f *fault) Unwrap() error { return ErrPolicy }

// fields returns the fields' names one by one.
func (f *fault) fields() []string {
	return strings.FieldsFunc(f.field, func(c rune) bool { return !unicode.IsLetter(c) })
}

// faults is all that is wrong with a policy.
type faults []*fault

func (f *faults) add(part, field, text string) {
	*f = append(*f, &fault{part, field, text})
}

// addAll takes every leaf of a joined error whose texts read `field: what is wrong`.
func (f *faults) addAll(part string, err error) {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		for _, e := range joined.Unwrap() {
			f.addAll(part, e)
		}
		return
	}
	if field, text, ok := strings.Cut(err.Error(), ": "); ok {
		f.add(part, field, text)
	}
}

// err joins the faults, one a line; nil where there are none.
func (f faults) err() error {
	errs := make([]error, len(f))
	for i, e := range f {
		errs[i] = e
	}
	return errors.Join(errs...)
}
