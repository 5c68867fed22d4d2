package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/tricolor-policer/tricolor/marker"
)

// classes reads the list of classes.
func (d *decoder) classes(at part, n *yaml.Node) {
	if d.usable(at, n) && n.Kind != yaml.SequenceNode {
		d.refuse(at, n, fmt.Sprintf("classes is %s: write a list, a class each: - name: voice", kindName(n)))
		return
	}
	for i, item := range d.items(at, n, "classes") {
		if i > marker.MaxClasses {
			break // the one too many is told
		}
		d.class(i, item)
	}
}

func (d *decoder) class(i int, n *yaml.Node) {
	at := part{name: "class " + nameOf(n, i)}
	m, ok := d.mapping(at, n, "a class", classKeys)
	if !ok {
		return
	}
	c := Class{Arrival: marker.DefaultArrival(), Places: d.places(d.of(n), m, false)}
	at.places = c.Places
	if m.has("name") {
		c.Name = field(d, at, m, "name", "", parseName)
		if tag := m.value("name").Tag; c.Name != "" && tag != "!!str" && tag != "!!int" {
			d.refuse(at, m.value("name"), fmt.Sprintf("name: %s is no text for YAML: put it in quotes", c.Name))
		}
	} else {
		d.missing(at, "name", "none is given: every class needs a name of its own")
	}
	if c.Name == "" {
		c.Name = fmt.Sprint(i + 1) // so that parts still differ
		for taken := d.policy.class(c.Name); taken != nil; taken = d.policy.class(c.Name) {
			c.Name += "'"
		}
	}
	at = c.part()
	if m.has("match") {
		d.match(at, &c, m.value("match"))
	}
	c.Count = field(d, at, m, "count", marker.CountL3, marker.ParseCount)
	c.Overhead = field(d, at, m, "overhead", 0, parseOverhead)
	if m.has("arrival") {
		c.Arrival = d.arrival(at, m.value("arrival"))
	}
	c.Actions[marker.Red].Verbs = marker.VerbDrop
	for color := range marker.Colors {
		if key := color.String(); m.has(key) {
			c.Actions[color] = d.action(at, key, m.value(key))
		}
	}
	if m.has("meters") {
		d.meters(at, &c, m.value("meters"))
	}
	if d.skipped(at, "count") {
		d.skip(at, "ip")
	}
	d.policy.Classes = append(d.policy.Classes, c)
}

// nameOf is what a class that is not read yet is called in faults: its name, else its number.
func nameOf(n *yaml.Node, i int) string {
	for k := 0; n.Kind == yaml.MappingNode && k+1 < len(n.Content); k += 2 {
		if name, err := parseName(n.Content[k+1].Value); n.Content[k].Value == "name" && err == nil {
			return name
		}
	}
	return fmt.Sprint(i + 1)
}

// meters reads a class's chain.
func (d *decoder) meters(at part, c *Class, n *yaml.Node) {
	if d.usable(at, n) && n.Kind != yaml.SequenceNode {
		d.refuse(at, n, fmt.Sprintf("meters is %s: write a list: [ { profile: gold, per: flow } ]", kindName(n)))
		d.skip(at, "meters")
		return
	}
	items := d.items(at, n, "meters")
	if len(items) == 0 {
		d.skip(at, "meters")
	}
	items = items[:min(len(items), marker.MaxChain+1)] // the one too many is told
	c.Meters = make([]Meter, len(items))
	for i, item := range items {
		at := c.meterPart(i)
		entries, ok := d.mapping(at, item, "a meter", meterKeys)
		at.places = d.places(d.of(item), entries, true)
		m := field(d, at, entries, "per", Meter{Per: marker.PerFlow}, parsePer)
		if d.skipped(at, "per") {
			m = Meter{Per: marker.PerClass} // fits everything
		}
		m.Places = at.places
		switch {
		case entries.has("profile"):
			m.Profile = field(d, at, entries, "profile", "", parseName)
		case ok:
			d.missing(at, "profile", "none is given: name one of the profiles")
		default:
			d.skip(at, "profile")
		}
		c.Meters[i] = m
	}
}

// arrival reads a class's table of code points. Those not in it have the colour of default; without a
// default, that of the standard table.
func (d *decoder) arrival(at part, n *yaml.Node) (table [2]uint64) {
	table = marker.DefaultArrival()
	m, _ := d.mapping(at, n, "arrival", nil)
	if m.has("default") {
		color := field(d, at, m, "default", marker.Green, marker.ParseColor)
		table = [2]uint64{}
		for dscp := range uint8(64) {
			arrive(&table, dscp, color)
		}
	}
	var first [64]string
	for _, key := range m.keys {
		if key == "default" {
			continue
		}
		e := m.entries[key]
		dscp, err := marker.ParseDSCP(key)
		if err != nil {
			d.refuse(at, e.key, "arrival: "+err.Error()+"; or default for all others")
			continue
		}
		if first[dscp] != "" {
			d.refuse(at, e.key, fmt.Sprintf("arrival: %s is the same DSCP as %s: keep one", key, first[dscp]))
			continue
		}
		first[dscp] = key
		arrive(&table, dscp, field(d, at, m, key, marker.Green, marker.ParseColor))
	}
	return table
}

// arrive sets a code point's colour.
func arrive(table *[2]uint64, dscp uint8, color marker.Color) {
	bit := uint64(1) << dscp
	table[0] &^= bit
	table[1] &^= bit
	switch color {
	case marker.Yellow:
		table[0] |= bit
	case marker.Red:
		table[1] |= bit
	}
}

// action reads what is done to a colour: one verb, or a mapping of several.
func (d *decoder) action(at part, key string, n *yaml.Node) marker.Action {
	given := map[string]string{}
	if n.Kind != yaml.MappingNode {
		word, ok := d.word(at, n, key)
		switch {
		case !ok:
			return marker.Action{}
		case word == "pass", word == "drop", word == "ecn-ce":
			given[word] = ""
		default:
			d.refuse(at, n, fmt.Sprintf("%s: %.70q is no verb: say pass, drop, or several in { }: %s", key, word, verbExample(word)))
			return marker.Action{}
		}
	} else {
		m, ok := d.mapping(at, n, key, actionKeys)
		if !ok {
			return marker.Action{}
		}
		for _, verb := range m.keys {
			ok = d.verb(at, m, verb, given) && ok
		}
		if !ok {
			return marker.Action{}
		}
	}
	a, err := action(given)
	if err != nil {
		d.refuse(at, n, key+": "+err.Error())
	}
	return a
}

// verbExample is how a verb of a command line is written in a file.
func verbExample(word string) string {
	if verb, value, ok := strings.Cut(word, "="); ok && slices.Contains(verbs, verb) && !strings.Contains(value, ",") {
		return fmt.Sprintf("{ %s: %s }", verb, value)
	}
	return "{ dscp: af12, ecn-ce: true, mark: 5, priority: 1 }"
}

// verb reads one verb of several.
func (d *decoder) verb(at part, m mapping, verb string, given map[string]string) bool {
	value := m.value(verb)
	switch verb {
	case "pass", "drop", "ecn-ce":
		on, ok := d.boolean(at, m, verb)
		if ok && !on {
			d.refuse(at, value, verb+": false says nothing: say true, or leave it out")
		}
		given[verb] = ""
		return ok && on
	default:
		word, ok := scalar(d, at, value, verb, func(s string) (string, error) {
			_, err := action(map[string]string{verb: s})
			return s, err
		})
		given[verb] = word
		return ok
	}
}

// match reads which packets are of the class.
func (d *decoder) match(at part, c *Class, n *yaml.Node) {
	m, _ := d.mapping(at, n, "match", matchKeys)
	c.Match.Places = d.places(d.of(n), m, false)
	c.Match.Src, c.Match.SrcSet = d.addresses(at, m, "src")
	c.Match.Dst, c.Match.DstSet = d.addresses(at, m, "dst")
	c.Match.Sport = list(d, at, m, "sport", parsePorts)
	c.Match.Dport = list(d, at, m, "dport", parsePorts)
	c.Match.Proto = list(d, at, m, "proto", parseProto)
	c.Match.DSCP = list(d, at, m, "dscp", marker.ParseDSCP)
	c.Match.VLAN = list(d, at, m, "vlan", parseVLANs)
	c.Match.Mark = list(d, at, m, "mark", parseMark)
	for _, family := range list(d, at, m, "ip", parseFamily) {
		c.Match.Families |= family
	}
	if fragment, given := d.boolean(at, m, "fragment"); given {
		c.Match.Fragment = marker.FragmentNo
		if fragment {
			c.Match.Fragment = marker.FragmentYes
		}
	}
}

// list reads one value or several.
func list[T comparable](d *decoder, at part, m mapping, key string, parse func(string) (T, error)) (values []T) {
	if !m.has(key) {
		return nil
	}
	seen := map[T]bool{}
	for _, item := range d.items(at, m.value(key), key) {
		value, ok := scalar(d, at, item, key, parse)
		switch {
		case !ok:
			d.skip(at, key)
		case seen[value]:
			d.refuse(at, item, fmt.Sprintf("%s: %s stands twice in the list: keep one", key, item.Value))
		default:
			seen[value] = true
			values = append(values, value)
		}
	}
	return values
}

// addresses reads prefixes, or the name of a file of them.
func (d *decoder) addresses(at part, m mapping, key string) ([]netip.Prefix, *Set) {
	n := m.value(key)
	if n == nil || n.Kind != yaml.ScalarNode || !strings.HasPrefix(n.Value, "@") {
		return list(d, at, m, key, parseSubnet), nil
	}
	if !d.usable(at, n) {
		return nil, nil
	}
	name := n.Value[1:]
	if set, known := d.sets[name]; known {
		return nil, set
	}
	if d.open == nil {
		d.refuse(at, n, fmt.Sprintf("%s: no files are read here: list the prefixes", key))
		return nil, nil
	}
	file, err := d.open(name)
	if err != nil {
		d.refuse(at, n, fmt.Sprintf("%s: the file %.200q cannot be read: %v", key, name, err))
		return nil, nil
	}
	defer file.Close()
	set, wrong := readSet(name, besideFile(d.file, name), file)
	for _, f := range wrong {
		f.Part = at.name
	}
	d.faults = append(d.faults, wrong...)
	d.sets[name] = set
	return nil, set
}
