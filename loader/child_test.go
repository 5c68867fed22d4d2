package loader

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/tricolor-policer/tricolor/bpf"
	"github.com/tricolor-policer/tricolor/internal/netlab"
	"github.com/tricolor-policer/tricolor/marker"
	"github.com/tricolor-policer/tricolor/policy"
)

// childCommand has a process of the tests carry out one command and nothing else, as a person's command
// line would.
const childCommand = "TRICOLOR_TEST_COMMAND"

// command is what such a process does, on the device and in the network namespace it is started in. It works
// on what arrives.
type command struct {
	verb      string // attach, change, upgrade, save, restore, detach
	device    string
	mechanism Mechanism
	confirm   time.Duration // of a change: how long it may wait
	policy    string        // of attach and change: its text; of save and restore: the file
	last      string        // the step at which the process kills itself; "": at none
}

func (c *command) fields() []any {
	return []any{&c.verb, &c.device, &c.mechanism, &c.confirm, &c.last, &c.policy}
}

func (c *command) String() string {
	return fmt.Sprintf("%q %q %d %d %q %q", c.verb, c.device, c.mechanism, c.confirm, c.last, c.policy)
}

// child carries the command out that the environment names, and reports whether it names one.
func child() bool {
	text, found := os.LookupEnv(childCommand)
	if !found {
		return false
	}
	c := new(command)
	_, err := fmt.Sscanf(text, "%q %q %d %d %q %q", c.fields()...)
	if err == nil {
		step = func(name string) {
			if name == c.last {
				_ = unix.Kill(os.Getpid(), unix.SIGKILL)
				select {}
			}
		}
		err = c.carryOut()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

func (c *command) carryOut() error {
	if c.verb == "attach" {
		plan, err := c.compile(nil)
		if err != nil {
			return err
		}
		a, err := Attach(c.device, plan, AttachOptions{Mechanism: c.mechanism})
		if err != nil {
			return err
		}
		return a.Close()
	}
	if c.verb == "restore" {
		a, _, err := Restore(c.device, c.policy, AttachOptions{Mechanism: c.mechanism})
		if err != nil {
			return err
		}
		return a.Close()
	}
	a, err := Find(c.device, Ingress)
	if err != nil {
		return err
	}
	switch c.verb {
	case "change":
		_, err = a.Change(c.confirm, c.compile)
	case "upgrade":
		beAnother()
		_, err = a.Upgrade("the child's")
	case "save":
		err = a.Save(c.policy, "the child's")
	case "detach":
		err = a.Detach()
	default:
		err = fmt.Errorf("%q is no command", c.verb)
	}
	return errors.Join(err, a.Close())
}

func (c *command) compile(prev *marker.Plan) (*marker.Plan, error) {
	p, err := policy.Parse("policy.yaml", []byte(c.policy), nil)
	if err != nil {
		return nil, err
	}
	return p.CompileAfter(prev)
}

// otherBuild is the kernel program of another build, which does the same: with one instruction more, that
// does nothing.
func otherBuild() (*ebpf.CollectionSpec, error) {
	spec, err := bpf.LoadPolicer()
	if err != nil {
		return nil, err
	}
	p := spec.Programs[bpf.PolicerProgPolicer]
	if first := p.Instructions[0]; first.OpCode.JumpOp() != asm.InvalidJumpOp {
		return nil, errors.New("the program begins with a jump")
	}
	p.Instructions = append(asm.Instructions{p.Instructions[0], asm.Mov.Reg(asm.R1, asm.R1)}, p.Instructions[1:]...)
	return spec, nil
}

// beAnother has this process be of another build from now on, beAgain of this one.
func beAnother() { newSpec, objectHash = otherBuild, func() [32]byte { return [32]byte{1} } }
func beAgain()   { newSpec, objectHash = bpf.LoadPolicer, bpf.ObjectSHA256 }

// killed runs the command in the host's namespace, and has it killed: at its last step, or, where that is "",
// after some time. It reports whether it was, and did not end first.
func (c *command) killed(tb testing.TB, h *netlab.Host, after time.Duration) (killed bool) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	defer cancel()
	if c.last == "" {
		ctx, cancel = context.WithTimeout(ctx, after)
		defer cancel()
	}
	cmd := exec.CommandContext(ctx, "/proc/self/exe") // killed by SIGKILL at the end of ctx
	cmd.Env = append(os.Environ(), childCommand+"="+c.String())
	var out []byte
	err := h.Do(func() (err error) {
		out, err = cmd.CombinedOutput()
		return err
	})
	var exit *exec.ExitError
	switch {
	case err == nil:
		return false
	case errors.As(err, &exit) && !exit.Exited(), errors.Is(err, context.DeadlineExceeded):
		return true
	}
	tb.Errorf("%s: %v: %s", c.verb, err, out)
	return false
}
