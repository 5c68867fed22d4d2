// Package steps is the list of what is tested on a kernel in a virtual machine, and what runs it: each
// step's tests are counted, and a step that ran none, or skipped one for a reason that is not on the
// list, has failed.
package steps

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// A Step is one line of the list: tests of a package, or a command.
type Step struct {
	Name string
	// Package is the folder, below the module's root, of the tests to run; empty for a command.
	Package string
	// Tests are patterns as of go test -run, one a test: the first element names it in full.
	Tests []string
	// Args are go test's flags, without "-test.", or the command and its arguments.
	Args []string
}

// A List is what is to be run on one kernel.
type List struct {
	Steps []Step
	// Allowed are the reasons for which a test may be skipped.
	Allowed []*regexp.Regexp
}

// Parse reads the lines of a list that are for a kernel, by its release ("6.1.0-57-cloud-amd64"). Lines are
//
//	NAME   ON  test PACKAGE [-FLAG…] TEST…
//	NAME   ON  run COMMAND [ARGUMENT…]
//	allow  ON  REASON, a regular expression
//
// with ON all, tcx (Linux 6.6 and later) or clsact (before), and # before a remark. It returns an error
// that names the line where one is none of these, and one where no step is left.
func Parse(text, release string) (*List, error) {
	hook, err := hookOf(release)
	if err != nil {
		return nil, err
	}
	var list List
	for i, line := range strings.Split(text, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if len(words) < 3 {
			return nil, fmt.Errorf("line %d of the steps: %q is not NAME ON WHAT", i+1, line)
		}
		switch on := words[1]; on {
		case "all", "tcx", "clsact":
			if on != "all" && on != hook {
				continue
			}
		default:
			return nil, fmt.Errorf("line %d of the steps: %q is none of all, tcx, clsact", i+1, on)
		}
		if err := list.add(words[0], words[2:]); err != nil {
			return nil, fmt.Errorf("line %d of the steps: %w", i+1, err)
		}
	}
	if len(list.Steps) == 0 {
		return nil, fmt.Errorf("no step is for Linux %s", release)
	}
	return &list, nil
}

func (l *List) add(name string, what []string) error {
	if name == "allow" {
		reason, err := regexp.Compile(strings.Join(what, " "))
		if err != nil {
			return fmt.Errorf("the reason to skip is no regular expression: %w", err)
		}
		l.Allowed = append(l.Allowed, reason)
		return nil
	}
	step := Step{Name: name}
	switch kind, rest := what[0], what[1:]; kind {
	case "run":
		step.Args = rest
		if len(rest) == 0 {
			return fmt.Errorf("%s runs no command", name)
		}
	case "test":
		if len(rest) > 0 {
			step.Package, rest = rest[0], rest[1:]
		}
		for _, word := range rest {
			if strings.HasPrefix(word, "-") {
				step.Args = append(step.Args, strings.TrimPrefix(word, "-"))
				continue
			}
			if _, err := newPattern(word); err != nil {
				return err
			}
			step.Tests = append(step.Tests, word)
		}
		if len(step.Tests) == 0 {
			return fmt.Errorf("%s names no test", name)
		}
	default:
		return fmt.Errorf("%q is neither test nor run", kind)
	}
	l.Steps = append(l.Steps, step)
	return nil
}

// hookOf returns the hook that a kernel has: tcx from Linux 6.6 on, clsact before.
func hookOf(release string) (string, error) {
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		return "", errors.New("not a kernel's release: " + release)
	}
	if major > 6 || major == 6 && minor >= 6 {
		return "tcx", nil
	}
	return "clsact", nil
}

// A pattern selects tests, element by element of their names.
type pattern []*regexp.Regexp

func newPattern(text string) (pattern, error) {
	var p pattern
	for i, element := range strings.Split(text, "/") {
		if i == 0 {
			element = "^" + element + "$"
		}
		r, err := regexp.Compile(element)
		if err != nil {
			return nil, fmt.Errorf("%s is no pattern of tests: %w", text, err)
		}
		p = append(p, r)
	}
	return p, nil
}

func (p pattern) match(test string) bool {
	elements := strings.Split(test, "/")
	if len(elements) < len(p) {
		return false
	}
	for i, r := range p {
		if !r.MatchString(elements[i]) {
			return false
		}
	}
	return true
}

// String returns the pattern as go test takes it.
func (p pattern) String() string {
	var elements []string
	for _, r := range p {
		elements = append(elements, r.String())
	}
	return strings.Join(elements, "/")
}
