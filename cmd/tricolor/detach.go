package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/tricolor-policer/tricolor/loader"
)

func newDetach() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "detach DEV | --all",
		Short: "Take the policer off a device (root)",
		Long: `Detach takes the policer off a device's hook and removes its pins: its counters and buckets are gone.
Others on the hook stay. After the last one nothing remains under ` + loader.Root + `. Where DEV has no policer
it says so, changes nothing, and exits 4.

With --all it takes off all policers of this network namespace, of both directions, and those whose device
is gone; it says what it left in other namespaces. Where there are none, that is fine.`,
		Example: "  sudo tricolor detach eth0 --direction ingress\n  sudo tricolor detach --all",
	}
	word := addDirection(cmd)
	all := cmd.Flags().Bool("all", false, "take off all policers of this network namespace")
	cmd.Args = needDeviceOrAll(all)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *all {
			return detachAll(cmd.OutOrStdout())
		}
		return found(args[0], word, func(a *loader.Attachment) error {
			if err := a.Detach(); err != nil {
				return err
			}
			return sayDetached(cmd.OutOrStdout(), a)
		})
	}
	return cmd
}

func sayDetached(w io.Writer, a *loader.Attachment) error {
	_, err := fmt.Fprintf(w, "%s %v is policed no longer\n", printable(a.Device), a.Direction())
	return err
}

func detachAll(w io.Writer) error {
	taken, left, err := loader.DetachAll()
	for _, a := range taken {
		err = errors.Join(err, sayDetached(w, a), a.Close())
	}
	if len(taken) == 0 && err == nil {
		fmt.Fprintln(w, "nothing is policed in this network namespace")
	}
	for _, a := range left {
		if !a.Here {
			sayLeft(w, a)
		}
		err = errors.Join(err, a.Close())
	}
	return err
}

// sayLeft says that a command for all of this network namespace leaves an attachment, which is in another.
func sayLeft(w io.Writer, a *loader.Attachment) {
	fmt.Fprintf(w, "left: %s %v, in %s\n", printable(a.Device), a.Direction(), otherNetNS(a))
}

// otherNetNS says which network namespace an attachment is in that is not in this one.
func otherNetNS(a *loader.Attachment) string {
	if a.State == loader.Moved {
		return "another network namespace, to which its device was moved"
	}
	return namespace(a.About.NetNS)
}
