package main

import (
	"errors"
	"fmt"
	"io"

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
	}
	direction := addDirection(cmd)
	all := cmd.Flags().Bool("all", false, "all policers of this network namespace")
	cmd.Args = needDeviceOrAll(all)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *all {
			return upgradeAll(cmd.OutOrStdout())
		}
		return found(args[0], direction, func(a *loader.Attachment) error { return upgradeOne(cmd.OutOrStdout(), a) })
	}
	return cmd
}

func upgradeAll(w io.Writer) error {
	list, err := loader.List()
	here := 0
	for _, a := range list {
		switch {
		case !a.Here:
			sayLeft(w, a)
		case a.State == loader.Attached:
			here++
			if e := upgradeOne(w, a); e != nil {
				err = errors.Join(err, fmt.Errorf("%s %v: %w", a.Device, a.Direction(), e))
			}
		}
		err = errors.Join(err, a.Close())
	}
	if here == 0 && err == nil {
		fmt.Fprintln(w, "nothing is policed in this network namespace")
	}
	return err
}

func upgradeOne(w io.Writer, a *loader.Attachment) error {
	was, now := a.About.Version, versionText()
	changed, err := a.Upgrade(now)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("upgraded from tricolor %s to %s; policy, buckets and counters stay", printable(was), now)
	if !changed {
		what = fmt.Sprintf("the kernel program is that of this tricolor, %s, already", now)
	}
	_, err = fmt.Fprintf(w, "%s %v: %s\n", printable(a.Device), a.Direction(), what)
	return err
}
