package main

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tricolor-policer/tricolor/internal/units"
	"github.com/tricolor-policer/tricolor/marker"
	"github.com/tricolor-policer/tricolor/pcaptest"
)

// facts prints named facts, a line or a few each, within the width of a terminal.
type facts struct{ w io.Writer }

const factWidth, factName = 80, 10

// add prints a fact; the words that do not fit go on below its first.
func (f facts) add(name, format string, args ...any) {
	line, indent := fmt.Sprintf("%-*s", factName, name), strings.Repeat(" ", factName)
	width, fresh := factName, true
	for word := range strings.FieldsSeq(printable(fmt.Sprintf(format, args...))) {
		n := utf8.RuneCountInString(word)
		if !fresh && width+1+n > factWidth {
			fmt.Fprintln(f.w, line)
			line, width, fresh = indent, factName, true
		}
		if !fresh {
			line, width = line+" ", width+1
		}
		line, width, fresh = line+word, width+n, false
	}
	fmt.Fprintln(f.w, line)
}

// printExplained prints why a packet fared as it did.
func printExplained(w io.Writer, file string, x *pcaptest.Explained, names *bucketNames) error {
	f := facts{w}
	fmt.Fprintf(w, "packet %d of %s: %s\n\n", x.Packet.Number, printable(file), fate(x.Explanation))
	f.add("time", "%s, %s", wallTime(x.Now), sinceFirst(x.Now, x.First))
	if x.Applied > 0 {
		f.add("policy", "after %s (--then)", plural(uint64(x.Applied), "change", "changes"))
	}
	explainHeaders(f, x)
	explainClass(f, x.Explanation)
	if x.Outcome.Kind == marker.Metered {
		for i := range x.Chain {
			fmt.Fprintln(w)
			if err := explainMeter(f, x.Explanation, i, names); err != nil {
				return err
			}
		}
		fmt.Fprintln(w)
		explainColor(f, x.Explanation)
	}
	f.add("done", "%s", doneTo(x))
	return nil
}

// fate is what became of a packet, in a few words.
func fate(e *marker.Explanation) string {
	what := e.Outcome.Kind.String()
	switch e.Outcome.Kind {
	case marker.Metered:
		what = e.Outcome.Color.String()
	case marker.Unmatched:
		what = "of no class"
	case marker.NotIP:
		what = "not IP"
	}
	if e.Outcome.Dropped {
		return what + ", dropped"
	}
	return what + ", let through"
}

func wallTime(ns uint64) string {
	return time.Unix(int64(ns/marker.Nano), int64(ns%marker.Nano)).UTC().Format("2006-01-02 15:04:05.000000000 UTC")
}

func sinceFirst(now, first uint64) string {
	if now < first {
		return duration(first-now) + " before the first packet"
	}
	return duration(now-first) + " after the first packet"
}

// explainClass says which rule matched, and what the class charges.
func explainClass(f facts, e *marker.Explanation) {
	if e.Outcome.Kind == marker.Malformed {
		return
	}
	if e.Outcome.Kind != marker.Metered {
		f.add("class", "none: no rule of %d matches", len(e.Plan.Rules))
		return
	}
	c := &e.Plan.Classes[e.Outcome.Class]
	f.add("class", "%s, by rule %d of %d: %s", c.Name, e.Rule+1, len(e.Plan.Rules), ruleWords(e.Plan, &e.Plan.Rules[e.Rule]))
	from := "as all that is not IP"
	if e.Headers.Reading == marker.ReadIP {
		from = fmt.Sprintf("DSCP %s in the class's arrival table", dscpWords(e.Headers.DSCP))
	}
	f.add("arrival", "%v: %s", e.Outcome.Arrival, from)
	f.add("cost", "%s", chargeWords(e))
}

// chargeWords says what a packet costs, and how that is made: "64 B: the frame of 60 B, overhead +4 (count l2)".
func chargeWords(e *marker.Explanation) string {
	c := &e.Charge
	what, n := "the IP packet", c.IP
	ethernet := e.Headers.Link == marker.LinkEthernet
	if c.Count != marker.CountL3 && ethernet || e.Headers.Reading != marker.ReadIP {
		what = "the frame"
	}
	if c.Count == marker.CountL2 || c.Count == marker.CountL1 {
		n = c.Frame
	}
	made := fmt.Sprintf("%s of %s B", what, units.FormatCount(n))
	super := c.Segments > 1
	switch {
	case c.Count == marker.CountPackets && !super:
		made = "one packet"
	case c.Count == marker.CountPackets:
		made = "its packets on the wire"
	case c.Count != marker.CountL3 && !ethernet:
		made += " (there is no link header)"
	case c.Count != marker.CountL3 && !super && n > uint64(e.Headers.Length):
		made += fmt.Sprintf(" (%s B here)", units.FormatCount(uint64(e.Headers.Length)))
	}
	if c.Count == marker.CountL1 {
		made += ", 24 B for preamble, FCS and gap"
	}
	if c.Overhead != 0 {
		made += fmt.Sprintf(", overhead %+d", c.Overhead)
	}
	if super {
		made += fmt.Sprintf(", for each of %s segments, which share %s B in parts of %s B behind %s B of headers",
			units.FormatCount(uint64(c.Segments)), units.FormatCount(uint64(c.Payload)), units.FormatCount(uint64(c.Size)), units.FormatCount(uint64(c.Header)))
	}
	if c.Cost == marker.CostMax {
		made += ", and more is never charged"
	}
	return fmt.Sprintf("%s: %s (count %v)", amount(c.Cost*marker.Nano, c.Count), made, c.Count)
}

// amount prints nanobytes (nanopackets) exactly, with as many figures as it takes: "1,500 B", "0.5 packets".
func amount(nano uint64, count marker.Count) string {
	text := strings.TrimRight(tokens(nano), "0")
	unit := " B"
	if count == marker.CountPackets {
		unit = " packets"
		if nano == marker.Nano {
			unit = " packet"
		}
	}
	return strings.TrimSuffix(text, ".") + unit
}

// tokens prints nanobytes as bytes, all nine decimals.
func tokens(nano uint64) string {
	return fmt.Sprintf("%s.%09d", units.FormatCount(nano/marker.Nano), nano%marker.Nano)
}

// explainColor says how the colour came about, and when it would have been a better one.
func explainColor(f facts, e *marker.Explanation) {
	color := e.Outcome.Color
	text := color.String()
	if len(e.Chain) > 1 {
		var colors []string
		for i := range e.Chain {
			colors = append(colors, e.Chain[i].Color.String())
		}
		text += ": the worst of " + strings.Join(colors, ", ")
	}
	if color == marker.Red {
		text += "; red spends nothing"
		if len(e.Chain) > 1 {
			text += " anywhere"
		}
	}
	f.add("colour", "%s", text)
	if color == marker.Green {
		return
	}
	var when []string
	for want := color; want > marker.Green; want-- {
		better := want - 1
		w := e.Waits[better]
		if better == marker.Yellow && (!givesYellow(e) || w == e.Waits[marker.Green] && !w.Never) { // green says it
			continue
		}
		if w.Never { // and what is better still neither
			when = append(when, orBetter(better)+" never")
			break
		}
		when = append(when, orBetter(better)+" after "+wait(w.NS))
	}
	f.add("later", "%s, if nothing else came", strings.Join(when, ", "))
}

// givesYellow reports whether the chain has a meter that knows yellow.
func givesYellow(e *marker.Explanation) bool {
	for i := range e.Chain {
		if e.Chain[i].Profile.Meter != marker.Token {
			return true
		}
	}
	return false
}

// doneTo says what was done to the packet.
func doneTo(x *pcaptest.Explained) string {
	e := x.Explanation
	switch {
	case e.Outcome.Kind == marker.NotIP, e.Outcome.Kind == marker.Unmatched:
		return "let through untouched"
	case e.Outcome.Dropped && e.Outcome.Kind == marker.Malformed:
		return "drop (malformed); nothing is spent"
	case e.Outcome.Dropped:
		return "drop"
	case e.Outcome.Kind == marker.Malformed:
		return "pass (malformed), untouched; nothing is spent"
	}
	text := e.Action.String()
	if e.Headers.Reading != marker.ReadIP || e.Action.Verbs&(marker.VerbDSCP|marker.VerbCE) == 0 {
		if text == "pass" {
			text += ", unmarked"
		}
		return text
	}
	if !e.Changed {
		return text + ": the packet is so already, and not written"
	}
	before, after := e.TOS[0], e.TOS[1]
	if before>>2 != after>>2 {
		text += fmt.Sprintf("; DSCP %s → %s", dscpWords(before>>2), dscpWords(after>>2))
	} else {
		text += fmt.Sprintf("; DSCP stays %s", dscpWords(before>>2))
	}
	if before&3 != after&3 {
		text += fmt.Sprintf(", ECN %s → %s", ecnNames[before&3], ecnNames[after&3])
	} else {
		text += fmt.Sprintf(", ECN stays %s", ecnNames[before&3])
	}
	if e.Headers.Version == 4 {
		return text + fmt.Sprintf(", header checksum 0x%04x → 0x%04x", e.Checksum[0], e.Checksum[1])
	}
	return text + " (IPv6 has no header checksum)"
}

var ecnNames = [4]string{"Not-ECT", "ECT(1)", "ECT(0)", "CE"}

// dscpWords is a code point's name and number: "af12 (12)".
func dscpWords(d uint8) string {
	name := marker.DSCPName(d)
	if number := fmt.Sprint(d); name != number {
		return fmt.Sprintf("%s (%s)", name, number)
	}
	return name
}
