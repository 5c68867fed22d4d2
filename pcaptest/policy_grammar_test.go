package pcaptest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/tricolor-policer/tricolor/loader"
	"github.com/tricolor-policer/tricolor/marker"
)

// Policies made up for the frames of grammar: their addresses end in 0 to 5, their ports and VLANs are 0 to 3.

// The files of prefixes that made-up policies name: one for classes that count bytes, one for packets, one without
// profiles.
const (
	bytesCSV   = "bytes.csv"
	packetsCSV = "packets.csv"
	bareCSV    = "bare.csv"
)

var (
	byteProfiles   = []string{"token", "srtcm", "trtcm", "rfc4115"}
	packetProfiles = []string{"ptoken", "psrtcm", "ptrtcm", "prfc4115"}
)

// policyDraw draws policies, one after the other: the next may keep parts of the one before.
type policyDraw struct {
	*rapid.T
	profiles string
	classes  string
	csv      map[string]string
}

func (d *policyDraw) pick(name string, choices ...string) string {
	return rapid.SampledFrom(choices).Draw(d.T, name)
}

// one is true once in n times.
func (d *policyDraw) one(n int, name string) bool { return evenly(d.T, n, name) == n-1 }

// evenly draws a number below n, each as often: rapid's own numbers are small ones mostly.
func evenly(t *rapid.T, n int, name string) (number int) {
	for bit := 1; bit < 8*n; bit <<= 1 {
		if rapid.Bool().Draw(t, name) {
			number += bit
		}
	}
	return number % n
}

// next returns another policy.
func (d *policyDraw) next() policyFiles {
	keep := ""
	if d.classes != "" {
		keep = d.pick("keep", "classes", "profiles", "nothing")
	}
	if keep != "profiles" {
		d.profiles = d.meters(byteProfiles, []string{"8kbit", "800kbit", "8mbit", "80mbit"}, []string{"200B", "3kB", "1B", "20kB"}, "0B") +
			d.meters(packetProfiles, []string{"1pps", "50pps", "1kpps", "20kpps"}, []string{"1pkt", "4pkt", "20pkt", "2pkt"}, "0pkt")
	}
	if keep != "classes" {
		d.class()
	}
	d.csv = map[string]string{bytesCSV: d.prefixes(byteProfiles), packetsCSV: d.prefixes(packetProfiles), bareCSV: d.prefixes(nil)}
	return policyFiles{
		text: fmt.Sprintf("version: 1\nflows: 64\nmalformed: %s\nprofiles:\n%sclasses:\n%s", d.pick("malformed", "drop", "pass"), d.profiles, d.classes),
		csv:  d.csv,
	}
}

// meters returns the lines of four profiles, one of each meter.
func (d *policyDraw) meters(names, rates, sizes []string, zero string) (text string) {
	for i, name := range names {
		rate := func(from int) int { return rapid.IntRange(from, len(rates)-1).Draw(d.T, "rate") }
		low := rate(0)
		size := func(what string) string { return what + ": " + d.pick(what, sizes...) }
		line := []string{"meter: " + byteProfiles[i], "cir: " + rates[low], size("cbs")}
		switch byteProfiles[i] {
		case "srtcm":
			if d.one(6, "no C") {
				line[2] = "cbs: " + zero
			}
			line = append(line, size("ebs"))
		case "trtcm":
			line = append(line, "pir: "+rates[rate(low)], size("pbs"))
		case "rfc4115":
			switch d.pick("excess", "own rate", "coupled", "own rate and coupled") {
			case "own rate":
				line = append(line, "eir: "+rates[rate(0)], size("ebs"))
			case "coupled":
				line = append(line, size("ebs"), "coupling: true")
			default:
				line = append(line, "eir: "+rates[rate(0)], size("ebs"), "coupling: true")
			}
		}
		line = append(line, "color: "+d.pick("color", "blind", "aware"))
		text += fmt.Sprintf("  %s: { %s }\n", name, strings.Join(line, ", "))
	}
	return text
}

// prefixes returns a file of prefixes.
func (d *policyDraw) prefixes(profiles []string) (text string) {
	for _, prefix := range []string{"0.0.0.0/30", "0.0.0.2/32", "0.0.0.4/31", "0.0.0.5/32", "0.0.0.0/0", "::/126", "::2/128", "::4/127", "::/0"} {
		switch given := d.pick(prefix, "not", "bare", "profile"); {
		case given == "profile" && profiles != nil:
			text += prefix + "," + d.pick("profile", profiles...) + "\n"
		case given != "not" || prefix == "::4/127": // a file is never empty
			text += prefix + "\n"
		}
	}
	return text
}

// class draws the classes.
func (d *policyDraw) class() {
	d.classes = ""
	counts := map[string]string{} // of the interface's buckets, by profile
	for i := range rapid.IntRange(0, 4).Draw(d.T, "classes") {
		d.classes += d.oneClass(fmt.Sprintf("c%d", i), counts, true)
	}
	if d.classes == "" || !d.one(8, "no rest") {
		d.classes += d.oneClass("rest", counts, false)
	}
	if d.one(2, "not IP") {
		d.classes += fmt.Sprintf("  - { name: others, count: %s, match: { ip: none }, meters: [ { profile: %s, per: %s } ], red: %s }\n",
			d.pick("count", "l2", "l1"), d.pick("profile", byteProfiles...), d.pick("per", "vlan", "class"), d.pick("red", "drop", "{ mark: 4 }", "{ priority: 2 }"))
	}
}

// oneClass returns the lines of a class; matching: with a match.
func (d *policyDraw) oneClass(name string, counts map[string]string, matching bool) string {
	count := d.pick("count", "l3", "l2", "l1", "packets")
	profiles, file := byteProfiles, bytesCSV
	if count == "packets" {
		profiles, file = packetProfiles, packetsCSV
	}
	pers := []string{"flow", "src", "dst", "\"src/30,126\"", "\"dst/0,128\"", "vlan", "dscp", "class"}
	text := fmt.Sprintf("  - name: %s\n    count: %s\n", name, count)
	first := pers
	if matching {
		match, ofFile := d.match(file)
		text += fmt.Sprintf("    match: { %s }\n", match)
		switch ofFile {
		case "":
		case "src", "dst":
			first = []string{"flow", fmt.Sprintf("\"%s/32,128\"", ofFile)}
		}
	}
	var chain []string
	shared := map[string]bool{}
	for position := range rapid.IntRange(1, marker.MaxChain).Draw(d.T, "chain") {
		profile, choice := d.pick("profile", profiles...), pers
		if position == 0 {
			choice = first
		}
		per := d.pick("per", choice...)
		if (position > 0 || !strings.Contains(text, file)) && !shared[profile] && (counts[profile] == "" || counts[profile] == count) && d.one(3, "interface") {
			per, counts[profile], shared[profile] = "interface", count, true
		}
		chain = append(chain, fmt.Sprintf("{ profile: %s, per: %s }", profile, per))
	}
	text += "    meters: [ " + strings.Join(chain, ", ") + " ]\n"
	if d.one(3, "overhead") {
		text += "    overhead: " + d.pick("overhead", "-40", "+4", "+3000", "-65535") + "\n"
	}
	if d.one(3, "arrival") {
		text += "    arrival: " + d.pick("table", "{ default: yellow }", "{ default: red, 0: green, 1: yellow }", "{ ef: red, 3: yellow, af13: green }") + "\n"
	}
	for _, color := range []string{"green", "yellow", "red"} {
		if d.one(2, color) {
			text += "    " + color + ": " + d.pick("verb", "drop", "pass", "{ dscp: af12 }", "ecn-ce", "{ ecn-ce: true, dscp: 63 }", "{ mark: 9 }",
				"{ priority: 7 }", "{ dscp: ef, mark: 5, priority: 1 }") + "\n"
		}
	}
	return text
}

// match returns the keys of a match, and which address is looked up in the file, if one is.
func (d *policyDraw) match(file string) (text, ofFile string) {
	addresses := []string{"0.0.0.0/30", "0.0.0.2", "\"::/126\"", "[0.0.0.4/30, \"::/126\"]", "[0.0.0.0/32, 0.0.0.1, \"::1\"]", "\"@" + file + "\"", "\"@" + bareCSV + "\""}
	var given []string
	for _, side := range []string{"src", "dst"} {
		if !d.one(3, side) {
			continue
		}
		address := d.pick("address", addresses...)
		if strings.Contains(address, file) {
			if ofFile != "" {
				continue // both would give profiles
			}
			ofFile = side
		}
		given = append(given, side+": "+address)
		addresses = addresses[3:] // of both IP versions: the others might never match with this one
	}
	ports := false
	for _, side := range []string{"sport", "dport"} {
		if d.one(4, side) {
			ports = true
			given = append(given, side+": "+d.pick("ports", "0-1", "[0, 2-3]", "2"))
		}
	}
	if d.one(4, "proto") {
		if ports {
			given = append(given, "proto: "+d.pick("protocols", "udp", "[tcp, udp]", "[6, 132, 33, 136]"))
		} else {
			given = append(given, "proto: "+d.pick("protocols", "udp", "[tcp, 1, 17]", "[47, 50, 51, 58, 59]"))
		}
	}
	if d.one(4, "dscp") {
		given = append(given, "dscp: "+d.pick("code points", "[0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, ef, 33, 35, 37]", "[1, 3, 5, 7, 9, 11, 13, 15, af31, af32, af33, cs6, va]"))
	}
	if d.one(4, "vlan") {
		given = append(given, "vlan: "+d.pick("tags", "0", "[1-3, 100]", "0-2"))
	}
	if d.one(4, "mark") {
		given = append(given, "mark: "+d.pick("marks", "0", "7", "[7, 4294967295]"))
	}
	if !ports && d.one(4, "fragment") {
		given = append(given, "fragment: "+d.pick("fragments", "true", "false"))
	}
	if d.one(4, "ip") && !slices.ContainsFunc(given, func(s string) bool { return strings.Contains(s, "0.0.0.") || strings.Contains(s, "::") }) {
		given = append(given, "ip: "+d.pick("version", "4", "6", "[4, 6]"))
	}
	if len(given) == 0 {
		given = []string{"vlan: 0-4095"}
	}
	return strings.Join(given, ", "), ofFile
}

// drawCase draws a case. Its frames go by a number for each batch, which rapid makes shorter, and the case.
func drawCase(t *rapid.T) *policyCase {
	d := &policyDraw{T: t}
	c := &policyCase{}
	for range 1 + evenly(t, 4, "policies") {
		c.policies = append(c.policies, d.next())
	}
	now := uint64(1 << 40)
	for range 4 + evenly(t, 32, "batches") {
		g := grammar{Rand: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "frames"), 0))}
		slow := g.one(2)
		for range evenly(t, 48, "batch") {
			now += g.Uint64N(20_000)
			if !slow {
				now += g.Uint64N(3_000_000)
			}
			if g.one(40) {
				now -= g.Uint64N(20_000_000)
			}
			s := policyStep{now: now}
			if next := g.IntN(len(c.policies)); next > 0 && g.one(70) {
				s.apply, s.confirm = next, uint64(g.IntN(2))*(1+g.Uint64N(20_000_000))
			} else {
				s.frame = g.frame()
				// What a test run cannot take, the mirror may not see either: a header may lie there.
				s.frame.Data = slices.Clone(s.frame.Data[:min(len(s.frame.Data), loader.RunMax)])
				s.frame.Mark = uint32(g.pick(0, 0, 7))
			}
			c.steps = append(c.steps, s)
		}
	}
	return c
}
