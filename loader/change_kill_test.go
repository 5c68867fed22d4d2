package loader

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tricolor-policer/tricolor/internal/netlab"
	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/maps"
	"github.com/tricolor-policer/tricolor/marker"
	"github.com/tricolor-policer/tricolor/policy"
)

// childChange has a process of the tests change a policy and do nothing else. It names the step at which
// the process kills itself, and how long the change may wait for a confirmation; childPolicy is the policy.
const (
	childChange = "TRICOLOR_TEST_CHANGE"
	childPolicy = "TRICOLOR_TEST_POLICY"
)

// changeChild is such a process: it changes the only attachment that there is, and reports whether it is one.
func changeChild() bool {
	last, confirm, found := strings.Cut(os.Getenv(childChange), ":")
	if !found {
		return false
	}
	err := func() error {
		wait, err := time.ParseDuration(confirm)
		if err != nil {
			return err
		}
		all, err := List()
		if err != nil || len(all) != 1 {
			return errors.Join(err, fmt.Errorf("%d attachments", len(all)))
		}
		step = func(name string) {
			if name == last {
				_ = unix.Kill(os.Getpid(), unix.SIGKILL)
				select {}
			}
		}
		_, err = all[0].Change(wait, func(prev *marker.Plan) (*marker.Plan, error) {
			p, err := policy.Parse("policy.yaml", []byte(os.Getenv(childPolicy)), nil)
			if err != nil {
				return nil, err
			}
			return p.CompileAfter(prev)
		})
		return err
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

// killedChange runs a process that changes the policy, and has it killed: at a step, or, where that is "",
// after some time. It reports whether it was, and did not end first.
func killedChange(tb testing.TB, last string, after time.Duration, confirm time.Duration, text string) (killed bool) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	defer cancel()
	if last == "" {
		ctx, cancel = context.WithTimeout(ctx, after)
		defer cancel()
	}
	c := exec.CommandContext(ctx, "/proc/self/exe") // killed by SIGKILL at the end of ctx
	c.Env = append(os.Environ(), fmt.Sprintf("%s=%s:%v", childChange, last, confirm), childPolicy+"="+text)
	out, err := c.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return false
	case errors.As(err, &exit) && !exit.Exited(), errors.Is(err, context.DeadlineExceeded):
		return true
	}
	tb.Errorf("the command that changes the policy: %v: %s", err, out)
	return false
}

// A command that is killed, at whatever moment, leaves the policy before or the new one, whole; not one
// packet passes unpoliced; a trial ends without it; and the next command finishes its work.
func TestChangeKilled(t *testing.T) {
	for _, m := range mechanisms {
		t.Run(m.String(), func(t *testing.T) { testChangeKilled(t, m) })
	}
}

func testChangeKilled(t *testing.T, m Mechanism) {
	t.Helper()
	needs(t, m)
	lab := newLab(t, netlab.Options{})
	a := attachPolicy(t, lab, m, policyA)
	random := rand.New(rand.NewPCG(testutils.Seed(t), 0))
	f := startFlood(t, lab, 3, 100*time.Microsecond)

	start := time.Now()
	if killedChange(t, "never", 0, 0, policyA) {
		t.Fatal("a command was killed that nobody killed")
	}
	whole := time.Since(start)

	// Each starts from policy A: as such, or back after a trial that nobody confirmed.
	round := func(last string, after, confirm time.Duration, lapsed bool) {
		t.Helper()
		change(t, a, 0, policyA)
		if lapsed {
			change(t, a, time.Millisecond, policyC)
			lapse(t, a)
		}
		before, _ := inForce(t, a)
		killed := killedChange(t, last, after, confirm, policyB)
		now, pending := inForce(t, a)
		switched := now.Generation == before.Generation+1 && rate(now) == 2000
		kept := now.Generation == before.Generation && rate(now) == 1000 && pending == 0
		over := now.Generation == before.Generation+2 && rate(now) == 1000 && pending == 0 && confirm > 0
		if !switched && !kept && !over {
			t.Errorf("killed at %q or %v: in force is rate %d, generation %d, pending %v", last, after, rate(now), now.Generation, pending)
		}
		if last != "" && !killed {
			t.Errorf("the command never came to %q", last)
		}
		if confirm == 0 {
			return
		}
		if got := rate(lapse(t, a)); got != 1000 {
			t.Errorf("killed at %q or %v, past the deadline: rate %d", last, after, got)
		}
	}
	for _, lapsed := range []bool{false, true} {
		for _, last := range []string{"waited", "settled", "renumbered", "reinstated", "written", "cleared", "prepared", "switched", "waited again"} {
			if !lapsed && strings.HasPrefix(last, "re") {
				continue
			}
			for _, confirm := range []time.Duration{0, 20 * time.Millisecond} {
				round(last, 0, confirm, lapsed)
			}
		}
	}
	for i := range 20 {
		round("", time.Duration(random.Int64N(int64(whole))), time.Duration(i%2)*20*time.Millisecond, i%4 > 1)
	}

	change(t, a, 0, policyB)
	buckets, err := maps.OpenBuckets(a.Maps.Buckets)
	if err != nil {
		t.Fatal(err)
	}
	defer buckets.Close()
	now, _ := inForce(t, a)
	var torn int
	for _, slot := range buckets.All(&torn) {
		if slot.Generation != now.Generation {
			t.Errorf("a bucket of generation %d after change %d", slot.Generation, now.Generation)
		}
	}
	f.end(t, greenA, redA, greenB, redB, greenC, redC)
}
