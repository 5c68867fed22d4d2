package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/tricolor-policer/tricolor/policy"
)

// printChanges prints what becomes of each part of a policy, aligned; what is kept only where all is
// asked for.
func printChanges(w io.Writer, changes []policy.Change, all bool) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	kept := 0
	for _, c := range changes {
		if c.Kind == policy.Kept && !all {
			kept++
			continue
		}
		text := printable(c.Text)
		if text != "" {
			text = "\t" + text
		}
		fmt.Fprintf(t, "  %v\t%s%s\n", c.Kind, printable(c.Part), text)
	}
	_ = t.Flush() // what cannot be written will not be written later either
	switch {
	case policy.Unchanged(changes):
		fmt.Fprintln(w, "nothing changes")
	case kept > 0:
		fmt.Fprintf(w, "  kept as they are: %s\n", plural(uint64(kept), "part", "parts"))
	}
}

// changeJSON is a change as -o json prints it.
type changeJSON struct {
	Part string `json:"part"`
	Kind string `json:"kind"` // kept, changed, new, gone
	Text string `json:"text,omitempty"`
}

func changesOf(changes []policy.Change) []changeJSON {
	out := []changeJSON{}
	for _, c := range changes {
		out = append(out, changeJSON{c.Part, c.Kind.String(), c.Text})
	}
	return out
}
