package policy

import (
	"fmt"
	"io"

	"go.yaml.in/yaml/v4"

	"github.com/tricolor-policer/tricolor/internal/units"
	"github.com/tricolor-policer/tricolor/marker"
)

// The keys of a policy file; those of arrival are code points, those of profiles names.
var (
	policyKeys  = []string{"version", "flows", "malformed", "profiles", "classes"}
	profileKeys = []string{"meter", "color", "cir", "cbs", "ebs", "pir", "pbs", "eir", "coupling"}
	classKeys   = []string{"name", "match", "count", "overhead", "meters", "arrival", "green", "yellow", "red"}
	matchKeys   = []string{"src", "dst", "sport", "dport", "proto", "dscp", "vlan", "ip", "fragment", "mark"}
	meterKeys   = []string{"profile", "per"}
	actionKeys  = verbs
)

// decoder makes a policy of a file's nodes.
type decoder struct {
	*source
	open   func(name string) (io.ReadCloser, error)
	sets   map[string]*Set
	faults faults
	unread map[[2]string]bool // part and field of which no value is known
	policy Policy
}

// Parse reads the text of a policy file. name is what its faults call it; open opens a file of prefixes
// by the name that the policy gives it, and says what names it takes; nil: none.
//
// Its error is that of Load.
func Parse(name string, text []byte, open func(csv string) (io.ReadCloser, error)) (*Policy, error) {
	d := decoder{source: newSource(name, text), open: open, sets: map[string]*Set{}, unread: map[[2]string]bool{}}
	if root, fault := d.document(text); fault != nil {
		d.faults = faults{fault}
	} else {
		d.root(root)
		d.check()
	}
	d.faults = d.faults.sorted(name)
	d.show(d.faults)
	if err := d.faults.err(); err != nil {
		return nil, err
	}
	return &d.policy, nil
}

// refuse adds a fault at a node.
func (d *decoder) refuse(at part, n *yaml.Node, text string) {
	d.faults = append(d.faults, &Fault{Place: d.of(n), Part: at.name, Text: text})
}

// skip says that a field's value is not known.
func (d *decoder) skip(at part, field string) { d.unread[[2]string{at.name, field}] = true }

// skipped reports whether a field's value is not known.
func (d *decoder) skipped(at part, field string) bool { return d.unread[[2]string{at.name, field}] }

// missing refuses a field that is not given, nor written otherwise.
func (d *decoder) missing(at part, field, text string) {
	if !d.skipped(at, field) {
		d.faults.add(at, field, text)
		d.skip(at, field)
	}
}

// field reads a mapping's value with parse; where it is not given, or wrong, absent stands for it.
func field[T any](d *decoder, at part, m mapping, key string, absent T, parse func(string) (T, error)) T {
	if !m.has(key) {
		return absent
	}
	value, ok := scalar(d, at, m.value(key), key, parse)
	if !ok {
		d.skip(at, key)
		return absent
	}
	return value
}

// scalar reads a node with parse.
func scalar[T any](d *decoder, at part, n *yaml.Node, what string, parse func(string) (T, error)) (value T, ok bool) {
	word, ok := d.word(at, n, what)
	if !ok {
		return value, false
	}
	value, err := parse(word)
	if err != nil {
		d.faults = append(d.faults, &Fault{Place: d.of(n), Part: at.name, Field: what, Text: err.Error()})
		return value, false
	}
	return value, true
}

// boolean is parse of a value that YAML must take for true or false, so that "true" in quotes is none.
func (d *decoder) boolean(at part, m mapping, key string) (value, given bool) {
	n := m.value(key)
	if n == nil {
		return false, false
	}
	if d.usable(at, n) && (n.Kind != yaml.ScalarNode || n.Tag != "!!bool") {
		d.refuse(at, n, fmt.Sprintf("%s: %s is neither true nor false: say one of them, without quotes", key, kindName(n)))
		d.skip(at, key)
		return false, false
	}
	return field(d, at, m, key, false, parseBool), true
}

// places are where a mapping's keys stand; with values, where its values do.
func (d *decoder) places(self Place, m mapping, values bool) Places {
	places := Places{"": self}
	for _, key := range m.keys {
		e := m.entries[key]
		places[key] = d.of(e.key)
		if values {
			places[key] = d.of(e.value)
		}
	}
	return places
}

// root reads the whole policy.
func (d *decoder) root(n *yaml.Node) {
	p := &d.policy
	p.Flows, p.Malformed = DefaultFlows, marker.Action{Verbs: marker.VerbDrop}
	m, ok := d.mapping(part{}, n, "the policy", policyKeys)
	if !ok {
		d.skip(part{}, "classes")
		return
	}
	p.Places = d.places(d.of(n), m, true)
	at := part{"", p.Places}
	d.version(at, m)
	p.Flows = field(d, at, m, "flows", DefaultFlows, units.ParseCount)
	p.Malformed = field(d, at, m, "malformed", p.Malformed, parseMalformed)
	if m.has("profiles") {
		d.profiles(at, m.value("profiles"))
	} else {
		d.missing(at, "profiles", "none are given: define one, such as gold: { meter: token, cir: 10mbit, cbs: 10ms }")
	}
	if m.has("classes") {
		d.classes(at, m.value("classes"))
	} else {
		d.missing(at, "classes", "none are given: list one, such as - { name: all, meters: [ { profile: gold, per: flow } ] }")
	}
}

// version reads the version of the file's format.
func (d *decoder) version(at part, m mapping) {
	n := m.value("version")
	switch {
	case n == nil:
		d.missing(at, "version", "none is given: write version: 1")
	case !d.usable(at, n):
	case n.Kind != yaml.ScalarNode || n.Value != "1" || n.Tag != "!!int":
		d.refuse(at, n, fmt.Sprintf("version: %s is no version that this program reads: write version: 1", kindName(n)))
	}
}

// profiles reads the meters' parameters by name.
func (d *decoder) profiles(at part, n *yaml.Node) {
	m, _ := d.mapping(at, n, "profiles", nil)
	for _, name := range m.keys {
		e := m.entries[name]
		at := part{name: "profile " + name}
		if _, err := parseName(name); err != nil {
			d.refuse(part{}, e.key, err.Error())
		}
		d.profile(at, name, e)
	}
}

func (d *decoder) profile(at part, name string, e entry) {
	m, ok := d.mapping(at, e.value, "a profile", profileKeys)
	at.places = d.places(d.of(e.key), m, true)
	r := reader{at: at, spell: func(field string) string { return field }}
	for _, key := range profileKeys {
		if d.skipped(at, key) {
			r.skip(key)
		}
	}
	if !ok {
		d.skip(at, "unit")
		r.skip("meter")
	}
	w := Words{}
	for key, word := range map[string]*string{
		"meter": &w.Meter, "color": &w.Color, "cir": &w.CIR, "cbs": &w.CBS, "ebs": &w.EBS, "pir": &w.PIR, "pbs": &w.PBS, "eir": &w.EIR,
	} {
		if !m.has(key) {
			continue
		}
		var read bool
		if *word, read = d.word(at, m.value(key), key); !read {
			r.skip(key)
		}
	}
	w.Coupling, _ = d.boolean(at, m, "coupling")
	u := d.unit(at, m, &w)
	profile := Profile{Name: name, Places: at.places}
	if !r.unread["meter"] {
		profile = w.profile(&r, name, u)
		profile.Places = at.places
	} else {
		for _, key := range parameters {
			r.skip(key)
		}
	}
	d.faults = append(d.faults, r.faults...)
	for key := range r.unread {
		d.skip(at, key)
	}
	d.policy.Profiles = append(d.policy.Profiles, profile)
}

// unit is what the profile's first rate, else its first size, counts.
func (d *decoder) unit(at part, m mapping, w *Words) unit {
	u := unit{instead: "give every rate in pps, kpps or mpps"}
	for _, key := range m.keys {
		var word string
		switch key {
		case "cir":
			word = w.CIR
		case "pir":
			word = w.PIR
		case "eir":
			word = w.EIR
		default:
			continue
		}
		if rate, err := units.ParseRate(word); err == nil {
			u.known, u.packets = true, rate.Packets
			u.because = fmt.Sprintf("%s is in %s", key, unitName(rate.Packets))
			return u
		}
	}
	d.skip(at, "unit")
	return u
}

// check adds what is wrong with the policy as a whole, but for what follows from faults told already.
func (d *decoder) check() {
	for _, f := range d.policy.check() {
		follows := f.unit != "" && d.skipped(part{name: "profile " + f.unit}, "unit")
		for _, field := range f.fields() {
			follows = follows || d.skipped(part{name: f.Part}, field)
		}
		if !follows {
			d.faults = append(d.faults, f)
		}
	}
}
