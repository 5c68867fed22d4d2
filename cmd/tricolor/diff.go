package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/tricolor-policer/tricolor/loader"
	"github.com/tricolor-policer/tricolor/marker"
	"github.com/tricolor-policer/tricolor/policy"
)

func newDiff() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff DEV -f FILE",
		Short: "Say what a policy file would change on a policed device (root)",
		Long: `Diff compares a policy file with the policy in force on a device, and says what "apply" would change: of
each class and meter whether it is changed, new or gone, and what becomes of its buckets. It changes nothing.

Exit codes: 0 nothing would change; 1 something would; 3 and 4 as everywhere; 2 anything else.`,
		Example: "  sudo tricolor diff eth0 --direction ingress -f new.yaml",
		Args:    needDevice,
	}
	direction := addDirection(cmd)
	var file string
	var verbose bool
	addFile(cmd.Flags(), &file, "policy `FILE` to compare with")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "also say what is kept")
	output := addOutput(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		p, err := loadFile(file)
		if err != nil {
			return err
		}
		unchanged := true
		err = found(args[0], direction, func(a *loader.Attachment) error {
			changes, err := differences(a, p, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if output.word == "json" {
				err = printJSON(cmd.OutOrStdout(), map[string]any{
					"device": a.Device, "direction": a.Direction().String(), "file": file,
					"unchanged": policy.Unchanged(changes), "changes": changesOf(changes),
				})
			} else {
				printChanges(cmd.OutOrStdout(), changes, verbose)
			}
			unchanged = policy.Unchanged(changes)
			return err
		})
		switch {
		case err != nil && exitCode(err) == exitFailed:
			return &usageError{err} // 1 says that something would change, and nothing else
		case err == nil && !unchanged:
			return errReported
		}
		return err
	}
	return cmd
}

// loadFile reads the policy file of a command that needs one.
func loadFile(file string) (*policy.Policy, error) {
	if file == "" {
		return nil, usage("name the policy with -f FILE")
	}
	return policy.Load(file)
}

// differences are what a policy would change on an attachment.
func differences(a *loader.Attachment, p *policy.Policy, stderr io.Writer) ([]policy.Change, error) {
	prev, pending, err := a.InForce()
	if err != nil {
		return nil, err
	}
	if pending > 0 {
		warn(stderr, "the policy in force is %s", unconfirmedFor(pending))
	}
	_, changes, err := compileChange(p, prev)
	return changes, err
}

// compileChange compiles a policy that takes over, and says what it changes.
func compileChange(p *policy.Policy, prev *marker.Plan) (*marker.Plan, []policy.Change, error) {
	next, err := p.CompileAfter(prev)
	if err != nil {
		return nil, nil, err
	}
	return next, policy.Diff(prev, next), nil
}
