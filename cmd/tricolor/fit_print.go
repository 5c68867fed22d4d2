package main

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/tricolor-policer/tricolor/fit"
	"github.com/tricolor-policer/tricolor/internal/units"
	"github.com/tricolor-policer/tricolor/marker"
)

// rowsPrinted is about how many points of a curve a table has.
const rowsPrinted = 14

// print prints what was found for a person.
func (f *fitter) print(fragment string) error {
	w := f.stdout
	for _, file := range f.study.files {
		fmt.Fprintf(w, "%s: %s in %s\n", printable(file.path), plural(file.records, "packet", "packets"), duration(file.span))
	}
	for i, t := range f.study.targets {
		if f.study.only >= 0 && f.study.only != i {
			continue
		}
		if t.packets == 0 {
			fmt.Fprintf(w, "\nclass %s: no packets\n", printable(t.class.Name))
			continue
		}
		if err := f.printTarget(t); err != nil {
			return err
		}
	}
	fmt.Fprint(w, "\nAs a policy:\n\n")
	for line := range strings.Lines(fragment) {
		fmt.Fprintln(w, printable(strings.TrimSuffix(line, "\n")))
	}
	return nil
}

// whose says who shares a bucket.
func (t *target) whose() string {
	if t.per == "class" {
		return "all in one bucket"
	}
	return fmt.Sprintf("per %s, %s", t.per, plural(uint64(len(t.keys)), "key", "keys"))
}

func (t *target) amount(n uint64) string {
	if t.countsPackets() {
		return plural(n, "packet", "packets")
	}
	return units.FormatCount(n) + " B"
}

// rate prints a rate of the curve: all of a column in bits, or in packets.
func (t *target) rate(perSecond uint64) string {
	if t.countsPackets() {
		return units.FormatRate(perSecond, true)
	}
	return units.FormatBits(perSecond)
}

// mean prints a mean rate.
func (t *target) mean(cost uint64) string {
	if t.span == 0 {
		return "-"
	}
	if t.countsPackets() {
		return units.FormatCount(meanRate(cost, t.span)) + " pps"
	}
	return units.FormatMeanOver(cost, t.span)
}

// fills is the time in which a burst is earned at a rate.
func fills(p fit.Point) string {
	high, low := bits.Mul64(p.Burst, marker.Nano)
	if high >= p.Rate {
		return "-"
	}
	ns, _ := bits.Div64(high, low, p.Rate)
	return duration(ns)
}

func (f *fitter) printTarget(t *target) error {
	w := f.stdout
	fmt.Fprintf(w, "\nclass %s, %s: %s, %s, mean %s\n", printable(t.class.Name), t.whose(), plural(t.packets, "packet", "packets"),
		t.amount(t.cost), t.mean(t.cost))
	fmt.Fprint(w, "the least burst with which nothing is red:\n")
	table := newNumbers(w)
	table.row("rate", "burst", "earned in")
	for _, p := range t.rows() {
		var remarks []string
		if t.knee >= 0 && p == t.points[t.knee] {
			remarks = append(remarks, "the knee")
		}
		if p == t.chosen && f.rate != nil {
			remarks = append(remarks, "--cir")
		}
		cells := []string{t.rate(p.Rate), t.amount(p.Burst), fills(p)}
		if len(remarks) == 0 {
			table.row(cells...)
		} else {
			table.named("← "+strings.Join(remarks, ", "), cells...)
		}
	}
	if err := table.flush(); err != nil {
		return err
	}
	if len(t.shown) > 0 {
		if err := f.printKeys(t); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "at %s:\n", t.rate(t.chosen.Rate))
	table = newNumbers(w)
	what := "nothing is red"
	if f.allowed != nil {
		what = fmt.Sprintf("at most %s of %s red: %s of %s (%s, %s)", f.loss, f.lossOf.word, units.FormatCount(t.lost.Packets),
			plural(t.packets, "packet", "packets"), share(t.lost.Packets, t.packets), t.amount(t.lost.Bytes))
		table.named("nothing is red", "least burst", t.amount(t.chosen.Burst))
	}
	table.named(what, "least burst", t.amount(t.burst))
	for _, n := range t.needs {
		table.named(n.Why, n.What, "+ "+t.amount(n.Bytes))
	}
	table.row("cbs", t.amount(t.cbs))
	return table.flush()
}

// rows are some of the curve's points: the ends, the knee and the chosen one among them.
func (t *target) rows() (rows []fit.Point) {
	every := max(1, (len(t.points)+rowsPrinted-1)/rowsPrinted)
	for i, p := range t.points {
		if i%every == 0 || i == t.knee || i == len(t.points)-1 || p == t.chosen {
			rows = append(rows, p)
		}
	}
	if n := len(rows); n == 0 || rows[n-1].Rate < t.chosen.Rate {
		rows = append(rows, t.chosen)
	}
	return rows
}

// printKeys prints what the busiest keys need themselves.
func (f *fitter) printKeys(t *target) error {
	fmt.Fprintf(f.stdout, "busiest %s of %s, at %s:\n", plural(uint64(len(t.shown)), "key", "keys"), units.FormatCount(uint64(len(t.keys))), t.rate(t.chosen.Rate))
	table := newNumbers(f.stdout)
	table.named("key", "packets", "cost", "mean rate", "least burst")
	for _, k := range t.shown {
		burst := "-"
		if b, ok := k.at(t.chosen.Rate); ok {
			burst = t.amount(b)
		}
		table.named(f.study.names.name(k.key.Fields(), false), units.FormatCount(k.packets), t.amount(k.cost), t.mean(k.cost), burst)
	}
	return table.flush()
}

// at is the key's own least burst at a rate of its curve.
func (k *fitKey) at(rate uint64) (uint64, bool) {
	for i, r := range k.curve.Rates() {
		if r == rate {
			return k.curve.Burst(i)
		}
	}
	return 0, false
}
