package policy

import (
	"errors"
	"io"
	"io/fs"
	"net/netip"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tricolor-policer/tricolor/marker"
)

// files opens files of prefixes by name.
type files map[string]string

func (f files) open(name string) (io.ReadCloser, error) {
	text, ok := f[name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(strings.NewReader(text)), nil
}

// parseText reads a policy that may name files.
func parseText(text string, f files) (*Policy, error) { return Parse("p.yaml", []byte(text), f.open) }

// The file of the specification, in full.
const wholePolicy = `version: 1
flows: 1M              # bucket slots
malformed: drop
profiles:
  gold:   { meter: trtcm, cir: 50mbit, cbs: 128KiB, pir: 100mbit, pbs: 256KiB, color: aware }
  bronze: { meter: srtcm, cir: 10mbit, cbs: 96KiB, ebs: 192KiB }       # color: blind is the default
  tenant: { meter: rfc4115, cir: 200mbit, cbs: 10ms, eir: 50mbit, ebs: 10ms, coupling: true }
  link:   { meter: token, cir: 1gbit, cbs: 20ms }                      # a burst may be a time at its rate
classes:                                                               # first match wins
  - name: voice
    match:   { proto: udp, dscp: [ef] }
    meters:  [ { profile: gold, per: flow } ]
    arrival: { af11: green, af12: yellow, af13: red, default: green }
    yellow:  { dscp: af41 }
  - name: customers
    match:   { src: [10.0.0.0/8, "2001:db8::/32"], dport: [443, 8000-8080], vlan: 100 }
    count:   l2
    meters:
      - { profile: bronze, per: flow }
      - { profile: tenant, per: "src/24,56" }
      - { profile: link,   per: interface }
    green:   { dscp: af11 }
    yellow:  { ecn-ce: true, dscp: af12 }
    red:     drop
`

var noPlaces = cmpopts.IgnoreTypes(Places{})

var prefixes = cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })

func TestParse(t *testing.T) {
	got, err := parseText(wholePolicy, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := &Policy{
		Flows: 1_000_000, Malformed: drop,
		Profiles: []Profile{
			{Name: "gold", Params: marker.Params{Meter: marker.TRTCM, Aware: true, CIR: 6_250_000, CBS: 131072, PIR: 12_500_000, PBS: 262144}},
			{Name: "bronze", Params: marker.Params{Meter: marker.SRTCM, CIR: 1_250_000, CBS: 98304, EBS: 196608}},
			{Name: "tenant", Params: marker.Params{Meter: marker.RFC4115, CIR: 25_000_000, CBS: 250_000, EIR: 6_250_000, EBS: 62_500, Coupling: true}},
			{Name: "link", Params: marker.Params{Meter: marker.Token, CIR: 125_000_000, CBS: 2_500_000}},
		},
		Classes: []Class{
			{
				Name: "voice", Match: Match{Proto: []uint8{17}, DSCP: []uint8{46}},
				Meters:  []Meter{{Profile: "gold", Per: marker.PerFlow}},
				Arrival: [2]uint64{1 << 12, 1 << 14},
				Actions: [3]marker.Action{{}, remark(34), drop},
			},
			{
				Name: "customers",
				Match: Match{
					Src:   []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")},
					Dport: []Range{{443, 443}, {8000, 8080}}, VLAN: []Range{{100, 100}},
				},
				Count: marker.CountL2,
				Meters: []Meter{
					{Profile: "bronze", Per: marker.PerFlow},
					{Profile: "tenant", Per: marker.PerSrc, Prefix: [2]int{24, 56}},
					{Profile: "link", Per: marker.PerInterface},
				},
				Arrival: marker.DefaultArrival(),
				Actions: [3]marker.Action{remark(10), {Verbs: marker.VerbCE | marker.VerbDSCP, DSCP: 12}, drop},
			},
		},
	}
	if diff := cmp.Diff(want, got, noPlaces, prefixes); diff != "" {
		t.Errorf("policy (-want +got):\n%s", diff)
	}
	inSchema(t, wholePolicy, true)
}

// head is the shortest legal beginning; a class can follow.
const head = `version: 1
profiles:
  p: { meter: token, cir: 10mbit, cbs: 10ms }
  q: { meter: token, cir: 1kpps, cbs: 10pkt }
classes:
`

// meters is the shortest legal chain.
const meters = "    meters: [ { profile: p, per: flow } ]\n"

// one is a policy of one class with these lines.
func one(lines string) string { return head + "  - name: c\n" + meters + lines }

// Keys and values that the file of the specification has not.
func TestParseClass(t *testing.T) {
	aware := func(change func(*[2]uint64)) func(*Class) {
		return func(c *Class) { change(&c.Arrival) }
	}
	for name, test := range map[string]struct {
		lines string
		want  func(*Class)
	}{
		"nothing": {"", func(*Class) {}},
		"verbs": {"    green: { mark: 7, priority: 4294967295 }\n    yellow: ecn-ce\n    red: pass\n", func(c *Class) {
			c.Actions = [3]marker.Action{{Verbs: marker.VerbMark | marker.VerbPriority, Mark: 7, Priority: 1<<32 - 1}, {Verbs: marker.VerbCE}, {}}
		}},
		"CE or pass":     {"    red: { ecn-ce: true, pass: true }\n", func(c *Class) { c.Actions[2] = marker.Action{Verbs: marker.VerbCE} }},
		"drop in braces": {"    yellow: { drop: true }\n", func(c *Class) { c.Actions[1] = drop }},
		"overhead":       {"    overhead: +24\n", func(c *Class) { c.Overhead = 24 }},
		"less overhead":  {"    overhead: -4\n", func(c *Class) { c.Overhead = -4 }},
		"ports": {"    match: { sport: 53, dport: [0, \"1-2\", 65535] }\n", func(c *Class) {
			c.Match.Sport, c.Match.Dport = []Range{{53, 53}}, []Range{{0, 0}, {1, 2}, {65535, 65535}}
		}},
		"protocols":       {"    match: { proto: [tcp, 47, icmpv6, 255] }\n", func(c *Class) { c.Match.Proto = []uint8{6, 47, 58, 255} }},
		"code points":     {"    match: { dscp: [be, 1, af43, cs7] }\n", func(c *Class) { c.Match.DSCP = []uint8{0, 1, 38, 56} }},
		"VLANs":           {"    match: { vlan: [0, 100-199] }\n", func(c *Class) { c.Match.VLAN = []Range{{0, 0}, {100, 199}} }},
		"marks":           {"    match: { mark: [0, 4294967295] }\n", func(c *Class) { c.Match.Mark = []uint32{0, 1<<32 - 1} }},
		"IPv6":            {"    match: { ip: 6 }\n", func(c *Class) { c.Match.Families = marker.FamilyIPv6 }},
		"both":            {"    match: { ip: [4, 6] }\n", func(c *Class) { c.Match.Families = marker.FamilyIP }},
		"fragments":       {"    match: { fragment: true }\n", func(c *Class) { c.Match.Fragment = marker.FragmentYes }},
		"no fragments":    {"    match: { fragment: false }\n", func(c *Class) { c.Match.Fragment = marker.FragmentNo }},
		"an address":      {"    match: { dst: 192.0.2.1 }\n", func(c *Class) { c.Match.Dst = []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")} }},
		"an IPv6 address": {"    match: { dst: \"::1\" }\n", func(c *Class) { c.Match.Dst = []netip.Prefix{netip.MustParsePrefix("::1/128")} }},
		"arrival by number, the rest as ever": {"    arrival: { 10: red, cs1: yellow }\n", aware(func(a *[2]uint64) {
			a[0] |= 1 << 8
			a[1] |= 1 << 10
		})},
		"arrival as green": {"    arrival: { af12: green, af13: green, af23: yellow }\n", aware(func(a *[2]uint64) {
			a[0] ^= 1<<12 | 1<<22
			a[1] ^= 1<<14 | 1<<22
		})},
		"arrival with a default": {"    arrival: { ef: green, default: red }\n", aware(func(a *[2]uint64) { *a = [2]uint64{0, ^uint64(1 << 46)} })},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseText(one(test.lines), nil)
			if err != nil {
				t.Fatal(err)
			}
			want := Class{
				Name: "c", Arrival: marker.DefaultArrival(), Meters: []Meter{{Profile: "p"}},
				Actions: [3]marker.Action{marker.Red: drop},
			}
			test.want(&want)
			if diff := cmp.Diff(want, got.Classes[0], noPlaces, prefixes); diff != "" {
				t.Errorf("class (-want +got):\n%s", diff)
			}
			inSchema(t, one(test.lines), true)
		})
	}
}

// What is not IP can be policed by what it has.
func TestParseNotIP(t *testing.T) {
	text := head + `  - { name: c, match: { ip: none, vlan: 5 }, count: packets, meters: [ { profile: q, per: vlan }, { profile: q, per: class } ], green: { mark: 1 } }` + "\n"
	p, err := parseText(text, nil)
	if err != nil {
		t.Fatal(err)
	}
	inSchema(t, text, true)
	rules := p.Classes[0].Match.rules(3, 0, 0)
	want := marker.AnyRule(3)
	want.Families, want.VLAN = marker.FamilyNone, [2]uint16{5, 5}
	if diff := cmp.Diff([]marker.Rule{want}, rules); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
}

// checkFaults holds an error to `line:column: text` each, and to an excerpt that shows that place. A
// text may end in ….
func checkFaults(t *testing.T, source string, err error, want []string) {
	t.Helper()
	if !errors.Is(err, ErrPolicy) {
		t.Fatalf("error %v; want one that wraps ErrPolicy", err)
	}
	var got []string
	lines := strings.Split(source, "\n")
	for i, f := range Faults(err) {
		line, _, _ := strings.Cut(f.Error(), "\n")
		line = strings.TrimPrefix(line, "p.yaml:")
		if i < len(want) {
			if begin, cut := strings.CutSuffix(want[i], "…"); cut && strings.HasPrefix(line, begin) {
				line = want[i]
			}
		}
		got = append(got, line)
		if f.Place.Line == 0 || f.Place.File != "p.yaml" || strings.Contains(f.Excerpt, "…") || strings.ContainsFunc(lines[f.Place.Line-1], func(c rune) bool { return c == utf8.RuneError || !unicode.IsPrint(c) }) {
			continue // not shown as it is
		}
		caret := strings.Repeat(" ", 4+f.Place.Column-1) + "^"
		if want := strings.TrimRight("    "+lines[f.Place.Line-1], " ") + "\n" + caret; f.Excerpt != want {
			t.Errorf("excerpt\n%s\nwant\n%s", f.Excerpt, want)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}
