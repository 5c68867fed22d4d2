package main

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/tricolor-policer/tricolor/loader"
)

func newSave() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "save DEV --to FILE | --all --to FOLDER",
		Short: "Take the policer off a device, and keep its buckets in a file (root)",
		Long: `Save is detach, but that a file holds all that the policer knew: policy, every bucket, counters. "tricolor restore"
has it go on, before or after a reboot: nobody gets a fresh burst by that. From then on the device is not
policed: save when its traffic has ended, as at shutdown.

A policy that "apply --confirm" put in force and nobody confirmed is not saved: the one before is. What is
stale (its device is gone) can be saved too. With --all, what polices a device goes to the FOLDER as
DEVICE.DIRECTION.save; "tricolor run" takes it up from there.`,
		Example: `  sudo tricolor save eth0 --direction ingress --to eth0.save
  sudo tricolor restore eth0 --from eth0.save`,
		Args: arguments(cobra.MaximumNArgs(1)),
	}
	direction := addDirection(cmd)
	to := cmd.Flags().String("to", "", "write `FILE`; with --all, files in this folder")
	all := cmd.Flags().Bool("all", false, "all policers of this network namespace")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		save := func(a *loader.Attachment, file string) error {
			if err := a.Save(file, versionText()); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s %v is policed no longer; %s holds its buckets (tricolor restore)\n",
				printable(a.Device), a.Direction(), printable(file))
			return err
		}
		switch {
		case *to == "":
			return usage("say where with --to")
		case *all && (len(args) != 0 || cmd.Flags().Changed("direction")):
			return usage("--all is all devices, in both directions: leave DEV and --direction out")
		case !*all && len(args) == 0:
			return usage("name one DEV, or say --all")
		case !*all:
			return found(args[0], direction, func(a *loader.Attachment) error { return save(a, *to) })
		}
		list, err := loader.List()
		for _, a := range list {
			if !a.Here {
				sayLeft(cmd.OutOrStdout(), a)
			} else if e := save(a, filepath.Join(*to, loader.SaveName(a.Device, a.Direction()))); e != nil {
				err = errors.Join(err, fmt.Errorf("%s %v: %w", a.Device, a.Direction(), e))
			}
			err = errors.Join(err, a.Close())
		}
		return err
	}
	return cmd
}
