package loader

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"

	"github.com/tricolor-policer/tricolor/internal/netlab"
	"github.com/tricolor-policer/tricolor/marker"
)

func hold(t *testing.T, h *netlab.Host, device string, o AttachOptions) (held *Held, err error) {
	t.Helper()
	plan := testPlan(t)
	err = h.Do(func() (err error) {
		held, err = Hold(device, plan, o)
		return err
	})
	return held, err
}

// A held policer polices, is pinned nowhere, and leaves nothing.
func TestHold(t *testing.T) {
	for _, m := range mechanisms {
		t.Run(m.String(), func(t *testing.T) {
			needs(t, m)
			lab := newLab(t, netlab.Options{})
			before := hooks(t, lab.Left)
			held, err := hold(t, lab.Left, "left0", AttachOptions{Direction: Egress, Mechanism: m})
			if err != nil {
				t.Fatal(err)
			}
			wantNothing(t)
			if held.Mechanism != m || held.ProgramID == 0 {
				t.Errorf("held by %v, program %d", held.Mechanism, held.ProgramID)
			}
			sendForty(t, lab)
			got, err := held.Maps.Stats(&marker.Plan{Classes: make([]marker.Class, 1)})
			if err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(marker.Stats{Classes: []marker.ClassStats{counted}}, got); diff != "" {
				t.Errorf("counters (-want +got):\n%s", diff)
			}
			if err := held.Close(); err != nil { // from another namespace
				t.Error(err)
			}
			if got := hooks(t, lab.Left); got != before {
				t.Errorf("left on the device: %q, before %q", got, before)
			}
		})
	}
}

func TestHoldOutlivesDevice(t *testing.T) {
	for _, m := range mechanisms {
		t.Run(m.String(), func(t *testing.T) {
			needs(t, m)
			lab := newLab(t, netlab.Options{})
			held, err := hold(t, lab.Left, "left0", AttachOptions{Mechanism: m})
			if err != nil {
				t.Fatal(err)
			}
			if err := lab.Close(); err != nil {
				t.Error(err)
			}
			if err := held.Close(); err != nil {
				t.Errorf("close after the device is gone: %v", err)
			}
		})
	}
}

func TestHoldFails(t *testing.T) {
	lab := newLab(t, netlab.Options{})
	_, err := hold(t, lab.Left, "eth9", AttachOptions{})
	wantError(t, "hold", err, ErrNoDevice, "eth9", "left0")
	_, err = Hold("lo", &marker.Plan{}, AttachOptions{})
	wantError(t, "hold with an empty plan", err, marker.ErrPlan)
}

// Close frees the program.
func TestHoldFrees(t *testing.T) {
	lab := newLab(t, netlab.Options{})
	held, err := hold(t, lab.Left, "left0", AttachOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	program, err := ebpf.NewProgramFromID(held.ProgramID)
	for ; err == nil; program, err = ebpf.NewProgramFromID(held.ProgramID) {
		program.Close() // the kernel frees it in its own time
	}
	if !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
