package main

import "github.com/spf13/cobra"

// commands make the commands, in the order of the help.
var commands = []func() *cobra.Command{
	newCheck, newReplay, newExplain, newVerify, newCertify, newCompare, newFit, newWhatIf,
	newRun, newAttach, newDiff, newApply, newConfirm, newUpgrade, newSave, newRestore, newDetach, newGC, newShow, newTop, newDump, newMonitor, newRecord, newExporter,
	newDoctor, newDemo, newVersion,
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "tricolor",
		Short: "Police traffic packet by packet: three colours, exact to the byte",
		Long: `tricolor polices traffic packet by packet: it meters each flow (RFC 2697, RFC 2698, RFC 4115), marks
packets by colour and drops what is red, in the kernel, on an interface's TC hook; and it replays and
verifies captures.

Exit codes: 0 done; 1 anything but the following; 2 wrong usage or policy; 3 a privilege, a
kernel feature or the bpffs is missing; 4 no such device, or nothing attached to it; 5 a record that is not
whole, and proves nothing.`,
		Example: `  tricolor replay video.pcap --meter srtcm --cir 10mbit --cbs 96KiB --ebs 192KiB
  sudo tricolor attach eth0 --direction ingress -f policy.yaml
  sudo tricolor show eth0`,
		Args:              arguments(cobra.NoArgs),
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	cobra.EnableCommandSorting = false
	for _, command := range commands {
		root.AddCommand(command())
	}
	complete(root)
	return root
}
