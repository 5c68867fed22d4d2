package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/tricolor-policer/tricolor/internal/demo"
)

func newDemo() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Police real traffic between two network namespaces, and prove the outcome (root)",
		Long: `Demo makes two network namespaces and a veth pair between them, polices what leaves one, sends UDP and TCP
under, near and over the rate, and compares what a capture on the other side counted with the policer's
own counters. It exits 1 where the two disagree. It takes a few seconds, touches no device of yours, and
nothing that it made is left, however it ends.`,
		Example: "  sudo tricolor demo",
		Args:    needNothing,
	}
	var o demo.Options
	cmd.Flags().BoolVar(&o.Tamper, "tamper", false, "alter one count of the far side, which must be seen")
	cmd.Flags().Lookup("tamper").Hidden = true
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		err := demo.Run(cmd.Context(), cmd.OutOrStdout(), o)
		if errors.Is(err, demo.ErrDisagree) {
			return errReported // the last line says so
		}
		return err
	}
	return cmd
}
