package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/tricolor-policer/tricolor/loader"
	"github.com/tricolor-policer/tricolor/marker"
	"github.com/tricolor-policer/tricolor/policy"
)

func newApply() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "apply DEV -f FILE",
		Short: "Change the policy of a policed device while it runs (root)",
		Long: `Apply puts a policy file in force on a device that is policed: each packet meets the old policy or the new
one. Buckets and counters go on where a class's name, the meter's place in its chain, per and the unit are
the same: nobody gets a fresh burst. It prints first what changes; "tricolor diff" prints that alone.

With --confirm the new policy is in force for so long, then the one before is again, by the kernel's own
clock, unless "tricolor confirm" came first: whoever cut off his own connection only has to wait. Until then
no other change is taken. Where the policy is wrong, or nothing changes, all stays as it is.`,
		Example: `  sudo tricolor apply eth0 --direction ingress -f new.yaml
  sudo tricolor apply eth0 -f new.yaml --confirm 60s
  sudo tricolor confirm eth0`,
		Args: needDevice,
	}
	direction := addDirection(cmd)
	a := applier{}
	addFile(cmd.Flags(), &a.file, "policy `FILE` to put in force")
	cmd.Flags().DurationVar(&a.confirm, "confirm", 0, "go back to the policy before after `TIME`, such as 60s, unless confirmed")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed("confirm") && (a.confirm < time.Second || a.confirm > loader.MaxConfirm) {
			return usage("--confirm %v: say from 1s to %v, or leave it out", a.confirm, loader.MaxConfirm)
		}
		a.stdout, a.stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
		p, err := loadFile(a.file)
		if err != nil {
			return err
		}
		a.policy = p
		return found(args[0], direction, a.apply)
	}
	return cmd
}

// applier is the apply command.
type applier struct {
	file           string
	confirm        time.Duration
	policy         *policy.Policy
	stdout, stderr io.Writer
}

// errUnchanged stops a change of nothing.
var errUnchanged = errors.New("nothing changes")

func (c *applier) apply(a *loader.Attachment) error {
	started := time.Now()
	_, err := a.Change(c.confirm, func(prev *marker.Plan) (*marker.Plan, error) {
		next, changes, err := compileChange(c.policy, prev)
		if err != nil {
			return nil, err
		}
		warnPolicy(c.stderr, c.policy, linkOf(a.Device))
		printChanges(c.stdout, changes, false)
		if policy.Unchanged(changes) {
			return nil, errUnchanged
		}
		return next, nil
	})
	switch {
	case errors.Is(err, errUnchanged):
		return nil
	case err != nil:
		return err
	}
	name := fmt.Sprintf("%s %v", printable(a.Device), a.Direction())
	if c.confirm == 0 {
		_, err = fmt.Fprintf(c.stdout, "%s: %s is in force\n", name, printable(c.file))
		return err
	}
	_, err = fmt.Fprintf(c.stdout, "%s: %s is in force until about %s; then the policy before is again, unless you say: tricolor confirm %s --direction %v\n",
		name, printable(c.file), started.Add(c.confirm).Format(time.DateTime), printable(a.Device), a.Direction())
	return err
}

// unconfirmedFor says how long an unconfirmed policy stays.
func unconfirmedFor(pending time.Duration) string {
	return fmt.Sprintf("unconfirmed: the policy before is in force again in %s unless confirmed", seconds(pending))
}

// seconds prints a time to wait, rounded up to seconds.
func seconds(d time.Duration) string {
	n := uint64((d + time.Second - 1) / time.Second)
	if n < 120 {
		return fmt.Sprintf("%d s", n)
	}
	return fmt.Sprintf("%d min %d s", n/60, n%60)
}
