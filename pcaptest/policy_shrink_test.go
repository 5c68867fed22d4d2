package pcaptest

import (
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// without returns a list without n of its elements.
func without[T any](list []T, from, n int) []T {
	return slices.Concat(list[:from], list[min(from+n, len(list)):])
}

// shortened leaves out as much of a list as it can while it still fails: halves, quarters and so on.
func shortened[T any](list []T, fails func([]T) bool) []T {
	for n := (len(list) + 1) / 2; n > 0; n /= 2 {
		for from := len(list) - n; from > -n; from -= n {
			if shorter := without(list, max(from, 0), n); fails(shorter) {
				list = shorter
			}
		}
	}
	return list
}

// shrunk leaves out of a case what it fails without: steps, policies, classes, profiles, prefixes.
func (c policyCase) shrunk(fails func(*policyCase) bool) *policyCase {
	c.policies = slices.Clone(c.policies)
	c.steps = shortened(c.steps, func(steps []policyStep) bool {
		shorter := policyCase{c.policies, steps}
		return fails(&shorter)
	})
	for i := len(c.policies) - 1; i > 0; i-- {
		if !slices.ContainsFunc(c.steps, func(s policyStep) bool { return s.apply == i }) {
			c.policies = without(c.policies, i, 1)
			for j := range c.steps {
				if c.steps[j].apply > i {
					c.steps[j].apply--
				}
			}
		}
	}
	for i := range c.policies {
		try := func(p policyFiles) bool {
			simpler := policyCase{slices.Clone(c.policies), c.steps}
			simpler.policies[i] = p
			if !fails(&simpler) {
				return false
			}
			c.policies[i] = p
			return true
		}
		was := c.policies[i]
		head, classes, _ := strings.Cut(was.text, "classes:\n")
		shortened(strings.SplitAfter(strings.ReplaceAll(classes, "\n  - ", "\n\x00  - "), "\x00"), func(classes []string) bool {
			return try(policyFiles{head + "classes:\n" + strings.ReplaceAll(strings.Join(classes, ""), "\x00", ""), was.csv})
		})
		shortened(strings.SplitAfter(c.policies[i].text, "\n"), func(lines []string) bool {
			return try(policyFiles{strings.Join(lines, ""), was.csv})
		})
		for name, lines := range was.csv {
			shortened(strings.SplitAfter(lines, "\n"), func(lines []string) bool {
				csv := maps.Clone(c.policies[i].csv)
				csv[name] = strings.Join(lines, "")
				return try(policyFiles{c.policies[i].text, csv})
			})
		}
	}
	return &c
}

// source is the case as a Go test to paste.
func (c *policyCase) source() string {
	var b strings.Builder
	b.WriteString("func TestFoundDifference(t *testing.T) {\n\ttestutils.RequireKernel(t)\n\tfound := policyCase{\n\t\tpolicies: []policyFiles{\n")
	for _, p := range c.policies {
		fmt.Fprintf(&b, "\t\t\t{text: `%s`, csv: map[string]string{\n", p.text)
		for _, name := range []string{bytesCSV, packetsCSV, bareCSV} {
			if p.csv[name] != "" {
				fmt.Fprintf(&b, "\t\t\t\t%q: `%s`,\n", name, p.csv[name])
			}
		}
		b.WriteString("\t\t\t}},\n")
	}
	b.WriteString("\t\t},\n\t\tsteps: []policyStep{\n")
	for _, s := range c.steps {
		if s.apply != 0 {
			fmt.Fprintf(&b, "\t\t\t{now: %d, apply: %d, confirm: %d},\n", s.now, s.apply, s.confirm)
			continue
		}
		f := s.frame
		fmt.Fprintf(&b, "\t\t\t{now: %d, frame: marker.Frame{Link: %d, Length: %d, VLAN: %#x, GSOSize: %d, GSOSegs: %d, Mark: %d, Data: unhex(%q)}},\n",
			s.now, f.Link, f.Length, f.VLAN, f.GSOSize, f.GSOSegs, f.Mark, hex.EncodeToString(f.Data))
	}
	b.WriteString("\t\t},\n\t}\n\tif err := newCaseRun(t).run(&found); err != nil {\n\t\tt.Error(err)\n\t}\n}\n")
	return b.String()
}

// unhex is what the source of a case writes its frames with.
func unhex(s string) []byte { //nolint:unused // the source that a difference is printed as calls it
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return b
}
