package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tricolor-policer/tricolor/marker"
)

// planOf compiles a file's text after another plan.
func planOf(t *testing.T, text string, f files, prev *marker.Plan) *marker.Plan {
	t.Helper()
	p, err := parseText(text, f)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := p.CompileAfter(prev)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// What a change says, but for what is kept.
func changed(changes []Change) (lines []string) {
	for _, c := range changes {
		if c.Kind != Kept {
			lines = append(lines, c.String())
		}
	}
	return lines
}

var everyKind = files{"c.csv": "10.0.0.0/24,gold\n10.0.1.0/24\n"}

const everyPer = `version: 1
profiles:
  gold: { meter: token, cir: 1gbit, cbs: 10ms }
  p: { meter: token, cir: 10mbit, cbs: 10ms }
classes:
  - name: a
    match: { src: "@c.csv" }
    meters: [ { profile: p, per: src }, { profile: p, per: class }, { profile: gold, per: interface } ]
  - name: b
    match: { vlan: [1, 2] }
    count: l2
    meters: [ { profile: p, per: vlan }, { profile: p, per: "dst/24,56" } ]
  - name: c
    meters: [ { profile: p, per: flow }, { profile: gold, per: interface } ]
`

func TestSamePolicyChangesNothing(t *testing.T) {
	for name, text := range map[string]string{"the specification's": wholePolicy, "every per": everyPer} {
		first := planOf(t, text, everyKind, nil)
		second := planOf(t, text, everyKind, first)
		changes := Diff(first, second)
		if !Unchanged(changes) {
			t.Errorf("%s: %q", name, changed(changes))
		}
		if second.Generation != first.Generation+1 {
			t.Errorf("%s: generation %d follows %d", name, second.Generation, first.Generation)
		}
		second.Generation = first.Generation
		if diff := cmp.Diff(first, second, prefixes); diff != "" {
			t.Errorf("%s: plan (-first +second):\n%s", name, diff)
		}
	}
}

// Each number is of one thing: two meters share none but where they share the bucket.
func TestNumbersAreOfOneThing(t *testing.T) {
	plan := planOf(t, everyPer, everyKind, nil)
	g := plan.Geometry
	a, b, c := plan.Classes[0].Meters, plan.Classes[1].Meters, plan.Classes[2].Meters
	all := []marker.Meter{a[0], a[1], a[2], b[0], b[1], c[0]}
	if diff := cmp.Diff(a[2], c[1]); diff != "" {
		t.Errorf("the interface's meter, in two classes and at two positions (-a +c):\n%s", diff)
	}
	taken := map[string]bool{}
	for _, m := range all {
		for _, key := range []string{"family " + string(rune(m.Family)), "profile " + string(rune(m.Profile))} {
			if taken[key] {
				t.Errorf("%s is taken twice: %+v", key, m)
			}
			taken[key] = true
		}
	}
	if a[1].Reserved == a[2].Reserved || a[1].Reserved < g.Reserved || a[2].Reserved >= g.Reserved+g.Profiles {
		t.Errorf("reserved sets %d and %d of %+v", a[1].Reserved, a[2].Reserved, g)
	}
	overflows := map[uint32]bool{}
	for i, profile := range plan.Profiles {
		if overflows[profile.Overflow] || profile.Overflow < g.Reserved+g.Profiles || profile.Overflow >= g.Sets {
			t.Errorf("profile %d overflows into set %d", i, profile.Overflow)
		}
		overflows[profile.Overflow] = true
	}
	if plan.NextFamily != 6 {
		t.Errorf("next family %d", plan.NextFamily)
	}
}

// What becomes of everything where one thing is written otherwise.
func TestDiff(t *testing.T) {
	for name, test := range map[string]struct {
		change []string // old, new, …
		want   []string
	}{
		"a rate": {[]string{"cir: 10mbit", "cir: 20mbit"}, []string{
			"class a, meter 1 (per src): changed: token CIR 10 Mbit/s, CBS 12500 B, blind → token CIR 20 Mbit/s, CBS 25 kB, blind; its buckets keep their tokens, up to the new bursts",
			"class a, meter 2 (per class): changed: …",
			"class b, meter 1 (per vlan): changed: …",
			"class b, meter 2 (per dst/24,56): changed: …",
			"class c, meter 1 (per flow): changed: …",
		}},
		"a line's rate": {[]string{"cir: 1gbit", "cir: 2gbit"}, []string{
			"class a, meter 1 (per src): changed: gold: token CIR 1 Gbit/s, CBS 1250 kB, blind → token CIR 2 Gbit/s, CBS 2500 kB, blind; …",
			"class a, meter 3 (per interface): changed: token CIR 1 Gbit/s, …",
			"class c, meter 2 (per interface): changed: …",
		}},
		"a meter of another type": {[]string{"p: { meter: token, cir: 10mbit, cbs: 10ms }", "p: { meter: srtcm, cir: 10mbit, cbs: 10ms, ebs: 10ms }"}, []string{
			"class a, meter 1 (per src): changed: token CIR 10 Mbit/s, CBS 12500 B, blind → srtcm CIR 10 Mbit/s, CBS 12500 B, EBS 12500 B, blind; …",
			"class a, meter 2 …", "class b, meter 1 …", "class b, meter 2 …", "class c, meter 1 …",
		}},
		"malformed": {[]string{"version: 1", "version: 1\nmalformed: pass"}, []string{"malformed: changed: drop → pass"}},
		"a match":   {[]string{"vlan: [1, 2]", "vlan: [1, 3]"}, []string{"class b: changed: it matches other packets"}},
		"a verb":    {[]string{"count: l2", "count: l2\n    yellow: { ecn-ce: true, dscp: af12 }"}, []string{"class b: changed: yellow pass → ecn-ce,dscp=af12"}},
		"overhead":  {[]string{"count: l2", "count: l2\n    overhead: -4"}, []string{"class b: changed: overhead +0 → -4"}},
		"arrival":   {[]string{"count: l2", "count: l2\n    arrival: { ef: red }"}, []string{"class b: changed: other DSCPs arrive yellow or red"}},
		"a key": {[]string{"per: vlan", "per: dscp"}, []string{
			"class b, meter 1 (per dscp): new: its buckets start full: per vlan → per dscp",
			"class b, meter 1 (per vlan): gone: its buckets are lost",
		}},
		"a prefix": {[]string{"dst/24,56", "dst/24,48"}, []string{
			"class b, meter 2 (per dst/24,48): new: its buckets start full: per dst/24,56 → per dst/24,48",
			"class b, meter 2 (per dst/24,56): gone: its buckets are lost",
		}},
		"a unit": {[]string{"count: l2", "count: l1"}, []string{
			"class b: changed: count l2 → l1",
			"class b, meter 1 (per vlan): new: its buckets start full: count l2 → l1",
			"class b, meter 2 (per dst/24,56): new: its buckets start full: count l2 → l1",
			"class b, meter 1 (per vlan): gone: its buckets are lost",
			"class b, meter 2 (per dst/24,56): gone: its buckets are lost",
		}},
		"a name": {[]string{"name: b", "name: d"}, []string{
			"class d: new: its counters start at 0",
			"class d, meter 1 (per vlan): new: its buckets start full",
			"class d, meter 2 (per dst/24,56): new: its buckets start full",
			"class b: gone: its buckets and counters are lost; its packets go to a later class that matches, else pass unmetered",
		}},
		"a profile's name alone": {[]string{"  p: {", "  r: {", "profile: p", "profile: r"}, nil},
		"the interface's profile": {[]string{"  gold: {", "  link: {", "profile: gold", "profile: link", "name: a\n    match: { src: \"@c.csv\" }", "name: a\n    match: { vlan: 9 }"}, []string{
			"class a: changed: it matches other packets",
			"class a, meter 3 (per interface): new: its buckets start full: the interface's bucket is that of another profile",
			"class a, meter 3 (per interface): gone: its buckets are lost",
			"class c, meter 2 (per interface): new: its buckets start full: the interface's bucket is that of another profile",
			"class c, meter 2 (per interface): gone: its buckets are lost",
		}},
		"one meter less": {[]string{"{ profile: p, per: flow }, { profile: gold, per: interface }", "{ profile: p, per: flow }"}, []string{
			"class c, meter 2 (per interface): gone: the class leaves it; other classes still share the bucket",
		}},
		"one meter more": {[]string{"{ profile: p, per: \"dst/24,56\" }", "{ profile: p, per: \"dst/24,56\" }, { profile: gold, per: interface }", "count: l2\n", "count: l3\n"}, []string{
			"class b: changed: count l2 → l3",
			"class b, meter 1 (per vlan): new: …",
			"class b, meter 2 (per dst/24,56): new: …",
			"class b, meter 3 (per interface): changed: the class joins the bucket of others; its buckets keep their tokens, up to the new bursts",
			"class b, meter 1 (per vlan): gone: …",
			"class b, meter 2 (per dst/24,56): gone: …",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			prev := planOf(t, everyPer, everyKind, nil)
			next := planOf(t, strings.NewReplacer(test.change...).Replace(everyPer), everyKind, prev)
			got := changed(Diff(prev, next))
			for i, want := range test.want {
				if begin, cut := strings.CutSuffix(want, "…"); cut && i < len(got) && strings.HasPrefix(got[i], begin) {
					got[i] = want
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
		})
	}
}

// Classes that move keep their buckets and counters.
func TestDiffOrder(t *testing.T) {
	two := head + "  - { name: a, match: { vlan: 1 }, meters: [ { profile: p } ] }\n  - { name: b, match: { vlan: 2 }, meters: [ { profile: p, per: class } ] }\n"
	turned := head + "  - { name: b, match: { vlan: 2 }, meters: [ { profile: p, per: class } ] }\n  - { name: a, match: { vlan: 1 }, meters: [ { profile: p } ] }\n"
	prev := planOf(t, two, nil, nil)
	next := planOf(t, turned, nil, prev)
	if diff := cmp.Diff([]string{"order of classes: changed: a, b → b, a: the first that matches takes a packet"}, changed(Diff(prev, next))); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	for i := range 2 {
		if diff := cmp.Diff(prev.Classes[i], next.Classes[1-i]); diff != "" {
			t.Errorf("class %d (-prev +next):\n%s", i, diff)
		}
	}
	if slices.Equal(prev.Rules, next.Rules) {
		t.Error("the rules did not move")
	}
}

// New things take no number that the plan before uses, and leave none with an old meaning behind.
func TestNewNumbers(t *testing.T) {
	with := func(names ...string) string {
		text := head
		for _, name := range names {
			text += "  - { name: " + name + ", match: { vlan: 1 }, meters: [ { profile: p, per: class } ] }\n"
		}
		return text
	}
	first := planOf(t, with("a", "b"), nil, nil)
	second := planOf(t, with("c", "b", "d"), nil, first)
	third := planOf(t, with("a"), nil, second)
	for _, test := range []struct {
		plan    *marker.Plan
		class   int
		stats   uint8
		profile uint32
		family  uint16
	}{
		{first, 0, 0, 0, 0}, {first, 1, 1, 1, 1},
		{second, 0, 2, 2, 2}, {second, 1, 1, 1, 1}, {second, 2, 3, 3, 3},
		{third, 0, 0, 0, 4},
	} {
		c := &test.plan.Classes[test.class]
		m := &c.Meters[0]
		if c.Stats != test.stats || m.Profile != test.profile || m.Family != test.family {
			t.Errorf("generation %d, class %s: counters %d, profile %d, family %d; want %+v", test.plan.Generation, c.Name, c.Stats, m.Profile, m.Family, test)
		}
		if want := test.plan.Geometry.Reserved + test.profile; m.Reserved != want {
			t.Errorf("generation %d, class %s: set %d, want %d", test.plan.Generation, c.Name, m.Reserved, want)
		}
	}
	if hole := second.Profiles[0]; !hole.Gone || hole.CBS != 0 || hole.Name != "" || hole.Overflow != second.Geometry.OverflowSet(0, 0) {
		t.Errorf("what is left at a number of nothing: %+v", hole)
	}
}

// Every number may change at once.
func TestWholeChange(t *testing.T) {
	text := func(letter string) string {
		text := head
		for i := range 64 {
			text += "  - { name: " + fmt.Sprint(letter, i) + ", match: { vlan: 1 }, meters: [ { profile: p, per: class }, { profile: p, per: class }, { profile: p, per: class } ] }\n"
		}
		return text
	}
	plan := planOf(t, text("a"), nil, nil)
	for _, letter := range []string{"b", "a", "c"} {
		plan = planOf(t, text(letter), nil, plan)
	}
}

func TestCompileAfterRefused(t *testing.T) {
	prev := planOf(t, one(""), nil, nil)
	p, err := parseText(one("")+"flows: 64\n", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.CompileAfter(prev)
	want := "p.yaml:8:8: flows: 64 bucket slots are asked for, and the table has 1048576: changing flows needs detach; its buckets are then lost"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	chain := strings.Replace(one(""), "{ profile: p, per: flow }", "{ profile: p, per: flow }, { profile: p, per: vlan }", 1)
	_, err = mustParse(t, chain).CompileAfter(prev)
	want = "p.yaml:7:61: class c, meter 2: per: the table was made for a policy without meters per vlan at this place of a chain, and has no slots for them: "
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
	if _, err = mustParse(t, one("")).CompileAfter(planOf(t, chain, nil, nil)); err != nil {
		t.Errorf("room that is not needed any more: %v", err)
	}
	small := planOf(t, one(""), nil, nil)
	small.Geometry.Sets -= small.Geometry.Profiles - 1
	small.Geometry.Profiles = 1
	_, err = mustParse(t, strings.Replace(one(""), "name: c", "name: d", 1)).CompileAfter(small)
	if err == nil || !strings.Contains(err.Error(), "class d: this changes more at once than the table has room for (1 meters and profiles") {
		t.Errorf("no room: %v", err)
	}
	old := planOf(t, one(""), nil, nil)
	old.NextFamily = 0xffff
	_, err = mustParse(t, strings.Replace(one(""), "name: c", "name: d", 1)).CompileAfter(old)
	if err == nil || !strings.Contains(err.Error(), "class d: the table has seen 65535 kinds of bucket and can number no more: detach and attach again") {
		t.Errorf("no family: %v", err)
	}
}

func mustParse(t *testing.T, text string) *Policy {
	t.Helper()
	p, err := parseText(text, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The lines of a file of prefixes have no order: what the kernel gives back is in another. A line that gives
// another profile is told, and is no other match.
func TestDiffOfLines(t *testing.T) {
	text := strings.Replace(one("    match: { src: \"@c.csv\" }\n"), "  q: {", "  r: { meter: token, cir: 1mbit, cbs: 10ms }\n  s: { meter: token, cir: 2mbit, cbs: 10ms }\n  q: {", 1)
	const lines = "11.0.0.0/8,r\n10.0.0.0/8,s\n10.1.0.0/16\n2001:db8::/32,r\n"
	prev := planOf(t, text, files{"c.csv": lines}, nil)
	slices.Reverse(prev.Sets[0].Entries)
	for name, test := range map[string]struct {
		lines string
		want  []string
	}{
		"the same":          {lines, nil},
		"in another order":  {"2001:db8::/32,r\n10.1.0.0/16\n11.0.0.0/8,r\n10.0.0.0/8,s\n", nil},
		"two other profile": {"11.0.0.0/8,s\n10.0.0.0/8,r\n10.1.0.0/16\n2001:db8::/32,r\n", []string{"class c: changed: 2 of its lines have another profile"}},
		"one more":          {lines + "10.2.0.0/16\n", []string{"class c: changed: it matches other packets"}},
	} {
		var got []string
		for _, c := range Diff(prev, planOf(t, text, files{"c.csv": test.lines}, prev)) {
			if c.Kind != Kept {
				got = append(got, c.String())
			}
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
