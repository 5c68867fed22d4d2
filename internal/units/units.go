// Package units reads and prints the quantities of a policer: rates, burst
// sizes and counts.
//
// Everything is a whole number: no float is involved, nothing is rounded in
// silence, and what has two meanings is refused with both of them.
package units

import (
	"errors"
	"fmt"
	"time"
)

// The ranges that keep a meter's arithmetic within 64 bits. They hold for
// bytes and for packets alike, since a token is 10^-9 of either.
const (
	// MaxRate is the highest rate, in bytes (or packets) per second.
	MaxRate uint64 = 1 << 37
	// MaxBurst is the largest burst, in bytes (or packets): floor(2^63/10^9).
	MaxBurst uint64 = (1 << 63) / 1_000_000_000
)

// Errors of this package, for errors.Is. The text of the error returned says
// what was wrong with which word, and what would be right.
var (
	// ErrSyntax: no number, or a unit that is none.
	ErrSyntax = errors.New("not understood")
	// ErrUnclear: the word has two meanings.
	ErrUnclear = errors.New("unclear")
	// ErrNotWhole: no whole number of bytes, packets or nanoseconds.
	ErrNotWhole = errors.New("not a whole number")
	// ErrRange: outside what a meter can take.
	ErrRange = errors.New("out of range")
)

// Rate is a rate as a person wrote it.
type Rate struct {
	PerSecond uint64 // bytes per second, or packets per second
	Packets   bool   // true: PerSecond counts packets
}

// String is the rate as FormatRate prints it.
func (r Rate) String() string { return FormatRate(r.PerSecond, r.Packets) }

// Size is a burst size as a person wrote it: bytes, packets, or the time it
// takes to fill at a rate that is known only later (see At).
type Size struct {
	Amount  uint64        // bytes or packets; 0 where IsTime
	Packets bool          // true: Amount counts packets
	Time    time.Duration // the time, where IsTime
	IsTime  bool
}

// String is the size in a spelling that ParseSize reads back.
func (s Size) String() string {
	switch {
	case s.IsTime && s.Time%time.Millisecond == 0:
		return fmt.Sprintf("%d ms", s.Time/time.Millisecond)
	case s.IsTime && s.Time%time.Microsecond == 0:
		return fmt.Sprintf("%d us", s.Time/time.Microsecond)
	case s.IsTime:
		return fmt.Sprintf("%d.%03d us", s.Time/time.Microsecond, s.Time%time.Microsecond)
	case s.Packets:
		return fmt.Sprintf("%d pkt", s.Amount)
	default:
		return FormatSize(s.Amount)
	}
}

// parseError is one sentinel with a text of its own.
type parseError struct {
	kind error
	text string
}

func (e *parseError) Error() string { return e.text }
func (e *parseError) Unwrap() error { return e.kind }

func fail(kind error, format string, args ...any) error {
	return &parseError{kind, fmt.Sprintf(format, args...)}
}

// unclear refuses input with the two things it might have meant.
func unclear(input, one, other string) error {
	return fail(ErrUnclear, "%q is unclear: write %s or %s", input, one, other)
}
