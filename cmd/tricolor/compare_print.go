package main

import (
	"fmt"
	"math/big"
	"math/bits"
	"strconv"
	"strings"

	"github.com/tricolor-policer/tricolor/internal/units"
	"github.com/tricolor-policer/tricolor/marker"
)

// print prints one input's table.
func (c *comparer) print(run *compared) error {
	packets, amount, keys := run.Arrived()
	head := "scenario " + run.scenario
	if run.file != "" {
		head = printable(run.file)
	}
	head += ": " + plural(packets, "packet", "packets")
	if !c.terms.packets {
		head += ", " + units.FormatCount(amount) + " bytes,"
	}
	fmt.Fprintf(c.stdout, "\n%s in %s", head, shortTime(run.last-run.first))
	if keys > 1 {
		fmt.Fprintf(c.stdout, ", of %s per %s; what is worst is the worst key's", plural(uint64(keys), "key", "keys"), c.per)
	}
	fmt.Fprintln(c.stdout)
	heads := []string{"admitted", "share"}
	if !c.terms.packets {
		heads = []string{"packets", "bytes", "share of bytes"}
	}
	t := newNumbers(c.stdout)
	t.named("contract", append(heads, "most in "+shortTime(c.terms.Window), "over B + rT", "worst delay", "state a key")...)
	for _, row := range run.Rows() {
		cells := []string{units.FormatCount(row.Packets)}
		if !c.terms.packets {
			cells = append(cells, units.FormatCount(row.Units))
		}
		t.named(row.Contract.String(), append(cells, share(row.Units, amount), units.FormatCount(row.MostInWindow),
			nanoUnits(row.Excess), shortTime(row.WorstDelay), plural(row.State, "byte", "bytes"))...)
	}
	if err := t.flush(); err != nil {
		return err
	}
	for _, line := range run.remarks {
		fmt.Fprintln(c.stdout, "  "+line)
	}
	return nil
}

// nanoUnits prints nano-units as units, with three decimals at most, rounded up so that little is not nothing.
func nanoUnits(n *big.Int) string {
	const step = marker.Nano / 1000
	milli := new(big.Int).Add(n, big.NewInt(step-1))
	whole, rest := milli.Div(milli, big.NewInt(step)).QuoRem(milli, big.NewInt(1000), new(big.Int))
	text := whole.String()
	if whole.IsUint64() {
		text = units.FormatCount(whole.Uint64())
	}
	return text + decimals(rest.Uint64())
}

// shortTime prints ns in one unit, with three decimals at most, rounded half up: "3.6 s".
func shortTime(ns uint64) string {
	unit, name := uint64(marker.Nano), " s"
	switch {
	case ns == 0 || ns >= marker.Nano-500_000:
	case ns >= 999_500:
		unit, name = 1_000_000, " ms"
	case ns >= 1000:
		unit, name = 1000, " us"
	default:
		return strconv.FormatUint(ns, 10) + " ns"
	}
	whole, rest := ns/unit, ns%unit
	milli := (rest*1000 + unit/2) / unit
	if milli == 1000 {
		whole, milli = whole+1, 0
	}
	return units.FormatCount(whole) + decimals(milli) + name
}

// decimals prints thousandths behind a whole number, without zeros at the end.
func decimals(milli uint64) string {
	return strings.TrimRight(strings.TrimRight(fmt.Sprintf(".%03d", milli), "0"), ".")
}

// mulDivUp is how many ns amount takes at a rate, rounded up; at most the largest uint64.
func mulDivUp(amount, rate uint64) uint64 {
	hi, lo := bits.Mul64(amount, marker.Nano)
	if hi >= rate {
		return ^uint64(0)
	}
	q, rest := bits.Div64(hi, lo, rate)
	if rest > 0 {
		q++
	}
	return q
}
