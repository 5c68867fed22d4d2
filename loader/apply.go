package loader

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/tricolor-policer/tricolor/bpf"
	"github.com/tricolor-policer/tricolor/maps"
	"github.com/tricolor-policer/tricolor/marker"
)

// Errors of a policy that waits to be confirmed, or does not.
var (
	ErrUnconfirmed = errors.New("the last change waits to be confirmed")
	ErrNotPending  = errors.New("nothing waits to be confirmed")
)

// Changer changes the policy of a loaded program. One at a time may work on a program's maps.
type Changer struct {
	maps   *maps.Maps
	settle *Runner // the settling program, on the same maps

	wait func() error // until packets under way are done: gracePeriod
}

// NewChanger loads what changes the policy in these maps. The caller closes it. Replay: its clock is what
// Apply is told, as that of a program loaded for test runs. Errors are Load's.
func NewChanger(m *maps.Maps, replay bool) (*Changer, error) {
	spec, err := bpf.LoadPolicer()
	if err != nil {
		return nil, fmt.Errorf("read the kernel program: %w", err)
	}
	if err := spec.Variables["replay"].Set(bit(replay)); err != nil {
		return nil, fmt.Errorf("set up the settling program: %w", err)
	}
	var objects struct {
		Settle *ebpf.Program `ebpf:"settle"`
	}
	if err := spec.LoadAndAssign(&objects, onMaps(spec, m)); err != nil {
		return nil, loadError("load the settling program", err)
	}
	return &Changer{maps: m, settle: NewRunner(&Program{Program: objects.Settle}), wait: gracePeriod}, nil
}

// Close closes the settling program; the maps stay the caller's.
func (c *Changer) Close() error { return c.settle.program.Program.Close() }

// Now is the clock of a program on a live hook, in ns.
func Now() (uint64, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return 0, fmt.Errorf("read the monotonic clock: %w", err)
	}
	return uint64(t.Nano()), nil
}

// inForceTries bounds how often the policy is read again that was changed meanwhile.
const inForceTries = 10

// InForce returns the plan in force at now (ns), and the deadline (ns) that is still to come, 0 if none. Of
// a plan that is in force again, past an unconfirmed deadline, Generation and Since are those of its
// return, and NextFamily is past what the unconfirmed one used: its buckets are still there. Else the other
// copy of the policy, which a command that was killed may have left half written, is not looked at. Returns an error that wraps maps.ErrLayout.
func InForce(m *maps.Maps, now uint64) (plan *marker.Plan, deadline uint64, err error) {
	for range inForceTries {
		var same bool
		if plan, deadline, same, err = inForceOnce(m, now); same {
			break
		}
		err = errors.Join(err, errors.New("the policy changed over and over while it was read: try again"))
	}
	return plan, deadline, err
}

// inForceOnce is InForce, and reports whether the policy stayed the same meanwhile. A copy's generation
// changes before it is in force again.
func inForceOnce(m *maps.Maps, now uint64) (plan *marker.Plan, deadline uint64, same bool, err error) {
	active, until, err := m.InForce()
	if err != nil {
		return nil, 0, true, err
	}
	last, err := m.Generation(active)
	if err != nil {
		return nil, 0, true, err
	}
	lapsed := until != 0 && now >= until
	if lapsed {
		var used uint16
		if used, err = m.NextFamily(active); err != nil {
			return nil, 0, true, err
		}
		if plan, err = m.ReadCopy(active ^ 1); err == nil {
			plan.Generation, plan.Since, plan.NextFamily = last+1, until, max(plan.NextFamily, used)
		}
	} else {
		plan, err = m.ReadCopy(active)
		deadline = until
	}
	again, stays, controlErr := m.InForce()
	number, numberErr := m.Generation(active)
	if broken := errors.Join(controlErr, numberErr); broken != nil {
		return nil, 0, true, broken
	}
	return plan, deadline, again == active && stays == until && number == last, err
}

// step is told how far a command is. Tests end the process there.
var step = func(string) {}

// Apply changes the policy at now (ns, the program's clock): plan takes over from the one in force, atomically
// for each packet, and every bucket is settled when Apply returns. Past deadline (0: none) the one before is
// in force again, unless Confirm comes first; until then another Apply returns ErrUnconfirmed. The plan's
// Generation and Since are set. On an error the old policy stays in force, unless the error wraps
// ErrUnsettled. Killed at any moment, the old policy is in force or the new one, and the next Apply
// finishes the work.
func (c *Changer) Apply(plan *marker.Plan, now, deadline uint64) error {
	return c.apply(plan, now, func() (uint64, error) { return deadline, nil })
}

// ErrUnsettled is returned where the new policy is in force, but not all buckets were settled: they are when
// next touched. Until they all are, a next change waits for them.
var ErrUnsettled = errors.New("the new policy is in force, but not all buckets are brought over yet")

// apply is Apply; deadline is asked for at the last moment, since all before takes its time.
func (c *Changer) apply(plan *marker.Plan, now uint64, deadline func() (uint64, error)) error {
	if err := plan.Check(); err != nil {
		return err
	}
	old, pending, err := InForce(c.maps, now)
	if err != nil {
		return err
	}
	if pending != 0 {
		return unconfirmed(pending - now)
	}
	if plan.Geometry != old.Geometry {
		return fmt.Errorf("%w: the table has another shape, which cannot change while it is attached: detach, then attach", marker.ErrPlan)
	}
	// Two generations at most are alive. No packet that is still under way may use the one before, nor
	// make a bucket of it; then what a change before left unsettled is settled; then its copy is free.
	if err := c.wait(); err != nil {
		return err
	}
	step("waited")
	if err := c.settleAll(plan.Geometry.Sets, now); err != nil {
		return err
	}
	step("settled")
	if err := c.reinstate(old); err != nil {
		return err
	}
	plan.Generation, plan.Since = old.Generation+1, now
	if err := c.maps.WritePlan(plan); err != nil {
		return err
	}
	step("written")
	if err := c.maps.ClearStats(plan, old); err != nil {
		return err
	}
	step("cleared")
	if err := c.prepareOverflow(plan.Geometry, now); err != nil {
		return err
	}
	step("prepared")
	until, err := deadline()
	if err != nil {
		return err
	}
	if err := c.maps.Switch(plan.Generation, until); err != nil {
		return err
	}
	step("switched")
	if err := c.wait(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnsettled, err)
	}
	step("waited again")
	if err := c.settleAll(plan.Geometry.Sets, now); err != nil {
		return fmt.Errorf("%w: %w", ErrUnsettled, err)
	}
	return nil
}

// reinstate has a policy that is in force again, past a deadline, be so by its own number and for good, not
// by the number of the one that nobody confirmed: whose copy is to be written next. All buckets are settled.
func (c *Changer) reinstate(old *marker.Plan) error {
	_, lapsed, err := c.maps.InForce()
	if err != nil || lapsed == 0 {
		return err
	}
	if err := c.maps.Renumber(old.Generation, lapsed); err != nil {
		return err
	}
	step("renumbered")
	if err := c.maps.Switch(old.Generation, 0); err != nil {
		return err
	}
	step("reinstated")
	return c.wait() // a packet under way may still ask the other copy for its number
}

// Confirm lifts the deadline of the last Apply. Returns ErrNotPending where none is pending at now (ns).
func (c *Changer) Confirm(now uint64) error {
	_, err := confirm(c.maps, now)
	return err
}

// confirm is Confirm, and returns the deadline (ns) that was lifted.
func confirm(m *maps.Maps, now uint64) (deadline uint64, err error) {
	plan, deadline, err := InForce(m, now)
	if err != nil {
		return 0, err
	}
	if deadline == 0 {
		return 0, notPending(m, now)
	}
	return deadline, m.Switch(plan.Generation, 0)
}

// notPending says why there is nothing to confirm at now (ns).
func notPending(m *maps.Maps, now uint64) error {
	_, lapsed, err := m.InForce()
	if err != nil {
		return err
	}
	if lapsed == 0 {
		return fmt.Errorf("%w: the policy is in force for good", ErrNotPending)
	}
	return fmt.Errorf("%w: the deadline passed %v ago, and the policy before is in force again: apply the new one anew",
		ErrNotPending, rounded(now-lapsed))
}

func unconfirmed(left uint64) error {
	return fmt.Errorf("%w, for another %v: confirm it, or wait until the old policy is in force again", ErrUnconfirmed, rounded(left))
}

// rounded is a span of ns for people: up, so that it never reads as none.
func rounded(ns uint64) time.Duration {
	return (time.Duration(ns) + time.Second - 1).Truncate(time.Second)
}
