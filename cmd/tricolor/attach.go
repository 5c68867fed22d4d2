package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/tricolor-policer/tricolor/loader"
	"github.com/tricolor-policer/tricolor/marker"
)

func newAttach() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "attach DEV",
		Short: "Police a device's packets from now on (root)",
		Long: `Attach puts the policer on a device's TC hook. It goes on after the command has ended, until detach: its
program and maps are pinned under ` + loader.Root + `.
` + policyHelp,
		Example: `  sudo tricolor attach eth0 --direction ingress -f policy.yaml
  sudo tricolor attach eth0 --direction ingress --meter srtcm --cir 10mbit --cbs 96KiB --ebs 192KiB --yellow dscp=af12
  sudo tricolor attach eth0 --direction egress --meter token --cir 1gbit --cbs 20ms --per class
  sudo tricolor show eth0`,
		Args: needDevice,
	}
	a := &attacher{direction: addDirection(cmd), hook: newChoice("auto", "tcx", "clsact")}
	cmd.Flags().Var(a.hook, "hook", "where to attach: tcx (Linux 6.6 or newer), clsact, or auto: tcx where the kernel has it")
	a.flags = addPolicy(cmd.Flags(), 0, "seed of the table's hash; 0: random, so that nobody can choose flows that collide")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.run(args[0], cmd.OutOrStdout(), cmd.ErrOrStderr())
	}
	return cmd
}

// addDirection adds --direction.
func addDirection(cmd *cobra.Command) *choice {
	c := newChoice(loader.Ingress.String(), loader.Egress.String())
	cmd.Flags().Var(c, "direction", "which packets: ingress (they arrive) or egress (they leave)")
	return c
}

// attacher is the attach command.
type attacher struct {
	flags           *policyFlags
	direction, hook *choice
}

func (a *attacher) run(device string, stdout, stderr io.Writer) error {
	p, plan, err := a.flags.compile()
	if err != nil {
		return err
	}
	direction, err := loader.ParseDirection(a.direction.word)
	if err != nil {
		return &usageError{err}
	}
	hook, err := loader.ParseMechanism(a.hook.word)
	if err != nil {
		return &usageError{err}
	}
	options := loader.AttachOptions{Direction: direction, Mechanism: hook, Version: versionText()}
	if seed := uint64(*a.flags.seed); seed != 0 {
		options.Seeds = marker.SeedsFrom(seed)
	}
	// Version is kept in 32 bytes.
	options.Version = options.Version[:min(len(options.Version), 31)]
	attachment, err := loader.Attach(device, plan, options)
	if err != nil {
		return err
	}
	warnPolicy(stderr, p, linkOf(device))
	name := printable(attachment.Device)
	fmt.Fprintf(stdout, "%s %v is policed (hook %v); \"tricolor show %[1]s\" shows it, \"tricolor detach %[1]s --direction %[2]v\" takes it off\n",
		name, direction, attachment.Mechanism)
	return attachment.Close()
}
