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

// ErrUnconfirmed is returned while a policy waits to be confirmed.
var ErrUnconfirmed = errors.New("the last change waits to be confirmed")

// Changer changes the policy of a loaded program. One at a time may work on a program's maps.
type Changer struct {
	maps   *maps.Maps
	settle *Runner // the settling program, on the same maps
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
	replace := map[string]*ebpf.Map{}
	for name, pinned := range m.ByObjectName() {
		spec.Maps[name].MaxEntries = pinned.MaxEntries()
		replace[name] = pinned
	}
	var objects struct {
		Settle *ebpf.Program `ebpf:"settle"`
	}
	if err := spec.LoadAndAssign(&objects, &ebpf.CollectionOptions{MapReplacements: replace}); err != nil {
		return nil, explain("load the settling program", err)
	}
	return &Changer{maps: m, settle: NewRunner(&Program{Program: objects.Settle})}, nil
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

// InForce returns the plan in force at now (ns) and its generation, which past an unconfirmed deadline is
// newer than the plan's own; and the deadline that is still to come, 0 if none.
func InForce(m *maps.Maps, now uint64) (plan *marker.Plan, generation uint32, deadline uint64, err error) {
	parity, deadline, err := m.InForce()
	if err != nil {
		return nil, 0, 0, err
	}
	if plan, err = m.ReadCopy(parity); err != nil {
		return nil, 0, 0, err
	}
	generation = plan.Generation
	if deadline != 0 && now >= deadline {
		if plan, err = m.ReadCopy(parity ^ 1); err != nil {
			return nil, 0, 0, err
		}
		return plan, generation + 1, 0, nil
	}
	return plan, generation, deadline, nil
}

// Apply changes the policy at now (ns, the program's clock): plan takes over from the one in force, atomically
// for each packet, and every bucket is settled when Apply returns. Past deadline (0: none) the one before is
// in force again, unless Confirm comes first; until then another Apply returns ErrUnconfirmed. The plan's
// Generation and Since are set. On an error the old policy stays in force. Killed at any moment, the old
// policy is in force or the new one, and the next Apply finishes the work.
func (c *Changer) Apply(plan *marker.Plan, now, deadline uint64) error {
	old, generation, pending, err := InForce(c.maps, now)
	if err != nil {
		return err
	}
	if pending != 0 {
		return fmt.Errorf("%w, for another %v: confirm it, or wait until the old policy is in force again",
			ErrUnconfirmed, time.Duration(pending-now).Round(time.Second))
	}
	if plan.Geometry != old.Geometry {
		return fmt.Errorf("%w: the table has another shape, which cannot change while it is attached: detach, then attach", marker.ErrPlan)
	}
	// Two generations at most are alive: what a change before left unsettled is settled first, and no
	// packet still uses the copy that is written now.
	if err := errors.Join(c.settleAll(plan.Geometry.Sets, now), gracePeriod()); err != nil {
		return err
	}
	plan.Generation, plan.Since = generation+1, now
	if err := c.maps.WritePlan(plan); err != nil {
		return err
	}
	if err := c.maps.ClearStats(plan, old); err != nil {
		return err
	}
	if err := c.maps.Switch(plan.Generation, deadline); err != nil {
		return err
	}
	return errors.Join(gracePeriod(), c.settleAll(plan.Geometry.Sets, now))
}

// Confirm lifts the deadline of the last Apply. Returns ErrUnconfirmed's opposite, an error, where none is
// pending at now (ns).
func (c *Changer) Confirm(now uint64) error {
	plan, generation, deadline, err := InForce(c.maps, now)
	if err != nil {
		return err
	}
	if deadline == 0 {
		return fmt.Errorf("%w: policy %d is in force for good", ErrNotPending, generation)
	}
	return c.maps.Switch(plan.Generation, 0)
}

// ErrNotPending is returned where there is nothing to confirm.
var ErrNotPending = errors.New("nothing waits to be confirmed")

// settleChunk is how many sets one run of the settling program does: some milliseconds with bottom halves
// off.
const settleChunk = 1 << 14

// settleTries bounds how often it is run again for sets that were busy.
const settleTries = 1000

// settleAll settles all buckets to the generation in force.
func (c *Changer) settleAll(sets uint32, now uint64) error {
	for from := uint32(0); from < sets; from += settleChunk {
		busy := uint32(1)
		for try := 0; busy > 0; try++ {
			if try == settleTries {
				return fmt.Errorf("%w: %d sets of buckets stayed locked", ErrRun, busy)
			}
			var err error
			if busy, err = c.settle.settle(from, min(settleChunk, sets-from), now); err != nil {
				return err
			}
		}
	}
	return nil
}

// settle runs the settling program on sets, and returns how many could not be locked in time.
func (r *Runner) settle(from, count uint32, now uint64) (busy uint32, err error) {
	r.context = skbContext{Tstamp: now}
	r.context.Cb[bpf.PolicerSettleInSETTLE_FROM] = from
	r.context.Cb[bpf.PolicerSettleInSETTLE_COUNT] = count
	verdict, _, err := r.run(r.in[:runMin])
	if err == nil && verdict != tcUnspec {
		err = fmt.Errorf("%w: the settling program found no policy", ErrRun)
	}
	return r.context.Cb[bpf.PolicerSettleInSETTLE_COUNT], err
}

// gracePeriod returns when every packet that is being policed now is done.
func gracePeriod() error {
	// MEMBARRIER_CMD_GLOBAL waits for an RCU grace period; programs run in RCU read sections.
	const commandGlobal = 1
	if _, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, commandGlobal, 0, 0); errno != 0 {
		return fmt.Errorf("wait for packets under way: %w", errno)
	}
	return nil
}
