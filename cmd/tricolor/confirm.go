package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tricolor-policer/tricolor/loader"
)

func newConfirm() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "confirm DEV",
		Short: "Keep the policy that \"apply --confirm\" put in force (root)",
		Long: `Confirm keeps the policy that "tricolor apply --confirm" put in force for a time. Where that time is over,
or nothing waits to be confirmed, it says so and exits 1.`,
		Example: "  sudo tricolor confirm eth0 --direction ingress",
		Args:    needDevice,
	}
	direction := addDirection(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return found(args[0], direction, func(a *loader.Attachment) error {
			if err := a.Confirm(); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s %v: the policy in force stays\n", printable(a.Device), a.Direction())
			return err
		})
	}
	return cmd
}
