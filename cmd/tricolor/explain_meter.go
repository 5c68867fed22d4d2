package main

import (
	"fmt"
	"strings"

	"github.com/tricolor-policer/tricolor/internal/units"
	"github.com/tricolor-policer/tricolor/marker"
)

// tokenNames are what RFCs call a meter's second tokens, and its burst and rate.
func tokenNames(m marker.MeterType) (second, burst, rate string) {
	switch m {
	case marker.SRTCM:
		return "Te", "EBS", ""
	case marker.TRTCM:
		return "Tp", "PBS", "PIR"
	case marker.RFC4115:
		return "Te", "EBS", "EIR"
	}
	return "", "", ""
}

// profileWords is a profile as a policy has it.
func profileWords(p *marker.Profile, count marker.Count) string {
	packets := count == marker.CountPackets
	burst := func(nano uint64) string { return units.Size{Amount: nano / marker.Nano, Packets: packets}.String() }
	words := []string{fmt.Sprintf("%v CIR %s", p.Meter, units.FormatRate(p.CIR, packets)), "CBS " + burst(p.CBS)}
	if _, name, rate := tokenNames(p.Meter); name != "" {
		if rate != "" {
			words = append(words, rate+" "+units.FormatRate(p.XIR, packets))
		}
		words = append(words, name+" "+burst(p.XBS))
	}
	if p.Coupling {
		words = append(words, "coupled")
	}
	if p.Aware {
		return strings.Join(append(words, "aware"), ", ")
	}
	return strings.Join(append(words, "blind"), ", ")
}

// explainMeter says what one meter of the chain made of the packet.
func explainMeter(f facts, e *marker.Explanation, i int, names *bucketNames) error {
	j := &e.Chain[i]
	name := ""
	if j.Profile.Name != "" {
		name = j.Profile.Name + ": "
	}
	line := ""
	if j.FromLine {
		line = "; the profile is that of the prefix's line in the file"
	}
	f.add(numbered(e, i), "%s%s%s", name, profileWords(&j.Profile, e.Charge.Count), line)
	f.add("bucket", "%s, shared by %s", names.name(j.Key, false), sharedBy(e, j))
	f.add("found", "%s", foundWords(e, j, names))
	if err := explainTokens(f, e, j); err != nil {
		return err
	}
	text := j.Color.String()
	if j.Profile.Aware {
		from := "on arrival"
		if i > 0 {
			from = "so far"
		}
		text += fmt.Sprintf(" (%v %s)", j.Arrival, from)
	}
	f.add("judged", "%s", text)
	for want := range min(j.Color, marker.Red) {
		if want == marker.Yellow && j.Profile.Meter == marker.Token {
			break
		}
		f.add("  "+want.String(), "%s", shortWords(e, i, want))
	}
	return nil
}

// numbered numbers the meters of a chain.
func numbered(e *marker.Explanation, i int) string {
	if len(e.Chain) == 1 {
		return "meter"
	}
	return fmt.Sprintf("meter %d", i+1)
}

// sharedBy says whose packets share the bucket.
func sharedBy(e *marker.Explanation, j *marker.Judgement) string {
	class := fmt.Sprintf("class %s", e.Plan.Classes[e.Outcome.Class].Name)
	switch j.Meter.Per {
	case marker.PerFlow:
		if e.Headers.Fragment {
			return "the fragments of " + class + " with these addresses and this protocol"
		}
		return "packets of " + class + " with these addresses, protocol and ports"
	case marker.PerSrc:
		return "packets of " + class + " from there"
	case marker.PerDst:
		return "packets of " + class + " to there"
	case marker.PerVLAN:
		return "packets of " + class + " in that VLAN"
	case marker.PerDSCP:
		return "packets of " + class + " that arrive with that DSCP"
	case marker.PerClass:
		return "all packets of " + class
	default:
		return "all classes that name this profile per interface"
	}
}

// foundWords says how the packet came to its bucket.
func foundWords(e *marker.Explanation, j *marker.Judgement, names *bucketNames) string {
	text := ""
	switch {
	case j.Found == marker.FoundOverflow:
		text = "the table has no room for this key: metered in the overflow bucket, with all such; "
		if j.First {
			return text + "its first packet"
		}
	case j.Found == marker.FoundReused:
		return fmt.Sprintf("new, in the place of %s, which was full and is forgotten; %s", names.name(j.Forgotten, false), startsWith(j))
	case j.First:
		return "new: its first packet; " + startsWith(j)
	}
	text += plural(total(j.Packets), "packet", "packets") + " before ("
	for color, n := range j.Packets {
		if color > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%s %v", units.FormatCount(n), marker.Color(color))
	}
	text += ")"
	switch last := j.Before.Last; {
	case last < e.Now:
		text += ", last counted " + duration(e.Now-last) + " ago"
	case last > e.Now:
		text += ", last counted " + duration(last-e.Now) + " ahead of this packet's time"
	default:
		text += ", last counted at this very time"
	}
	if j.Settled {
		text += "; its profile has changed since"
	}
	return text
}

// startsWith says what a new bucket holds.
func startsWith(j *marker.Judgement) string {
	if j.Profile.Full(&j.Before) {
		return "it starts full"
	}
	return "it starts with what the overflow bucket holds"
}

// explainTokens prints the bucket before and after.
func explainTokens(f facts, e *marker.Explanation, j *marker.Judgement) error {
	second, _, _ := tokenNames(j.Profile.Meter)
	unit := "B"
	if e.Charge.Count == marker.CountPackets {
		unit = "packets"
	}
	var table strings.Builder
	t := newNumbers(&table)
	cells := func(name string, c, x string, fillC, fillX string) {
		row := []string{name, c, fillC}
		if second != "" {
			row = append(row, x, fillX)
		}
		t.row(row...)
	}
	held := func(name string, b *marker.Bucket) {
		cells(name, tokens(b.Tc), tokens(b.Tx), fill(b.Tc, j.Profile.CBS), fill(b.Tx, j.Profile.XBS))
	}
	change := func(name string, from, to *marker.Bucket) {
		cells(name, signed(from.Tc, to.Tc), signed(from.Tx, to.Tx), "", "")
	}
	cells("tokens", "Tc "+unit, second+" "+unit, "of CBS", "of "+map[string]string{"Te": "EBS", "Tp": "PBS"}[second])
	held("before", &j.Before)
	change("earned", &j.Before, &j.AtNow)
	held("at its time", &j.AtNow)
	change("spent", &j.AtNow, &j.After)
	held("after", &j.After)
	if err := t.flush(); err != nil {
		return err
	}
	for line := range strings.Lines(table.String()) {
		fmt.Fprintln(f.w, strings.TrimRight(line, " \n"))
	}
	return nil
}

func fill(tokens, burst uint64) string {
	if burst == 0 {
		return "-"
	}
	return share(tokens, burst)
}

// signed prints a change of tokens.
func signed(from, to uint64) string {
	switch {
	case to > from:
		return "+" + tokens(to-from)
	case to < from:
		return "-" + tokens(from-to)
	}
	return "0"
}

// shortWords says what lacks for a colour, and when it would be there.
func shortWords(e *marker.Explanation, i int, want marker.Color) string {
	j := &e.Chain[i]
	s := &j.Short[want]
	if s.Need == marker.NeedArrival {
		if i > 0 {
			return fmt.Sprintf("not after a meter that says %v", j.Arrival)
		}
		return fmt.Sprintf("never: it arrives %v", j.Arrival)
	}
	second, burst, _ := tokenNames(j.Profile.Meter)
	var lacks []string
	if s.C > 0 {
		lacks = append(lacks, "Tc is "+amount(s.C, e.Charge.Count)+" short")
	}
	if s.X > 0 {
		lacks = append(lacks, second+" is "+amount(s.X, e.Charge.Count)+" short")
	}
	if s.C > 0 && e.Outcome.Cost*marker.Nano > j.Profile.CBS {
		burst = "CBS"
	}
	text := strings.Join(lacks, ", ")
	switch s.Need {
	case marker.NeedBurst:
		return text + "; never: the packet is larger than " + burst
	case marker.NeedRate:
		return text + "; never: nothing earns it"
	}
	return fmt.Sprintf("%s; %s %s later", text, orBetter(want), wait(s.Wait))
}

// orBetter is a colour, and those that are better.
func orBetter(c marker.Color) string {
	if c == marker.Green {
		return c.String()
	}
	return c.String() + " or better"
}

// wait prints ns, with the round figure where they are many: "183,219,897 ns (183.219 ms)".
func wait(ns uint64) string {
	if ns < 100_000 {
		return units.FormatCount(ns) + " ns"
	}
	return fmt.Sprintf("%s ns (%s)", units.FormatCount(ns), duration(ns))
}
