package loader

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/tricolor-policer/tricolor/marker"
)

// MaxConfirm bounds how long a change may wait to be confirmed.
const MaxConfirm = 365 * 24 * time.Hour

// Change changes the policy of an attachment, while it goes on: compile is given the plan in force, and
// returns the one that takes over, atomically for each packet. Every bucket is settled when Change returns
// the plan, whose Generation and Since are set. With confirm it is in force so long, from then on the one
// before is again, by the kernel program's own clock, unless Confirm comes first; 0 is for good.
//
// One command at a time works on attachments: others wait. On an error the old policy stays in force,
// unless the error wraps ErrUnsettled. Returns an error that wraps ErrNotAttached, ErrUnconfirmed (with the
// time left), marker.ErrPlan, ErrPrivilege, ErrKernel, or compile's. Requires what Attach does.
func (a *Attachment) Change(confirm time.Duration, compile func(prev *marker.Plan) (*marker.Plan, error)) (_ *marker.Plan, err error) {
	if confirm < 0 || confirm > MaxConfirm {
		return nil, fmt.Errorf("%v is no time to wait for a confirmation: say from 0, which is for good, to %v", confirm, MaxConfirm)
	}
	unlock, err := a.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	now, err := Now()
	if err != nil {
		return nil, err
	}
	prev, pending, err := InForce(a.Maps, now)
	if err != nil {
		return nil, err
	}
	if pending != 0 {
		return nil, unconfirmed(pending - now)
	}
	plan, err := compile(prev)
	if err != nil {
		return nil, err
	}
	c, err := NewChanger(a.Maps, false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if now, err = Now(); err != nil {
		return nil, err
	}
	err = c.apply(plan, now, func() (uint64, error) {
		if confirm == 0 {
			return 0, nil
		}
		now, err := Now()
		return now + uint64(confirm), err
	})
	if err != nil {
		return nil, err
	}
	return plan, nil
}

// Confirm has the last change stay for good. Returns an error that wraps ErrNotPending where it does so
// already, or where the deadline has passed; or ErrNotAttached.
func (a *Attachment) Confirm() error {
	unlock, err := a.lock()
	if err != nil {
		return err
	}
	defer unlock()
	now, err := Now()
	if err != nil {
		return err
	}
	deadline, err := confirm(a.Maps, now)
	if err != nil {
		return err
	}
	step("confirmed")
	// A packet may have met the policy before already, if the deadline passed meanwhile: then that stays.
	if now, err = Now(); err != nil || now < deadline {
		return err
	}
	plan, _, err := InForce(a.Maps, now)
	if err != nil {
		return err
	}
	if err := a.Maps.Switch(plan.Generation, deadline); err != nil {
		return err
	}
	return notPending(a.Maps, now)
}

// InForce returns the plan in force, as InForce of its maps does, and how long it will be so unless it is
// confirmed; 0: for good.
func (a *Attachment) InForce() (plan *marker.Plan, pending time.Duration, err error) {
	now, err := Now()
	if err != nil {
		return nil, 0, err
	}
	plan, deadline, err := InForce(a.Maps, now)
	if err != nil || deadline == 0 {
		return plan, 0, err
	}
	return plan, time.Duration(deadline - now), nil
}

// lock takes the lock on all attachments, and sees that this is still one.
func (a *Attachment) lock() (unlock func(), err error) {
	if a.State == Stale {
		return nil, fmt.Errorf("%w: %s %v: its device is gone, or its program was taken off: detach what is left, then attach anew", ErrNotAttached, a.Device, a.Direction())
	}
	unlock, err = lockRoot()
	if err != nil {
		return nil, err
	}
	if err := a.stillPinned(); err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// stillPinned returns an error that wraps ErrNotAttached where the attachment was taken off, or another has
// taken its place. It finishes an upgrade that was killed. The lock must be held.
func (a *Attachment) stillPinned() error {
	if err := a.promote(); err != nil {
		return err
	}
	program, err := loadProgram(a.ident.dir(), pinProgram)
	if errors.Is(err, fs.ErrNotExist) {
		return a.notAttached()
	}
	if err != nil {
		return err
	}
	defer program.Close()
	id, err := programID(program)
	if err == nil && id != a.ProgramID {
		err = a.notAttached()
	}
	return err
}
