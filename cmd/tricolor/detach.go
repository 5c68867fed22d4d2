package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tricolor-policer/tricolor/loader"
)

func newDetach() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "detach DEV",
		Short: "Take the policer off a device (root)",
		Long: `Detach takes the policer off a device's hook and removes its pins: its counters and buckets are gone.
After the last one nothing remains under ` + loader.Root + `.`,
		Example: "  sudo tricolor detach eth0 --direction ingress",
		Args:    needDevice,
	}
	word := addDirection(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		direction, err := loader.ParseDirection(word.word)
		if err != nil {
			return &usageError{err}
		}
		a, err := loader.Find(args[0], direction)
		if err != nil {
			return err
		}
		if err := errors.Join(a.Detach(), a.Close()); err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s %v is policed no longer\n", printable(a.Device), direction)
		return err
	}
	return cmd
}
