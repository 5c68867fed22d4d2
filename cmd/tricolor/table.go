package main

import (
	"fmt"
	"io"
	"math/bits"
	"strings"
	"text/tabwriter"

	"github.com/tricolor-policer/tricolor/internal/units"
	"github.com/tricolor-policer/tricolor/marker"
)

// numbers is a table of right-aligned columns. Text behind the last tab of a row is not aligned: it
// stands last, and begins with spaces.
type numbers struct{ w *tabwriter.Writer }

func newNumbers(w io.Writer) numbers {
	return numbers{tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)}
}

// row prints right-aligned cells.
func (t numbers) row(cells ...string) { fmt.Fprint(t.w, strings.Join(cells, "\t")+"\t\n") }

// named prints right-aligned cells, then a name.
func (t numbers) named(name string, cells ...string) {
	fmt.Fprint(t.w, strings.Join(cells, "\t")+"\t  "+name+"\n")
}

func (t numbers) flush() error { return t.w.Flush() }

// printColors prints a table of a class's counters by colour; with their mean rates (bytes per second)
// where meanRate is not nil.
func printColors(w io.Writer, c *marker.ClassStats, meanRate func(bytes uint64) uint64) error {
	packets, bytes := total(c.Packets), total(c.Bytes)
	t := newNumbers(w)
	row := func(name string, p, b uint64) {
		cells := []string{name, units.FormatCount(p), units.FormatCount(b), share(b, bytes)}
		if meanRate != nil {
			cells = append(cells, units.FormatMeanRate(meanRate(b)))
		}
		t.row(cells...)
	}
	heads := []string{"colour", "packets", "bytes", "share of bytes"}
	if meanRate != nil {
		heads = append(heads, "mean rate")
	}
	t.row(heads...)
	for color := range marker.Colors {
		row(color.String(), c.Packets[color], c.Bytes[color])
	}
	row("total", packets, bytes)
	return t.flush()
}

// remarks says what else the counters hold, where it is not zero.
func remarks(s *marker.Stats) []string {
	var lines []string
	add := func(n uint64, text string) {
		if n > 0 {
			lines = append(lines, units.FormatCount(n)+" "+text)
		}
	}
	add(s.Port.Unmatched, "unmatched: of no class; passed")
	add(s.Port.NotIP, "not IP: passed untouched")
	add(s.Port.Malformed, "malformed")
	add(s.Port.LongChain, "with more IPv6 extension headers than are walked: policed without ports")
	for i := range s.Classes {
		c := &s.Classes[i]
		add(c.Overflow, "in the overflow bucket: the table was full")
		add(c.Contended, "contended: red, since a bucket could not be locked in time")
		add(c.ClockBack, "clock back: earned nothing, since the bucket had seen a later time")
	}
	return lines
}

// total adds up the colours.
func total(n [marker.Colors]uint64) (sum uint64) {
	for _, v := range n {
		sum += v
	}
	return sum
}

// permille is part of whole in thousandths, rounded half up; 0 where there is no whole. part <= whole.
func permille(part, whole uint64) uint64 {
	if whole == 0 {
		return 0
	}
	hi, lo := bits.Mul64(part, 1000)
	lo, carry := bits.Add64(lo, whole/2, 0)
	q, _ := bits.Div64(hi+carry, lo, whole)
	return q
}

// share prints part of whole: "12.3 %". What is not nothing and not all is never shown as such.
func share(part, whole uint64) string {
	m := permille(part, whole)
	switch {
	case m == 0 && part > 0:
		return "< 0.1 %"
	case m == 1000 && part < whole:
		return "> 99.9 %"
	}
	return fmt.Sprintf("%d.%d %%", m/10, m%10)
}

// plural prints a count and its noun.
func plural(n uint64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return units.FormatCount(n) + " " + many
}

// duration prints ns for a person, in the two largest units that matter.
func duration(ns uint64) string {
	const (
		second = 1_000_000_000
		minute = 60 * second
		hour   = 60 * minute
		day    = 24 * hour
	)
	switch {
	case ns >= day:
		return plural(ns/day, "day", "days") + fmt.Sprintf(" %d h", ns%day/hour)
	case ns >= hour:
		return fmt.Sprintf("%d h %d min", ns/hour, ns%hour/minute)
	case ns >= minute:
		return fmt.Sprintf("%d min %d.%03d s", ns/minute, ns%minute/second, ns%second/1_000_000)
	case ns >= second:
		return fmt.Sprintf("%d.%03d s", ns/second, ns%second/1_000_000)
	case ns >= 1_000_000:
		return fmt.Sprintf("%d.%03d ms", ns/1_000_000, ns%1_000_000/1000)
	case ns >= 1000:
		return fmt.Sprintf("%d.%03d us", ns/1000, ns%1000)
	}
	return fmt.Sprintf("%d ns", ns)
}
