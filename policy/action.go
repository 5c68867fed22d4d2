package policy

import (
	"fmt"
	"strings"

	"github.com/tricolor-policer/tricolor/marker"
)

const verbHelp = "say pass, drop, dscp=NAME (a name such as af11, ef or cs1, or a number from 0 to 63), ecn-ce, mark=N or priority=N"

// verbs are the verbs of a policy, in the order in which they are told.
var verbs = []string{"pass", "drop", "ecn-ce", "dscp", "mark", "priority"}

// parseAction reads what is done to a colour: pass, drop, or several with commas: ecn-ce,dscp=af12,mark=5.
func parseAction(s string) (marker.Action, error) {
	given := map[string]string{}
	for _, word := range strings.Split(s, ",") {
		verb, value, valued := strings.Cut(strings.TrimSpace(word), "=")
		if _, twice := given[verb]; twice {
			return marker.Action{}, fmt.Errorf("%q says %s twice: keep one", s, verb)
		}
		switch verb {
		case "pass", "drop", "ecn-ce":
			valued = !valued
		case "dscp", "mark", "priority":
		default:
			valued = false
		}
		if !valued {
			return marker.Action{}, fmt.Errorf("%q is no verb: %s", word, verbHelp)
		}
		given[verb] = value
	}
	return action(given)
}

// action puts verbs with their values together.
func action(given map[string]string) (a marker.Action, err error) {
	for _, verb := range verbs {
		value, ok := given[verb]
		if !ok {
			continue
		}
		var n uint64
		switch verb {
		case "drop":
			a.Verbs |= marker.VerbDrop
		case "ecn-ce":
			a.Verbs |= marker.VerbCE
		case "dscp":
			a.Verbs |= marker.VerbDSCP
			a.DSCP, err = marker.ParseDSCP(value)
		case "mark":
			a.Verbs |= marker.VerbMark
			n, err = parseNumber(value, "mark", 1<<32-1)
			a.Mark = uint32(n)
		case "priority":
			a.Verbs |= marker.VerbPriority
			n, err = parseNumber(value, "priority", 1<<32-1)
			a.Priority = uint32(n)
		}
		if err != nil {
			return marker.Action{}, err
		}
	}
	return a, contradiction(given)
}

// contradiction refuses verbs that cannot stand together.
func contradiction(given map[string]string) error {
	has := func(verb string) bool { _, ok := given[verb]; return ok }
	switch {
	case has("drop") && len(given) > 1:
		return fmt.Errorf("a packet that is dropped cannot also be marked or passed: say drop alone, or leave it out")
	case has("pass") && has("dscp"):
		return fmt.Errorf("pass leaves the DSCP as it is, dscp writes it: say one of them")
	}
	return nil
}
