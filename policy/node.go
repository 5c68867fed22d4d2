package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"
)

// maxDepth bounds the nesting of a file; a policy needs 6.
const maxDepth = 16

// source is a policy file's text.
type source struct {
	file  string
	lines []string
	last  int // the last line that is not blank, from 1
}

func newSource(file string, text []byte) *source {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	s := &source{file: file, lines: strings.SplitAfter(string(text), "\n")}
	for s.last = len(s.lines); s.last > 1 && strings.TrimSpace(s.lines[s.last-1]) == ""; s.last-- {
	}
	return s
}

// place is a line and column of the file; one that is not in it becomes the end of its last line.
func (s *source) place(line, column int) Place {
	if line > s.last {
		return Place{s.file, s.last, utf8.RuneCountInString(strings.TrimRight(s.lines[s.last-1], "\r\n")) + 1}
	}
	return Place{s.file, max(line, 1), max(column, 1)}
}

// of is where a node begins.
func (s *source) of(n *yaml.Node) Place { return s.place(n.Line, n.Column) }

// show gives the faults in this file their excerpts.
func (s *source) show(all faults) {
	for _, f := range all[:min(len(all), maxFaults)] {
		if f.Place.File == s.file && f.Place.Line > 0 && f.Place.Line <= len(s.lines) && f.Excerpt == "" {
			f.Excerpt = excerpt(s.lines[f.Place.Line-1], f.Place.Column)
		}
	}
}

// document reads the file's only document. A nil node comes with a fault.
func (s *source) document(text []byte) (*yaml.Node, *Fault) {
	if f := s.checkText(text); f != nil {
		return nil, f
	}
	loader, err := yaml.NewLoader(strings.NewReader(strings.Join(s.lines, "")),
		yaml.WithPlugin(loaderlimits.New(loaderlimits.DepthValue(maxDepth))))
	if err != nil {
		return nil, s.refuse(err)
	}
	var first, second yaml.Node
	switch err := loader.Load(&first); {
	case errors.Is(err, io.EOF), err == nil && len(first.Content) == 0:
		return nil, &Fault{Place: Place{s.file, 1, 1}, Text: "the file is empty: write version: 1, profiles and classes"}
	case err != nil:
		return nil, s.refuse(err)
	}
	switch err := loader.Load(&second); {
	case errors.Is(err, io.EOF):
		return first.Content[0], nil
	case err != nil:
		return nil, s.refuse(err)
	default:
		return nil, &Fault{Place: s.of(&second), Text: "a second document begins: a file holds one policy"}
	}
}

// checkText refuses what is no text.
func (s *source) checkText(text []byte) *Fault {
	if len(text) > MaxFile {
		return &Fault{Place: Place{File: s.file}, Text: fmt.Sprintf("the file is too long: at most %d bytes; large lists of prefixes go into files of their own", MaxFile)}
	}
	for i, line := range s.lines {
		column := 0
		for at, c := range line {
			column++
			control := c < ' ' && c != '\t' && c != '\n' && (c != '\r' || !strings.HasPrefix(line[at:], "\r\n"))
			broken := false
			if c == utf8.RuneError {
				_, size := utf8.DecodeRuneInString(line[at:])
				broken = size == 1
			}
			if control || broken {
				return &Fault{Place: Place{s.file, i + 1, column}, Text: fmt.Sprintf("byte %#02x is no text: a policy is written in UTF-8", line[at])}
			}
		}
	}
	return nil
}

// refuse turns the YAML reader's error into a fault.
func (s *source) refuse(err error) *Fault {
	var e *yaml.LoadError
	if !errors.As(err, &e) {
		return &Fault{Place: s.place(1, 1), Text: "this is no YAML: " + err.Error()}
	}
	text := "this is no YAML: " + e.Message
	if e.ContextMsg != "" {
		text += " (" + e.ContextMsg + " that begins in line " + fmt.Sprint(e.ContextMark.Line) + ")"
	}
	if strings.Contains(e.Message, "max depth") {
		text = fmt.Sprintf("this nests too deep: a policy needs no more than %d levels", maxDepth)
	}
	return &Fault{Place: s.place(e.Mark.Line, e.Mark.Column), Text: text}
}

// entry is a key of a mapping and its value.
type entry struct{ key, value *yaml.Node }

// mapping is a mapping of known keys.
type mapping struct {
	keys    []string // in the file's order
	entries map[string]entry
}

func (m mapping) value(key string) *yaml.Node { return m.entries[key].value }

// has reports whether the key is given.
func (m mapping) has(key string) bool { return m.value(key) != nil }

// kindName is what a node is, for a person.
func kindName(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "keys with values"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Tag == "!!null" && n.Value == "":
		return "nothing"
	default:
		return fmt.Sprintf("%.70q", n.Value)
	}
}

// usable refuses what YAML has and a policy has not.
func (d *decoder) usable(at part, n *yaml.Node) bool {
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		d.refuse(at, n, "anchors (&) and aliases (*) are not taken: write it out, or share a profile by its name")
	case n.Style&yaml.TaggedStyle != 0:
		d.refuse(at, n, "tags (!) are not taken: leave it out")
	default:
		return true
	}
	return false
}

// mapping reads a node as keys with values. known are the keys it may have; nil: any.
func (d *decoder) mapping(at part, n *yaml.Node, what string, known []string) (m mapping, ok bool) {
	m.entries = map[string]entry{}
	if !d.usable(at, n) {
		return m, false
	}
	if n.Kind != yaml.MappingNode {
		help := ""
		if known != nil {
			help = " (" + strings.Join(known, ", ") + ")"
		}
		d.refuse(at, n, fmt.Sprintf("%s is %s: write keys with values%s", what, kindName(n), help))
		return m, false
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if !d.usable(at, key) {
			continue
		}
		first, twice := m.entries[key.Value]
		switch {
		case key.Kind != yaml.ScalarNode:
			d.refuse(at, key, fmt.Sprintf("a key is one word, not %s", kindName(key)))
		case known != nil && !slices.Contains(known, key.Value):
			d.refuse(at, key, unknownKey(what, key, value, known))
			d.skip(at, nearest(key.Value, known)) // is not missing, but written otherwise
		case twice:
			d.refuse(at, key, fmt.Sprintf("%q stands twice, first in line %d: keep one", key.Value, first.key.Line))
		default:
			m.keys = append(m.keys, key.Value)
			m.entries[key.Value] = entry{key, value}
		}
	}
	if len(n.Content) == 0 {
		d.refuse(at, n, fmt.Sprintf("%s is empty: write keys with values, or leave it out", what))
	}
	return m, len(n.Content) > 0
}

func unknownKey(what string, key, value *yaml.Node, known []string) string {
	if value.Tag == "!!null" && strings.Trim(key.Value, "0123456789") == "" {
		return fmt.Sprintf("%q is no key of %s: a value with a comma stands in quotes, such as per: \"src/24,56\"", key.Value, what)
	}
	return fmt.Sprintf("%.70q is no key of %s%s", key.Value, what, suggest(key.Value, known))
}

// items reads a node as a list; one value is a list of one.
func (d *decoder) items(at part, n *yaml.Node, what string) []*yaml.Node {
	switch {
	case !d.usable(at, n):
		return nil
	case n.Kind == yaml.ScalarNode:
		return []*yaml.Node{n}
	case n.Kind == yaml.MappingNode:
		d.refuse(at, n, fmt.Sprintf("%s is keys with values: write one value, or a list in [ ]", what))
	case len(n.Content) == 0:
		d.refuse(at, n, fmt.Sprintf("%s is an empty list: leave it out, or list something", what))
	}
	return n.Content
}

// word reads a node as one word.
func (d *decoder) word(at part, n *yaml.Node, what string) (string, bool) {
	switch {
	case !d.usable(at, n):
	case n.Kind != yaml.ScalarNode || n.Tag == "!!null" || n.Value == "":
		d.refuse(at, n, fmt.Sprintf("%s is %s: write one value", what, kindName(n)))
	default:
		return n.Value, true
	}
	return "", false
}
