package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/tricolor-policer/tricolor/loader"
)

func newGC() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "Remove the pins of policers whose device is gone (root)",
		Long: `Gc removes pins of no use under ` + loader.Root + `, of every network namespace, and says which: those that are
stale, since their device is gone or somebody took the policer off the hook; and what commands that were
killed left. It touches nothing that polices.

A policer on clsact is looked for in its own network namespace. Where that is not found, be it gone or kept
by something without a path, its pins stay; --unseen removes these too: should the filter be there still, it
goes on without pins, and only tc can take it off.`,
		Example: "  sudo tricolor gc --dry-run\n  sudo tricolor gc",
		Args:    needNothing,
	}
	var o loader.GCOptions
	cmd.Flags().BoolVarP(&o.DryRun, "dry-run", "n", false, "only say what would be removed")
	cmd.Flags().BoolVar(&o.Unseen, "unseen", false, "remove the pins of network namespaces that are not found, too")
	output := addOutput(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		all, err := loader.GC(o)
		if len(all) == 0 && err != nil {
			return err
		}
		if output.word == "json" {
			if failed := printJSON(cmd.OutOrStdout(), gcOf(all, o)); failed != nil {
				return failed
			}
		} else {
			printGC(cmd.OutOrStdout(), all, o)
		}
		return err
	}
	return cmd
}

// garbageJSON is a folder of pins as gc -o json prints it.
type garbageJSON struct {
	Path      string `json:"path"`
	Why       string `json:"why"` // stale, leftover, unseen
	Device    string `json:"device,omitempty"`
	Direction string `json:"direction,omitempty"`
	Ifindex   uint32 `json:"ifindex,omitempty"`
	NetNS     uint64 `json:"netns,omitempty"`
	Removed   bool   `json:"removed"` // or, in a dry run, would be
}

func gcOf(all []loader.Garbage, o loader.GCOptions) map[string]any {
	out := []garbageJSON{}
	for _, g := range all {
		j := garbageJSON{Path: g.Path, Why: g.Why.String(), Device: g.Device, Ifindex: g.Ifindex, NetNS: g.NetNS, Removed: g.Removed}
		if g.Why != loader.Leftover {
			j.Direction = g.Direction.String()
		}
		out = append(out, j)
	}
	return map[string]any{"dry_run": o.DryRun, "pins": out}
}

func printGC(w io.Writer, all []loader.Garbage, o loader.GCOptions) {
	if len(all) == 0 {
		fmt.Fprintln(w, "nothing to remove")
	}
	for _, g := range all {
		did := "left"
		switch {
		case g.Removed && o.DryRun:
			did = "would remove"
		case g.Removed:
			did = "removed"
		}
		what := fmt.Sprintf("%s %v (index %d)", printable(g.Device), g.Direction, g.Ifindex)
		if g.NetNS != ownNetNS() {
			what += " in " + namespace(g.NetNS)
		}
		switch {
		case g.Why == loader.Leftover:
			what = "what a killed command left"
		case g.Why == loader.StalePins:
			what += ", which is stale"
		case !g.Removed:
			what += ", which is not found: if you know that it is gone, --unseen removes the pins"
		default:
			what += ", which is not found"
		}
		fmt.Fprintf(w, "%s %s: %s\n", did, g.Path, what)
	}
}
