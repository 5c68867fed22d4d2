package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/tricolor-policer/tricolor/loader"
)

func newDoctor() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say whether devices can be policed here, and what to do where not (root)",
		Long: `Doctor looks at what policing takes: the kernel, capabilities, bpffs, hooks, the JIT; and tries the program,
on none of the machine's devices. It changes nothing and leaves nothing.

Each check is ok, warn (it can be policed all the same) or fail, with what to do about it. Exit code 0:
devices can be policed; 3: they cannot.`,
		Example: "  sudo tricolor doctor\n  sudo tricolor doctor -o json",
		Args:    needNothing,
	}
	output := addOutput(cmd, "table", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		checks := loader.Preflight()
		verdict := loader.Ready(checks)
		show := showChecks
		if output.word == "json" {
			show = showChecksJSON
		}
		return errors.Join(show(cmd.OutOrStdout(), checks, verdict == nil), verdict)
	}
	return cmd
}

// showChecks prints a table of checks, with what to do below each that is not ok; and the verdict, where
// devices can be policed.
func showChecks(w io.Writer, checks []loader.Check, ready bool) error {
	wide := 0
	for _, c := range checks {
		wide = max(wide, len(c.Name))
	}
	warnings := 0
	for _, c := range checks {
		if c.Status == loader.Warning {
			warnings++
		}
		fmt.Fprintf(w, "%-4v  %-*s  %s\n", c.Status, wide, c.Name, printable(c.Found))
		if c.Do != "" {
			fmt.Fprintf(w, "%*s  do: %s\n", wide+len("fail  "), "", printable(c.Do))
		}
	}
	if !ready {
		return nil
	}
	text := "devices can be policed"
	if warnings > 0 {
		text += "; " + plural(uint64(warnings), "warning", "warnings")
	}
	_, err := fmt.Fprintf(w, "\n%s\n", text)
	return err
}

// checkJSON is a check as -o json prints it.
type checkJSON struct {
	Name   string `json:"name"`
	Status string `json:"status"` // ok, warn or fail
	Found  string `json:"found"`
	Do     string `json:"do,omitempty"`
}

func showChecksJSON(w io.Writer, checks []loader.Check, ready bool) error {
	out := struct {
		Ready  bool        `json:"ready"` // devices can be policed
		Checks []checkJSON `json:"checks"`
	}{Ready: ready}
	for _, c := range checks {
		out.Checks = append(out.Checks, checkJSON{c.Name, c.Status.String(), c.Found, c.Do})
	}
	return printJSON(w, out)
}
