package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tricolor-policer/tricolor/loader"
)

func newUpgrade() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "upgrade DEV | --all",
		Short: "Have this version's kernel program police in the place of an older one (root)",
		Long: `Upgrade puts this version's kernel program in the place of the one that polices a device, at once for each
packet. It works on the same maps: policy, buckets and counters stay, and no packet goes unpoliced. Where the
new program cannot be loaded the old one polices on.

Where the maps of the other version have another layout it says so, and changes nothing: detach with that
version, then attach with this one; the buckets start anew.`,
		Example: "  sudo tricolor upgrade eth0 --direction ingress\n  sudo tricolor upgrade --all",
		Args:    arguments(cobra.MaximumNArgs(1)),
	}
	direction := addDirection(cmd)
	all := cmd.Flags().Bool("all", false, "every device that is policed, in both directions")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		upgrade := func(a *loader.Attachment) error { return upgradeOne(cmd, a) }
		switch {
		case *all && (len(args) != 0 || cmd.Flags().Changed("direction")):
			return usage("--all is every device in both directions: leave DEV and --direction out")
		case !*all && len(args) == 0:
			return usage("name one DEV, or say --all")
		case !*all:
			return found(args[0], direction, upgrade)
		}
		list, err := loader.List()
		if len(list) == 0 && err == nil {
			_, err = fmt.Fprintln(cmd.OutOrStdout(), "nothing is policed")
		}
		for _, a := range list {
			if e := upgrade(a); e != nil {
				err = errors.Join(err, fmt.Errorf("%s %v: %w", a.Device, a.Direction(), e))
			}
			err = errors.Join(err, a.Close())
		}
		return err
	}
	return cmd
}

func upgradeOne(cmd *cobra.Command, a *loader.Attachment) error {
	was, now := a.About.Version, versionText()
	changed, err := a.Upgrade(now)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("upgraded from tricolor %s to %s; policy, buckets and counters stay", printable(was), now)
	if !changed {
		what = fmt.Sprintf("the kernel program is that of this tricolor (%s) already", now)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s %v: %s\n", printable(a.Device), a.Direction(), what)
	return err
}
