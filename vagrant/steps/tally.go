package steps

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
)

// A tally counts the tests of go test -v's output, which is written to it.
type tally struct {
	rest    []byte // of a line that has no end yet
	lines   int
	current string              // the test that speaks
	said    map[string]string   // by each test, the first line of its log
	ended   map[string][]string // tests by PASS, FAIL and SKIP, those that hold others too
	figures []string            // what tests logged as "figures: …"
}

var (
	speaks = regexp.MustCompile(`^=== (?:RUN|CONT|NAME) +(\S+)$`)
	ends   = regexp.MustCompile(`^ *--- (PASS|FAIL|SKIP): (\S+) \(`)
	logs   = regexp.MustCompile(`^ +\S+\.go:\d+: (.*)`)
)

func newTally() *tally {
	return &tally{said: make(map[string]string), ended: make(map[string][]string)}
}

func (t *tally) Write(p []byte) (int, error) {
	t.rest = append(t.rest, p...)
	for {
		i := bytes.IndexByte(t.rest, '\n')
		if i < 0 {
			return len(p), nil
		}
		t.line(string(t.rest[:i]))
		t.rest = t.rest[i+1:]
	}
}

func (t *tally) line(line string) {
	t.lines++
	if m := speaks.FindStringSubmatch(line); m != nil {
		t.current = m[1]
	} else if m := ends.FindStringSubmatch(line); m != nil {
		t.ended[m[1]] = append(t.ended[m[1]], m[2])
	} else if m := logs.FindStringSubmatch(line); m != nil {
		if t.said[t.current] == "" {
			t.said[t.current] = m[1]
		}
		if figures, ok := strings.CutPrefix(m[1], "figures: "); ok {
			t.figures = append(t.figures, figures)
		}
	}
}

// leaves returns the tests that ended so and hold no others.
func (t *tally) leaves(how string) []string {
	parents := make(map[string]bool)
	for _, tests := range t.ended {
		for _, test := range tests {
			for i, c := range test {
				if c == '/' {
					parents[test[:i]] = true
				}
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(t.ended[how]), func(test string) bool { return parents[test] })
}

// skipped returns, by reason, the tests that were skipped.
func (t *tally) skipped() map[string][]string {
	by := make(map[string][]string)
	for _, test := range t.ended["SKIP"] {
		reason := t.said[test]
		if reason == "" {
			reason = "no reason given"
		}
		by[reason] = append(by[reason], test)
	}
	return by
}

// missing returns the patterns for which no test passed.
func (t *tally) missing(tests []string) (none []string) {
	passed := t.leaves("PASS")
	for _, text := range tests {
		p, err := newPattern(text)
		if err != nil || !slices.ContainsFunc(passed, p.match) {
			none = append(none, text)
		}
	}
	return none
}

// few names at most three of the tests.
func few(tests []string) string {
	if len(tests) > 3 {
		return strings.Join(tests[:3], ", ") + ", …"
	}
	return strings.Join(tests, ", ")
}
