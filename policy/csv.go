package policy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"

	"github.com/tricolor-policer/tricolor/marker"
)

// What a file of prefixes may hold.
const (
	MaxSetLines = 1_000_000
	maxSetLine  = 256 // bytes
)

// Set is a file of prefixes: one `prefix[,profile]` a line; empty lines and lines that begin with # say
// nothing. A packet is judged by the longest prefix that holds its address.
type Set struct {
	Name    string // the file's path, as the policy says it
	Entries []SetEntry
	Sources map[string]Source // where each profile first stands, for faults found later
}

// Source is a piece of a file's line.
type Source struct {
	Line, Column int
	Text         string // the whole line
}

// SetEntry is one line of the file.
type SetEntry struct {
	Prefix  netip.Prefix
	Profile string // in place of the profile of the class's first meter; empty: that one
	Line    int
}

// profiles returns the names of the profiles that the file gives, in order of appearance.
func (s *Set) profiles() (names []string) {
	if s == nil {
		return nil
	}
	seen := map[string]bool{"": true}
	for i := range s.Entries {
		if name := s.Entries[i].Profile; !seen[name] {
			names = append(names, name)
			seen[name] = true
		}
	}
	return names
}

// setReader reads a file of prefixes.
type setReader struct {
	file   string // for faults
	set    *Set
	seen   map[netip.Prefix]int
	names  map[string]string // one string for each profile, not one for each line
	faults faults
}

// readSet reads a file of prefixes. Its faults name the lines.
func readSet(name, file string, r io.Reader) (*Set, faults) {
	s := setReader{file: file, set: &Set{Name: name, Sources: map[string]Source{}}, seen: map[netip.Prefix]int{}, names: map[string]string{}}
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64*1024), 64*1024)
	n := 0
	for lines.Scan() {
		n++
		if n > MaxSetLines {
			s.refuse(n, 1, "", fmt.Sprintf("the file is too long: at most %d lines", MaxSetLines))
			break
		}
		s.line(n, lines.Text())
		if len(s.faults) > maxFaults {
			break
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		s.refuse(n+1, 1, "", fmt.Sprintf("the line is too long: at most %d bytes", maxSetLine))
	case err != nil:
		s.refuse(n+1, 1, "", fmt.Sprintf("the file cannot be read: %v", err))
	case len(s.set.Entries) == 0 && len(s.faults) == 0:
		s.refuse(max(n, 1), 1, "", "the file holds no prefix: write one prefix[,profile] a line")
	}
	return s.set, s.faults
}

func (s *setReader) refuse(line, column int, source, text string) {
	f := &Fault{Place: Place{s.file, line, column}, Text: text}
	if source != "" {
		f.Excerpt = excerpt(source, column)
	}
	s.faults = append(s.faults, f)
}

// line reads the n-th line.
func (s *setReader) line(n int, text string) {
	if n == 1 {
		text = strings.TrimPrefix(text, "\ufeff")
	}
	if len(text) > maxSetLine {
		s.refuse(n, 1, text, fmt.Sprintf("the line is too long: at most %d bytes", maxSetLine))
		return
	}
	trimmed := strings.TrimSpace(text)
	if trimmed == "" || trimmed[0] == '#' {
		return
	}
	word, profile, comma := strings.Cut(text, ",")
	at := func(part string, from int) int { // the column of a part's first character
		return len([]rune(text[:from])) + len([]rune(part)) - len([]rune(strings.TrimLeft(part, " \t"))) + 1
	}
	prefix, err := parseSubnet(strings.TrimSpace(word))
	if err != nil {
		s.refuse(n, at(word, 0), text, err.Error())
		return
	}
	if first := s.seen[prefix]; first != 0 {
		s.refuse(n, at(word, 0), text, fmt.Sprintf("%v stands twice, first in line %d: keep one", prefix, first))
		return
	}
	s.seen[prefix] = n
	entry := SetEntry{Prefix: prefix, Line: n}
	if comma {
		name, err := parseName(strings.TrimSpace(profile))
		if err != nil {
			s.refuse(n, at(profile, len(word)+1), text, fmt.Sprintf("the profile: %v", err))
			return
		}
		if s.names[name] == "" {
			s.names[name] = strings.Clone(name)
			s.set.Sources[s.names[name]] = Source{n, at(profile, len(word)+1), text}
		}
		entry.Profile = s.names[name]
	}
	s.set.Entries = append(s.set.Entries, entry)
}

// checkSets refuses profiles of a file's lines that cannot be had, or would share a bucket with others.
func (c *Class) checkSets(f *faults, p *Policy) {
	both := 0
	for _, side := range []struct {
		set   *Set
		field string
		per   marker.Per
	}{{c.Match.SrcSet, "src", marker.PerSrc}, {c.Match.DstSet, "dst", marker.PerDst}} {
		names := side.set.profiles()
		if len(names) == 0 {
			continue
		}
		both++
		for _, name := range names {
			source := side.set.Sources[name]
			at := part{"class " + c.Name, Places{"": setPlace(c.Match.Places[side.field], side.set, source)}}
			switch profile := p.profile(name); {
			case profile == nil:
				f.add(at, "profile", fmt.Sprintf("%q is not defined%s", name, p.suggestProfile(name)))
				f.excerpt(source)
			case profile.Packets != (c.Count == marker.CountPackets):
				f.add(at, "count", misfitText(c.Count, profile))
				(*f)[len(*f)-1].unit = name
				f.excerpt(source)
			}
		}
		if len(c.Meters) > 0 {
			c.checkSetKey(f, side.set, side.field, side.per)
		}
	}
	if both == 2 {
		f.add(c.Match.part(c), "src, dst", "both files give profiles, and a bucket has one: leave them out of one file")
	}
}

// checkSetKey holds the first meter to buckets that are each of one line of the file only.
func (c *Class) checkSetKey(f *faults, set *Set, field string, per marker.Per) {
	m := &c.Meters[0]
	if m.Per == marker.PerFlow {
		return
	}
	if m.Per != per {
		f.add(c.meterPart(0), "per", fmt.Sprintf("%v would let lines of %s with different profiles share a bucket: say flow or %s, or give no profiles in the file",
			m.Per, set.Name, field))
		return
	}
	for i := range set.Entries {
		e := &set.Entries[i]
		family := 0
		if e.Prefix.Addr().Is6() {
			family = 1
		}
		if e.Prefix.Bits() > m.Prefix[family] {
			source := Source{e.Line, 1, e.Prefix.String()}
			if e.Profile != "" {
				source.Text += "," + e.Profile
			}
			at := part{"class " + c.Name, Places{"": setPlace(c.Match.Places[field], set, source)}}
			f.add(at, "", fmt.Sprintf("%v is narrower than a bucket, %v/%d, which lines with different profiles would share: let the bucket be as narrow (per: %s)",
				e.Prefix, per, m.Prefix[family], narrower(per, m.Prefix, family, e.Prefix.Bits())))
			f.excerpt(source)
			return
		}
	}
}

// narrower is a per with a longer prefix.
func narrower(per marker.Per, prefix [2]int, family, bits int) string {
	prefix[family] = bits
	return fmt.Sprintf("\"%v/%d,%d\"", per, prefix[0], prefix[1])
}

// setPlace is a place in a file of prefixes; of a policy without places, nowhere.
func setPlace(reference Place, set *Set, source Source) Place {
	if reference.File == "" || source.Line == 0 {
		return Place{}
	}
	return Place{File: besideFile(reference.File, set.Name), Line: source.Line, Column: source.Column}
}

// excerpt shows a line of a file of prefixes with the fault that was added last.
func (f *faults) excerpt(source Source) {
	if source.Line > 0 {
		(*f)[len(*f)-1].Excerpt = excerpt(source.Text, source.Column)
	}
}
