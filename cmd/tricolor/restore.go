package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tricolor-policer/tricolor/loader"
)

func newRestore() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "restore DEV --from FILE",
		Short: "Police a device with what \"save\" has kept (root)",
		Long: `Restore attaches a policer that goes on where the saved one ended: the same policy, direction, buckets and
counters. In the boot that it was saved in, buckets have earned meanwhile as ever. After a reboot they hold what
they held when it was saved: nobody knows how long the machine was down, so nothing is earned for it.
Then "apply" changes the policy as ever.

The file is used up by that, and gone: restored twice, it would grant every burst twice. Where restore fails it
stays.`,
		Example: "  sudo tricolor restore eth0 --from eth0.save",
		Args:    needDevice,
	}
	from := cmd.Flags().String("from", "", "`FILE` that save has written")
	hook := addHook(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *from == "" {
			return usage("name the file with --from FILE")
		}
		mechanism, err := loader.ParseMechanism(hook.word)
		if err != nil {
			return &usageError{err}
		}
		a, image, err := loader.Restore(args[0], *from, loader.AttachOptions{Mechanism: mechanism, Version: versionText()})
		if err != nil {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s %v is policed again (hook %v), as %s was until %s\n", printable(a.Device), a.Direction(), a.Mechanism,
			printable(image.Device), time.Unix(int64(image.Date), 0).Format(time.DateTime))
		return a.Close()
	}
	return cmd
}
