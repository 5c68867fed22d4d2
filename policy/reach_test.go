package policy

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// ordered is a policy of classes, each with its match.
func ordered(matches ...string) string {
	text := head
	for i, match := range matches {
		text += "  - name: " + string(rune('a'+i)) + "\n"
		if match != "" {
			text += "    match: { " + match + " }\n"
		}
		text += meters
	}
	return text
}

// warnings are a policy's, but for unused profiles, without their places.
func warnings(t *testing.T, text string, f files, link Link) (lines []string) {
	t.Helper()
	p, err := parseText(text, f)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range p.Warn(link) {
		if !strings.HasPrefix(w.Part, "profile ") {
			lines = append(lines, w.Part+": "+w.Text)
		}
	}
	return lines
}

func TestReach(t *testing.T) {
	hides := func(hidden, by string) string {
		return "class " + hidden + ": class " + by + " takes all that it matches: no packet reaches this one; put it first, or match less before it"
	}
	lost := func(class string) string {
		return "class " + class + ": its packets' fragments have no ports, so they do not match it, and no other class takes all of them: " +
			"they pass unmetered; add a class with fragment: true behind it"
	}
	sets := files{"c.csv": "10.0.0.0/8\n", "d.csv": "10.0.0.0/8\n"}
	for name, test := range map[string]struct {
		matches []string
		want    []string
	}{
		"all before one":           {[]string{"", "vlan: 1"}, []string{hides("b", "a")}},
		"one before all":           {[]string{"vlan: 1", ""}, nil},
		"a wider prefix":           {[]string{"src: 10.0.0.0/8", "src: [10.1.0.0/16, 10.0.0.0/8]"}, []string{hides("b", "a")}},
		"a narrower prefix":        {[]string{"src: 10.0.0.0/9", "src: 10.0.0.0/8"}, nil},
		"another prefix":           {[]string{"src: 11.0.0.0/8", "src: 10.1.0.0/16"}, nil},
		"a destination":            {[]string{"dst: 10.0.0.0/8", "src: 10.1.0.0/16"}, nil},
		"IPv4 and IPv6":            {[]string{"ip: 4", "ip: 6", ""}, []string{"class c: earlier classes take all that it matches: no packet reaches this one; put it first, or match less before it"}},
		"IPv4 only":                {[]string{"src: 0.0.0.0/0", ""}, nil},
		"not IP":                   {[]string{"", "proto: udp, ip: 6"}, []string{hides("b", "a")}},
		"protocols":                {[]string{"proto: [tcp, udp]", "proto: udp", "proto: [udp, icmp]"}, []string{hides("b", "a")}},
		"code points":              {[]string{"dscp: [ef, af11]", "dscp: ef", "dscp: [ef, cs1]"}, []string{hides("b", "a")}},
		"VLANs":                    {[]string{"vlan: 1-9", "vlan: [1, 2-9]", "vlan: 9-10"}, []string{hides("b", "a")}},
		"marks":                    {[]string{"mark: [0, 1]", "mark: 1", "mark: 2", ""}, []string{hides("b", "a")}},
		"fragments":                {[]string{"fragment: true", "fragment: false", "proto: udp"}, nil},
		"fragments before":         {[]string{"fragment: true", "proto: udp, fragment: true"}, []string{hides("b", "a")}},
		"the same file":            {[]string{"src: \"@c.csv\"", "src: \"@c.csv\", vlan: 1"}, []string{hides("b", "a")}},
		"another file":             {[]string{"src: \"@c.csv\"", "src: \"@d.csv\""}, nil},
		"a file's destination":     {[]string{"src: \"@c.csv\"", "dst: \"@c.csv\""}, nil},
		"a file under all":         {[]string{"ip: 4", "src: \"@c.csv\", ip: 4"}, []string{hides("b", "a")}},
		"ports":                    {[]string{"dport: 1-100", "dport: 80", "dport: [80, 101]", ""}, []string{hides("b", "a")}},
		"ports and a protocol":     {[]string{"proto: [tcp, udp, udplite, sctp, dccp]", "dport: 80"}, []string{hides("b", "a")}},
		"ports do not hide":        {[]string{"proto: tcp, dport: 0-65535", "proto: tcp"}, nil},
		"fragments lost":           {[]string{"dport: 53"}, []string{lost("a")}},
		"fragments caught":         {[]string{"dport: 53", "fragment: true"}, nil},
		"caught before":            {[]string{"fragment: true", "dport: 53"}, nil},
		"caught in two classes":    {[]string{"dport: 53", "fragment: true, ip: 4", "fragment: true, ip: 6"}, nil},
		"caught for IPv4 only":     {[]string{"dport: 53", "fragment: true, ip: 4"}, []string{lost("a")}},
		"caught for its protocols": {[]string{"proto: udp, sport: 53", "proto: [udp, icmp]"}, nil},
		"caught by ports only":     {[]string{"proto: udp, sport: 53", "proto: udp, sport: 0-65535"}, []string{lost("a"), lost("b")}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, warnings(t, ordered(test.matches...), sets, Link{})); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWarnOfFile(t *testing.T) {
	text := strings.Replace(one("    arrival: { ef: red }\n"), "cbs: 10ms", "cbs: 1kB", 1)
	p, err := parseText(text, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range p.Warn(Link{MTU: 1500, Speed: 125_000}) {
		got = append(got, w.String())
	}
	want := []string{
		"p.yaml:8:5: class c: no meter of the class is aware: the arrival table changes nothing; set color: aware in its profile, or leave the table out",
		"p.yaml:3:27: class c: cir 10 Mbit/s is over the link's speed, 1 Mbit/s: the link never offers as much, so this bucket stops nothing; lower cir",
		"p.yaml:3:40: class c: cbs 1 kB is below what the largest packet of the interface costs, 1500 B: such a packet is always red; raise cbs",
		"p.yaml:4:3: profile q: no class uses it: it polices nothing; name it in a class's meters, or leave it out",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	if got := warnings(t, one(""), nil, Link{Speed: 1_250_000}); got != nil {
		t.Errorf("a rate that is the link's: %q", got)
	}
}
