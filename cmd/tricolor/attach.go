package main

import (
	"fmt"
	"io"
	"math"

	"github.com/spf13/cobra"

	"github.com/tricolor-policer/tricolor/loader"
	"github.com/tricolor-policer/tricolor/marker"
)

func newAttach() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "attach DEV",
		Short: "Police a device's packets from now on (root)",
		Long: `Attach puts the policer on a device's TC hook. It goes on after the command has ended, until detach: its
program and maps are pinned under ` + loader.Root + `. A second attach is refused: "tricolor apply" changes the policy.

Others on the hook stay, and see every packet that is let through. All of TCX comes before all tc filters.
The policer goes behind all that are there, unless --before or --after (TCX) or --prio (clsact) say else;
"tricolor show DEV" lists them with their ids.
` + policyHelp,
		Example: `  sudo tricolor attach eth0 --direction ingress -f policy.yaml
  sudo tricolor attach eth0 --direction ingress --meter srtcm --cir 10mbit --cbs 96KiB --ebs 192KiB --yellow dscp=af12
  sudo tricolor attach eth0 --direction egress --meter token --cir 1gbit --cbs 20ms --per class
  sudo tricolor attach eth0 --before cil_from_netdev -f policy.yaml
  sudo tricolor show eth0`,
		Args: needDevice,
	}
	a := &attacher{direction: addDirection(cmd), hook: addHook(cmd)}
	cmd.Flags().BoolVar(&a.drained, "drained", false, "buckets start as if they had been empty at boot, not full: after a crash, nobody gets a second burst")
	cmd.Flags().StringVar(&a.place.Before, "before", "", "on TCX: go before `PROG`, a program's id or name, or all")
	cmd.Flags().StringVar(&a.place.After, "after", "", "on TCX: go after `PROG`, a program's id or name, or all")
	cmd.Flags().Var(&a.priority, "prio", "on clsact: the filter's priority, 1 to 65535; lower ones see a packet first")
	a.flags = addPolicy(cmd.Flags(), 0, "seed of the table's hash; 0: random, so that nobody can choose flows that collide")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed("prio") && (a.priority < 1 || a.priority > math.MaxUint16) {
			return usage("--prio %d: say from 1 to 65535", a.priority)
		}
		for _, place := range []string{"before", "after"} {
			if f := cmd.Flags().Lookup(place); f.Changed && f.Value.String() == "" {
				return usage("--%s says nobody: give a program's id or name, or all", place)
			}
		}
		a.place.Priority = uint16(a.priority)
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

// addHook adds --hook.
func addHook(cmd *cobra.Command) *choice {
	c := newChoice("auto", "tcx", "clsact")
	cmd.Flags().Var(c, "hook", "where to attach: tcx (Linux 6.6 or newer), clsact, or auto: tcx where the kernel has it")
	return c
}

// attacher is the attach command.
type attacher struct {
	flags           *policyFlags
	direction, hook *choice
	place           loader.Place
	priority        plain
	drained         bool
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
	options := loader.AttachOptions{Direction: direction, Mechanism: hook, Place: a.place, Version: versionText(), Drained: a.drained}
	if seed := uint64(*a.flags.seed); seed != 0 {
		options.Seeds = marker.SeedsFrom(seed)
	}
	// Version is kept in 32 bytes.
	options.Version = options.Version[:min(len(options.Version), 31)]
	attachment, err := loader.Attach(device, plan, options)
	if err != nil {
		return err
	}
	warnPolicy(stderr, p, linkOf(attachment.Device))
	name := printable(attachment.Device)
	fmt.Fprintf(stdout, "%s %v is policed (hook %v); \"tricolor show %[1]s\" shows it, \"tricolor detach %[1]s --direction %[2]v\" takes it off\n",
		name, direction, attachment.Mechanism)
	return attachment.Close()
}
