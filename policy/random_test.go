package policy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tricolor-policer/tricolor/marker"
)

// legalFile draws the text of a policy that is taken, and its file of prefixes.
func legalFile(t *rapid.T) (text string, f files) {
	pick := func(name string, choices ...string) string { return rapid.SampledFrom(choices).Draw(t, name) }
	text = "version: 1\n" + pick("flows", "", "flows: 64\n", "flows: 5k\n") + pick("malformed", "", "malformed: pass\n") + "profiles:\n" +
		"  a: { meter: token, cir: " + pick("a.cir", "8kbit", "10mbit") + ", cbs: 10ms, color: " + pick("a.color", "blind", "aware") + " }\n" +
		"  b: { meter: srtcm, cir: 1gbit, cbs: 0B, ebs: " + pick("b.ebs", "1B", "2MB") + " }\n" +
		"  c: { meter: trtcm, cir: 1mbit, cbs: 1kB, pir: 2.048mbit, pbs: 8KiB }\n" +
		"  d: { meter: rfc4115, cir: 1mbit, cbs: 1kB, ebs: 1kB, coupling: true }\n" +
		"  pa: { meter: token, cir: 1kpps, cbs: 10pkt }\n" +
		"  pb: { meter: srtcm, cir: 1mpps, cbs: 10ms, ebs: 1pkt }\n" +
		"classes:\n"
	n := rapid.IntRange(1, 6).Draw(t, "classes")
	counts := map[string]string{} // of the interface's buckets
	for i := range n {
		text += legalClass(t, pick, i, counts)
	}
	return text, files{"c.csv": "10.0.0.0/24,a\n10.0.1.0/24\n2001:db8::/56,b\n"}
}

func legalClass(t *rapid.T, pick func(string, ...string) string, i int, counts map[string]string) string {
	count := pick("count", "l3", "l2", "l1", "packets")
	profiles := []string{"a", "b", "c", "d"}
	if count == "packets" {
		profiles = []string{"pa", "pb"}
	}
	notIP := count != "l3" && rapid.IntRange(0, 4).Draw(t, "not IP") == 0
	pers := []string{"flow", "src", "dst", "\"src/24,56\"", "\"dst/0,128\"", "vlan", "dscp", "class"}
	var match []string
	file := false
	if notIP {
		pers = []string{"vlan", "class"}
		match = append(match, "ip: none")
	} else if count != "packets" && rapid.IntRange(0, 4).Draw(t, "file") == 0 {
		file = true
		match = append(match, "src: \"@c.csv\"")
	} else {
		match = append(match, pick("src", "", "src: 10.0.0.0/8", "src: [10.0.0.0/8, \"2001:db8::/32\"]", "dst: [192.0.2.1]"))
	}
	if !notIP {
		match = append(match, pick("ports", "", "dport: 53", "sport: [0-1023, 8080]", "fragment: true", "fragment: false", "proto: icmp"),
			pick("dscp", "", "dscp: ef", "dscp: [0, af11, 63]"))
	}
	match = append(match, pick("vlan", "", "vlan: 0", "vlan: [1-99, 4095]"), pick("mark", "", "mark: 5", "mark: [0, 4294967295]"))
	var chain []string
	for position := range rapid.IntRange(1, marker.MaxChain).Draw(t, "chain") {
		profile, per := pick("profile", profiles...), pick("per", pers...)
		if position == 0 && file {
			per = pick("file's per", "flow", "src")
		}
		if position > 0 && rapid.Bool().Draw(t, "interface") && (counts[profile] == "" || counts[profile] == count) {
			per, counts[profile] = "interface", count
			chain = append(chain, fmt.Sprintf("{ profile: %s, per: %s }", profile, per))
			break
		}
		chain = append(chain, fmt.Sprintf("{ profile: %s, per: %s }", profile, per))
	}
	text := fmt.Sprintf("  - name: c%d\n    count: %s\n    meters: [ %s ]\n", i, count, strings.Join(chain, ", "))
	var given []string
	for _, m := range match {
		if m != "" {
			given = append(given, m)
		}
	}
	if len(given) > 0 {
		text += "    match: { " + strings.Join(given, ", ") + " }\n"
	}
	verbs := []string{"pass", "drop", "{ mark: 1 }", "{ priority: 7, mark: 0 }", "{ pass: true, mark: 9 }"}
	if !notIP {
		verbs = append(verbs, "ecn-ce", "{ dscp: af12, ecn-ce: true }", "{ dscp: 63 }")
		text += pick("arrival", "", "    arrival: { ef: red, 3: yellow }\n", "    arrival: { default: yellow }\n")
	}
	text += "    yellow: " + pick("yellow", verbs...) + "\n    red: " + pick("red", verbs...) + "\n"
	return text + pick("overhead", "", "    overhead: -4\n", "    overhead: +65535\n")
}

// A legal policy is taken, compiles, changes nothing where it follows itself, and follows any other.
func TestLegalFiles(t *testing.T) {
	schema, err := compiledSchema()
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		text, f := legalFile(rt)
		p, err := parseText(text, f)
		if err != nil {
			rt.Fatalf("%s\n%v", text, err)
		}
		if err := schema.Validate(valueOf(t, nodeOf(t, text))); err != nil {
			rt.Fatalf("%s\n%v", text, err)
		}
		plan := planOf(t, text, f, nil)
		again := planOf(t, text, f, plan)
		if changes := Diff(plan, again); !Unchanged(changes) {
			rt.Fatalf("%s\n%q", text, changed(changes))
		}
		again.Generation = plan.Generation
		if diff := cmp.Diff(plan, again, prefixes); diff != "" {
			rt.Fatalf("%s\nplan (-first +second):\n%s", text, diff)
		}
		for _, c := range p.Classes {
			if lines := Contract(p, c.Name); len(lines) != 8 {
				rt.Fatalf("contract of %d lines: %q", len(lines), lines)
			}
		}
		p.Warn(Link{MTU: 1500, Largest: 65536, Speed: 1000})
	})
}

// Any two policies may follow each other: what both have keeps its numbers, and what is new takes none
// that the other has.
func TestLegalChanges(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		old, f := legalFile(rt)
		text, _ := legalFile(rt)
		flows := strings.NewReplacer("flows: 64\n", "", "flows: 5k\n", "")
		prev := planOf(t, flows.Replace(old), f, nil)
		p, err := parseText(flows.Replace(text), f)
		if err != nil {
			rt.Fatal(err)
		}
		next, err := p.CompileAfter(prev)
		if err != nil && strings.Contains(err.Error(), "the table was made for a policy without meters per") {
			rt.Skip("the table has no room at a later meter")
		}
		if err != nil {
			rt.Fatal(err)
		}
		for _, c := range Diff(prev, next) {
			if c.Part == "" || (c.Kind == Kept) != (c.Text == "") {
				rt.Fatalf("a change that says nothing: %+v", c)
			}
		}
		names := map[uint8]string{}
		for _, c := range prev.Classes {
			names[c.Stats] = c.Name
		}
		for _, c := range next.Classes {
			if name, used := names[c.Stats]; used && name != c.Name {
				rt.Fatalf("class %s has the counters of class %s", c.Name, name)
			}
			names[c.Stats] = c.Name
		}
		families, profiles := map[uint16]bucketID{}, map[uint32]bucketID{}
		for _, plan := range []*marker.Plan{prev, next} {
			for i := range plan.Classes {
				c := &plan.Classes[i]
				for position := range c.Meters {
					m, id := &c.Meters[position], bucketOfPlan(plan, c, position)
					if other, used := families[m.Family]; used && other != id {
						rt.Fatalf("family %d is of %+v and of %+v", m.Family, other, id)
					}
					if other, used := profiles[m.Profile]; used && other != id {
						rt.Fatalf("profile %d is of %+v and of %+v", m.Profile, other, id)
					}
					families[m.Family], profiles[m.Profile] = id, id
				}
			}
		}
	})
}

// No text makes Parse panic; what it refuses it places, what it takes is taken by all else.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		wholePolicy, everyPer, one(""), customers("src"), "version: [1", "a: &a [*a]", "? [", "- - - -", "\"\\x", "a: |\n  b", "%YAML 1.2\n---\n",
		one("    match: { ip: none }\n    count: l2\n"), one("    green: { mark: 010, dscp: ef }\n"), one("    arrival: { 1: red, default: green }\n"),
		"version: 1\nprofiles: { p: { meter: rfc4115, eir: 1mbit, ebs: 1s } }\nclasses: [ { name: 1, meters: [ {} ] } ]\n",
	} {
		f.Add(seed)
	}
	schema, err := compiledSchema()
	if err != nil {
		f.Fatal(err)
	}
	csv := files{"c.csv": "10.0.0.0/24,gold\n10.0.1.0/24\n"}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parseText(text, csv)
		if err != nil {
			for _, fault := range Faults(err) {
				if fault.Place.File == "" && !strings.HasPrefix(fault.Text, "and ") || fault.Text == "" {
					t.Errorf("a fault without a place: %+v", fault)
				}
			}
			if len(Faults(err)) == 0 {
				t.Errorf("an error without faults: %v", err)
			}
			return
		}
		if err := schema.Validate(valueOf(t, nodeOf(t, text))); err != nil {
			t.Errorf("taken, and not valid by the schema: %v", err)
		}
		plan := planOf(t, text, csv, nil)
		if changes := Diff(plan, planOf(t, text, csv, plan)); !Unchanged(changes) {
			t.Errorf("the same policy changes %q", changed(changes))
		}
		p.Warn(Link{MTU: 1500, Largest: 65536, Speed: 1})
		Describe(plan)
	})
}
