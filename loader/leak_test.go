package loader

import (
	"errors"
	"io/fs"
	"os"
	"runtime/debug"
	"strconv"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/tricolor-policer/tricolor/internal/netlab"
	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/marker"
)

// leakRounds names how many rounds TestNoLeaks does, where it is set: `make soak` does a thousand.
const leakRounds = "TRICOLOR_LEAK_ROUNDS"

// made is what the kernel has of attachments, by its own numbers.
type made struct {
	programs []ebpf.ProgramID
	maps     []ebpf.MapID
}

func (m *made) add(tb testing.TB, a *Attachment) {
	tb.Helper()
	m.programs = append(m.programs, a.ProgramID)
	for _, one := range a.Maps.ByObjectName() {
		info, err := one.Info()
		if err != nil {
			tb.Fatal(err)
		}
		id, _ := info.ID()
		m.maps = append(m.maps, id)
	}
}

// wantGone checks that nothing of it is there any more. The kernel frees it in its own time.
func (m *made) wantGone(tb testing.TB) {
	tb.Helper()
	deadline := time.Now().Add(30 * time.Second)
	gone := func(what string, id uint32, open func() (interface{ Close() error }, error)) {
		for ; ; time.Sleep(time.Millisecond) {
			o, err := open()
			if errors.Is(err, fs.ErrNotExist) {
				return
			}
			if err == nil {
				o.Close()
			}
			if time.Now().After(deadline) {
				tb.Errorf("%s %d is still there: %v", what, id, err)
				return
			}
		}
	}
	for _, id := range m.programs {
		gone("program", uint32(id), func() (interface{ Close() error }, error) { return ebpf.NewProgramFromID(id) })
	}
	for _, id := range m.maps {
		gone("map", uint32(id), func() (interface{ Close() error }, error) { return ebpf.NewMapFromID(id) })
	}
}

// Rounds of attach, apply and detach leave no descriptor, program, map, pin or qdisc.
func TestNoLeaks(t *testing.T) {
	lab := newLab(t, netlab.Options{})
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // it would close what was forgotten
	rounds := 20
	if text := os.Getenv(leakRounds); text != "" {
		var err error
		if rounds, err = strconv.Atoi(text); err != nil || rounds < 1 {
			t.Fatalf("%s=%q: say how many rounds", leakRounds, text)
		}
	}
	var can []Mechanism
	for _, m := range mechanisms {
		if m != TCX || !testutils.KernelBefore(t, 6, 6) {
			can = append(can, m)
		}
	}
	var all made
	round := func(i int) {
		t.Helper()
		o := AttachOptions{Direction: Direction(i / len(can) % 2), Mechanism: can[i%len(can)]}
		a, err := tryAttach(t, lab.Left, "left0", o)
		if err != nil {
			t.Fatal(err)
		}
		all.add(t, a)
		_, err = tryAttach(t, lab.Left, "left0", o)
		wantError(t, "second attach", err, ErrAttached)
		if _, err := a.Change(0, func(prev *marker.Plan) (*marker.Plan, error) { return prev, nil }); err != nil {
			t.Fatal(err)
		}
		if err := lab.Left.Do(func() error {
			list, err := List()
			for _, a := range list {
				a.Close()
			}
			return err
		}); err != nil {
			t.Error(err)
		}
		if err := errors.Join(detach(lab.Left, a), a.Close()); err != nil {
			t.Fatal(err)
		}
	}
	descriptors := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	for i := range 2 * len(can) { // what is made once is there
		round(i)
	}
	before := descriptors()
	start := time.Now()
	for i := range rounds {
		round(i)
	}
	if after := descriptors(); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
	all.wantGone(t)
	if got := hooks(t, lab.Left); got != "" {
		t.Errorf("on the hook is left: %q", got)
	}
	wantNothing(t)
	t.Logf("%d rounds in %v: %d programs and %d maps made, none left", rounds, time.Since(start).Round(time.Millisecond), len(all.programs), len(all.maps))
}
