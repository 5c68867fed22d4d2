package units

import "math"

// ParseCount reads a plain count: 4096, 64k, 1M, with k = 10^3 and M = 10^6.
//
// It returns an error that wraps ErrSyntax, ErrUnclear or ErrRange (over
// 2^64 - 1).
func ParseCount(s string) (uint64, error) {
	n, unit, err := split(s)
	if err != nil {
		return 0, err
	}
	var mul uint64
	switch unit {
	case "":
		mul = 1
	case "k":
		mul = kilo
	case "M":
		mul = mega
	case "K", "Ki", "ki":
		return 0, unclear(s, n.text+"k (1000)", n.text+" times 1024 as a plain number")
	case "m":
		return 0, unclear(s, n.text+"M (1000000)", n.text+"k (1000)")
	default:
		return 0, fail(ErrSyntax, "%q has the unit %q: a count is a plain number, or one with k (1000) or M (1000000)", s, unit)
	}
	if n.decimals > 0 {
		return 0, fail(ErrSyntax, "%q has decimals: a count is a whole number", s)
	}
	value, _ := n.scale(mul, 1)
	count, ok := fits(value, math.MaxUint64)
	if !ok {
		return 0, fail(ErrRange, "%q is too much: a count is at most %d", s, uint64(math.MaxUint64))
	}
	return count, nil
}
