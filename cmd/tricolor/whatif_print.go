package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/tricolor-policer/tricolor/internal/units"
	"github.com/tricolor-policer/tricolor/marker"
)

// print prints who gains and who loses for a person.
func (w *whatIf) print() error {
	out := w.stdout
	fmt.Fprintf(out, "before: %s\nafter:  %s\n", printable(w.sides[0].file), printable(w.sides[1].file))
	if w.changes != nil {
		printChanges(out, w.changes, false)
	}
	files := printable(w.files[0])
	if len(w.files) > 1 {
		files = plural(uint64(len(w.files)), "file", "files")
	}
	fmt.Fprintf(out, "\n%s: %s in %s\n", files, plural(w.records, "packet", "packets"), duration(w.span))
	for _, line := range []struct {
		n    countJSON
		text string
	}{{w.all.newly, "newly red"}, {w.all.noMore, "red no more"}, {w.all.worse, "green before, yellow now"}, {w.all.better, "yellow before, green now"}} {
		if line.n.Packets > 0 {
			fmt.Fprintf(out, "  %s: %s, %s B\n", line.text, plural(line.n.Packets, "packet", "packets"), units.FormatCount(line.n.Bytes))
		}
	}
	if !w.all.shifts() {
		fmt.Fprintln(out, "  every packet fares as before")
	}
	fmt.Fprintln(out, "\nclasses, those that lose most first (bytes of frames):")
	if err := printRows(out, "class", w.sorted(false), func(r named) string {
		switch {
		case strings.HasPrefix(r.class, "("): // no class of a policy
		case !r.before:
			return printable(r.class) + " (new)"
		case !r.after:
			return printable(r.class) + " (gone)"
		}
		return printable(r.class)
	}); err != nil {
		return err
	}
	keys := w.sorted(true)
	top := min(int(min(w.top, 1<<30)), len(keys))
	fmt.Fprintf(out, "\nkeys of which packets fare otherwise: %s of %s", units.FormatCount(uint64(len(keys))), units.FormatCount(uint64(w.keyCount())))
	if top == 0 {
		fmt.Fprintln(out)
		return nil
	}
	if fmt.Fprint(out, "; those that lose most first:\n"); top < len(keys) {
		defer fmt.Fprintf(out, "  and %d more\n", len(keys)-top)
	}
	return printRows(out, "key", keys[:top], func(r named) string { return printable(r.class + " " + r.key) })
}

var endNames = []string{
	end(marker.Green): "green", end(marker.Yellow): "yellow", end(marker.Red): "red", endPassed: "not policed", endDropped: "malformed",
}

// printRows prints a table of rows by colour.
func printRows(out io.Writer, head string, rows []named, name func(named) string) error {
	t := newNumbers(out)
	t.named(head, "colour", "packets before", "after", "bytes before", "after")
	for _, r := range rows {
		for f := range ends {
			before, after := r.ends[0][f], r.ends[1][f]
			if before.Packets+after.Packets > 0 {
				t.named(name(r), endNames[f], units.FormatCount(before.Packets), units.FormatCount(after.Packets),
					units.FormatCount(before.Bytes), units.FormatCount(after.Bytes))
			}
		}
		if r.newly.Packets > 0 {
			t.named(name(r), "newly red", "", units.FormatCount(r.newly.Packets), "", units.FormatCount(r.newly.Bytes))
		}
		if r.noMore.Packets > 0 {
			t.named(name(r), "red no more", "", units.FormatCount(r.noMore.Packets), "", units.FormatCount(r.noMore.Bytes))
		}
	}
	return t.flush()
}
