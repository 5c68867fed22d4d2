package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/tricolor-policer/tricolor/internal/capture"
	"github.com/tricolor-policer/tricolor/marker"
	"github.com/tricolor-policer/tricolor/pcaptest"
	"github.com/tricolor-policer/tricolor/policy"
)

// thenHelp describes --then.
const thenHelp = `
--then TIME=new.yaml changes the policy in the middle of each FILE: new.yaml takes over as of TIME, by the
capture's clock, as "tricolor apply" would have done it. TIME is nanoseconds since 1970, RFC 3339
(2026-01-02T15:04:05.123Z), or +12.5s: so long after the FILE's first record. Give several in order.`

// thens is the flag --then, as often as it is given.
type thens []then

// then is one change of policy in the middle of a capture.
type then struct {
	word  string // TIME, as it was written
	after bool   // at is since the first record, else since 1970
	at    uint64 // ns
	file  string

	plan    *marker.Plan    // compiled after the one before
	changes []policy.Change // from the one before
}

func addThen(flags *pflag.FlagSet, t *thens) {
	flags.Var(t, "then", "change to another policy FILE at TIME; with -f, as often as you like")
}

// String implements pflag.Value.
func (t *thens) String() string {
	words := make([]string, len(*t))
	for i, c := range *t {
		words[i] = c.word + "=" + c.file
	}
	return strings.Join(words, " ")
}

// Type implements pflag.Value.
func (*thens) Type() string { return "TIME=FILE" }

// Set implements pflag.Value.
func (t *thens) Set(word string) error {
	c := then{}
	var ok bool
	if c.word, c.file, ok = strings.Cut(word, "="); !ok || c.file == "" {
		return usage("say TIME=FILE, such as +12.5s=new.yaml")
	}
	var err error
	c.at, c.after, err = parseMoment(c.word)
	*t = append(*t, c)
	return err
}

// parseMoment reads nanoseconds since 1970, RFC 3339, or a time after the first record.
func parseMoment(word string) (ns uint64, after bool, err error) {
	if since, ok := strings.CutPrefix(word, "+"); ok {
		d, err := time.ParseDuration(since)
		if err != nil || strings.HasPrefix(since, "+") || d < 0 {
			return 0, false, usage("%q is no time after the first record: say +12.5s, +300ms or +1m30s", word)
		}
		return uint64(d), true, nil
	}
	if ns, err := strconv.ParseUint(word, 10, 64); err == nil {
		return ns, false, nil
	}
	moment, err := time.Parse(time.RFC3339Nano, word)
	if err != nil {
		return 0, false, usage("%q is no time: say +12.5s (after the first record), nanoseconds since 1970, or RFC 3339: 2026-01-02T15:04:05.123Z", word)
	}
	if moment.Before(time.Unix(0, 0)) || moment.After(time.Unix(0, math.MaxInt64)) {
		return 0, false, usage("%q is out of range: from 1970 to 2262", word)
	}
	return uint64(moment.UnixNano()), false, nil
}

// compile compiles each policy after the one before it, and prints its warnings.
func (t thens) compile(flags *policyFlags, plan *marker.Plan, stderr io.Writer) error {
	if len(t) > 0 && flags.file == "" {
		return usage("--then changes from one policy file to another: name the first with -f FILE")
	}
	for i := range t {
		p, err := policy.Load(t[i].file)
		if err != nil {
			return err
		}
		next, err := p.CompileAfter(plan)
		if err != nil {
			return err
		}
		warnPolicy(stderr, p, policy.Link{})
		t[i].plan, t[i].changes = next, policy.Diff(plan, next)
		plan = next
	}
	return nil
}

// plans are the policies, the last first, then that before all of them.
func (t thens) plans(first *marker.Plan) []*marker.Plan {
	plans := []*marker.Plan{first}
	for i := range t {
		plans = append(plans, t[i].plan)
	}
	slices.Reverse(plans)
	return plans
}

// resolve tells when the changes are by a capture's clock. It refuses, as usage, those out of order.
func (t thens) resolve(file string) ([]pcaptest.Change, error) {
	var first uint64
	if slices.ContainsFunc(t, func(c then) bool { return c.after }) {
		var err error
		if first, err = firstTime(file); err != nil {
			return nil, err
		}
	}
	changes := make([]pcaptest.Change, len(t))
	for i, c := range t {
		at := c.at
		if c.after {
			if at += first; at < first {
				at = math.MaxUint64
			}
		}
		if i > 0 && at < changes[i-1].At {
			return nil, usage("--then %s: is before --then %s in %s: give them in the order of time", c.word, t[i-1].word, file)
		}
		plan := *c.plan // Apply numbers it
		changes[i] = pcaptest.Change{At: at, Plan: &plan}
	}
	return changes, nil
}

// firstTime is the time stamp of a capture's first record; 0 where it has none.
func firstTime(file string) (uint64, error) {
	r, err := capture.Open(file)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	var p capture.Packet
	if err := r.Next(&p); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	return p.Time, nil
}

// unused says which changes never took place in a file.
func (t thens) unused(took int) (lines []string) {
	for _, c := range t[took:] {
		lines = append(lines, fmt.Sprintf("--then %s=%s: no record is as late: the change never took place", c.word, c.file))
	}
	return lines
}

// print says what changes.
func (t thens) print(w io.Writer) {
	for _, c := range t {
		fmt.Fprintf(w, "then, at %s, %s:\n", c.word, printable(c.file))
		printChanges(w, c.changes, false)
	}
}
