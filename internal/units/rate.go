package units

import (
	"math/big"
	"strings"
)

const rateHelp = "a rate is written in bit, kbit, mbit, gbit, tbit, kibit…, B/s, kB/s, MB/s, GB/s, KiB/s… or pps, kpps, mpps"

// ParseRate reads a rate: 10mbit, 2.048mbit, 1.5 Gbit/s, 640kibit, 125kB/s,
// 64KiB/s, 5kpps. The result is a whole number of bytes (or packets) per
// second from 0 to MaxRate; a meter judges whether 0 makes sense.
//
// It returns an error that wraps ErrSyntax, ErrUnclear (with both meanings),
// ErrNotWhole (with the two nearest rates) or ErrRange.
func ParseRate(s string) (Rate, error) {
	n, unit, err := split(s)
	if err != nil {
		return Rate{}, err
	}
	mul, div, packets, ok := rateUnit(unit)
	if !ok {
		return Rate{}, refuseRateUnit(s, n, unit)
	}
	value, exact := n.scale(mul, div)
	perSecond, ok := fits(value, MaxRate)
	if !ok || !exact && perSecond == MaxRate {
		if packets {
			return Rate{}, fail(ErrRange, "%q is too much: a rate is at most %d pps", s, MaxRate)
		}
		return Rate{}, fail(ErrRange, "%q is too much: a rate is at most %d B/s (2^37, over 1 Tbit/s)", s, MaxRate)
	}
	if !exact {
		return Rate{}, notWholeRate(s, value, packets)
	}
	return Rate{perSecond, packets}, nil
}

// rateUnit is what a unit multiplies by and divides by to give bytes, or
// packets, per second. bit and pps may be written in any case: no unit of
// rate is milli.
func rateUnit(unit string) (mul, div uint64, packets, ok bool) {
	word := strings.ToLower(unit)
	if prefix, found := cutPrefix(strings.TrimSuffix(word, "/s"), "bit"); found {
		return prefixes[prefix], 8, false, true
	}
	if prefix, found := cutPrefix(word, "b/s"); found && unit == byteSpelling(prefix)+"B/s" {
		return prefixes[prefix], 1, false, true
	}
	switch word {
	case "pps":
		return 1, 1, true, true
	case "kpps":
		return kilo, 1, true, true
	case "mpps":
		return mega, 1, true, true
	}
	return 0, 0, false, false
}

// refuseRateUnit says what is wrong with a unit, and what it may have meant.
func refuseRateUnit(input string, n number, unit string) error {
	if unit == "KB/s" {
		return unclear(input, n.text+"kB/s (1000 bytes)", n.text+"KiB/s (1024 bytes)")
	}
	word := strings.TrimSuffix(strings.ToLower(unit), "/s")
	if prefix, ok := cutPrefix(word, "bps", "b", ""); ok {
		return unclear(input, n.text+prefix+"bit (bits per second)",
			n.text+byteSpelling(prefix)+"B/s (bytes per second)")
	}
	return fail(ErrSyntax, "%q has the unit %q: %s", input, unit, rateHelp)
}

// notWholeRate names the whole rates on both sides.
func notWholeRate(input string, below *big.Int, packets bool) error {
	low := below.Uint64()
	if packets {
		return fail(ErrNotWhole, "%q is no whole number of packets per second: the nearest are %dpps and %dpps", input, low, low+1)
	}
	return fail(ErrNotWhole, "%q is no whole number of bytes per second: the nearest are %dbit (%dB/s) and %dbit (%dB/s)",
		input, low*8, low, (low+1)*8, low+1)
}
