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

// printColors prints a table of a class's counters by colour; with their mean rates
// where meanRate is not nil.
func printColors(w io.Writer, c *marker.ClassStats, meanRate func(bytes uint64) string) error {
	packets, bytes := total(c.Packets), total(c.Bytes)
	t := newNumbers(w)
	row := func(name string, p, b uint64) {
		cells := []string{name, units.FormatCount(p), units.FormatCount(b), share(b, bytes)}
		if meanRate != nil {
			cells = append(cells, meanRate(b))
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

// classRow is a class's counters under its name.
type classRow struct {
	name  string
	stats *marker.ClassStats
}

// classRows are a plan's classes.
func classRows(plan *marker.Plan, s *marker.Stats) (rows []classRow) {
	for i := range s.Classes {
		rows = append(rows, classRow{plan.Classes[i].Name, &s.Classes[i]})
	}
	return rows
}

// printClasses prints a table of all classes' counters by colour, with their total; with their mean rates
// as printColors.
func printClasses(w io.Writer, classes []classRow, meanRate func(bytes uint64) string) error {
	t := newNumbers(w)
	heads := []string{"colour", "packets", "bytes", "share of bytes"}
	if meanRate != nil {
		heads = append(heads, "mean rate")
	}
	t.named("class", heads...)
	var all marker.ClassStats
	for _, c := range classes {
		for color := range marker.Colors {
			all.Packets[color] += c.stats.Packets[color]
			all.Bytes[color] += c.stats.Bytes[color]
		}
	}
	whole := total(all.Bytes)
	row := func(class, name string, packets, bytes uint64) {
		cells := []string{name, units.FormatCount(packets), units.FormatCount(bytes), share(bytes, whole)}
		if meanRate != nil {
			cells = append(cells, meanRate(bytes))
		}
		t.named(class, cells...)
	}
	for _, c := range append(classes, classRow{"all classes", &all}) {
		name := printable(c.name)
		packets := total(c.stats.Packets)
		if packets == 0 {
			row(name, "none", 0, 0)
			continue
		}
		for color := range marker.Colors {
			row(name, color.String(), c.stats.Packets[color], c.stats.Bytes[color])
		}
		row(name, "total", packets, total(c.stats.Bytes))
	}
	return t.flush()
}

// remarks says what else the counters hold, where it is not zero.
func remarks(plan *marker.Plan, s *marker.Stats) []string {
	var lines []string
	before := ""
	add := func(n uint64, text string) {
		if n > 0 {
			lines = append(lines, before+units.FormatCount(n)+" "+text)
		}
	}
	add(s.Port.Unmatched, "unmatched: of no class; passed")
	add(s.Port.NotIP, "not IP: passed untouched")
	add(s.Port.Malformed, "malformed")
	add(s.Port.LongChain, "with more IPv6 extension headers than are walked: policed without ports")
	add(s.Port.Unread, "unread: dropped, since their headers could not be pulled within reach (no memory)")
	for i := range s.Classes {
		c := &s.Classes[i]
		if len(s.Classes) > 1 {
			before = "class " + printable(plan.Classes[i].Name) + ": "
		}
		add(c.Overflow, "in the overflow bucket: the table was full")
		add(c.Contended, "contended: red, since a bucket could not be locked in time")
		add(c.ClockBack, "clock back: earned nothing, since the bucket had seen a later time")
	}
	return lines
}

// stageUse is how full the slots of one chain position are.
type stageUse struct {
	Meter int    `json:"meter"` // position in the chain, from 1
	Slots uint64 `json:"slots"`
	Used  uint64 `json:"used"`
}

// String says how full they are: "64 slots, 1 used (1.6 %)".
func (s stageUse) String() string {
	return fmt.Sprintf("%s slots, %s used (%s)", units.FormatCount(s.Slots), units.FormatCount(s.Used), share(s.Used, s.Slots))
}

// keyedStages picks the chain positions up to the last at which a plan has keys; at least the first.
func keyedStages(plan *marker.Plan, all [marker.MaxChain]stageUse) []stageUse {
	last := 0
	for i := range plan.Classes {
		for position, m := range plan.Classes[i].Meters {
			if m.Per < marker.PerClass {
				last = max(last, position)
			}
		}
	}
	return all[:last+1]
}

// overflowShare prints the part of packets that met an overflow bucket.
func overflowShare(s *marker.Stats) string {
	var packets, overflow uint64
	for i := range s.Classes {
		packets += total(s.Classes[i].Packets)
		overflow += s.Classes[i].Overflow
	}
	return share(overflow, packets) + " of packets in overflow"
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
