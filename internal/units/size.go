package units

import (
	"math"
	"math/bits"
	"strings"
	"time"
)

const sizeHelp = "a size is written in B, kB, MB, GB, KiB, MiB, GiB, pkt, or as a time at the rate in ms or us"

// ParseSize reads a burst size: 1500B, 96KiB, 1.5MB, 32pkt, or a time at the
// rate, 10ms, 500us. The result is whole: bytes or packets from 0 to MaxBurst,
// or nanoseconds.
//
// It returns an error that wraps ErrSyntax, ErrUnclear (with both meanings),
// ErrNotWhole (with the two nearest sizes) or ErrRange.
func ParseSize(s string) (Size, error) {
	n, unit, err := split(s)
	if err != nil {
		return Size{}, err
	}
	switch unit {
	case "ms":
		return timeSize(s, n, uint64(time.Millisecond))
	case "us":
		return timeSize(s, n, uint64(time.Microsecond))
	case "pkt":
		return amountSize(s, n, 1, "pkt")
	}
	prefix, ok := cutPrefix(strings.ToLower(unit), "b")
	if !ok || unit != byteSpelling(prefix)+"B" {
		return Size{}, refuseSizeUnit(s, n, unit)
	}
	return amountSize(s, n, prefixes[prefix], "B")
}

func amountSize(input string, n number, mul uint64, name string) (Size, error) {
	value, exact := n.scale(mul, 1)
	amount, ok := fits(value, MaxBurst)
	if !ok || !exact && amount == MaxBurst {
		return Size{}, fail(ErrRange, "%q is too much: a burst is at most %d%s", input, MaxBurst, name)
	}
	if !exact {
		return Size{}, fail(ErrNotWhole, "%q is not whole: the nearest are %d%s and %d%s", input, amount, name, amount+1, name)
	}
	return Size{Amount: amount, Packets: name == "pkt"}, nil
}

func timeSize(input string, n number, mul uint64) (Size, error) {
	value, exact := n.scale(mul, 1)
	ns, ok := fits(value, math.MaxInt64)
	if !ok {
		return Size{}, fail(ErrRange, "%q is too long a time", input)
	}
	if !exact {
		return Size{}, fail(ErrNotWhole, "%q is no whole number of nanoseconds: write fewer decimals", input)
	}
	return Size{Time: time.Duration(ns), IsTime: true}, nil
}

// refuseSizeUnit says what is wrong with a unit, and what it may have meant.
func refuseSizeUnit(input string, n number, unit string) error {
	word := strings.ToLower(unit)
	switch word {
	case "":
		return unclear(input, n.text+"B (bytes)", n.text+"pkt (packets)")
	case "b":
		return unclear(input, n.text+"B (bytes)", "the eighth part of it (bits)")
	case "m":
		return unclear(input, n.text+"MB (bytes)", n.text+"ms (a time at the rate)")
	case "s", "sec":
		return fail(ErrSyntax, "%q has the unit %q: write the time in ms, 1000ms for a second", input, unit)
	}
	if prefix, ok := cutPrefix(word, "bit"); ok {
		return fail(ErrSyntax, "%q is a rate or a number of bits: write the size in bytes, such as %s%sB, or as a time at the rate, such as 10ms",
			input, n.text, byteSpelling(prefix))
	}
	if prefix, ok := cutPrefix(word, "b", ""); ok {
		decimal := strings.TrimSuffix(prefix, "i")
		if decimal != prefix {
			return fail(ErrSyntax, "%q has the unit %q: write %s%sB", input, unit, n.text, byteSpelling(prefix))
		}
		return unclear(input, n.text+byteSpelling(prefix)+"B (powers of 1000)",
			n.text+byteSpelling(prefix+"i")+"B (powers of 1024)")
	}
	return fail(ErrSyntax, "%q has the unit %q: %s", input, unit, sizeHelp)
}

// At is the size in bytes (or packets) where the bucket earns rate bytes (or
// packets) per second: a time is multiplied by the rate and rounded down, any
// other size is itself.
//
// It returns an error that wraps ErrRange where a time comes to 0 or to more
// than MaxBurst.
func (s Size) At(rate uint64) (uint64, error) {
	if !s.IsTime {
		return s.Amount, nil
	}
	high, low := bits.Mul64(uint64(s.Time), rate)
	if high >= uint64(time.Second) {
		return 0, fail(ErrRange, "%v at %d per second is too much: a burst is at most %d", s, rate, MaxBurst)
	}
	amount, _ := bits.Div64(high, low, uint64(time.Second))
	if amount > MaxBurst {
		return 0, fail(ErrRange, "%v at %d per second is too much: a burst is at most %d", s, rate, MaxBurst)
	}
	if amount == 0 {
		return 0, fail(ErrRange, "%v at %d per second rounds down to 0: write a longer time, or the size itself", s, rate)
	}
	return amount, nil
}
