package loader

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"testing"
	"time"

	"github.com/tricolor-policer/tricolor/internal/netlab"
	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/marker"
)

func TestMain(m *testing.M) {
	if child() {
		return
	}
	testutils.Namespaced(m)
}

const (
	packetLen = 128 // bytes of IP of each packet that tests send
	port      = 7000
)

// Of a flow's packets the first ten are green and marked AF11, the next ten yellow and AF12, and all
// others red and dropped: what is earned in two minutes makes no packet.
var testParams = marker.Params{Meter: marker.SRTCM, CIR: 1, CBS: 10 * packetLen, EBS: 10 * packetLen}

const af11, af12 = 10, 12

var mechanisms = []Mechanism{TCX, Clsact}

// needs skips the test where the kernel is too old for a mechanism.
func needs(tb testing.TB, m Mechanism) {
	tb.Helper()
	if m == TCX {
		testutils.RequireTCX(tb)
	}
}

func testPlan(tb testing.TB) *marker.Plan {
	tb.Helper()
	g, err := marker.NewGeometry(marker.MinFlows, [marker.MaxChain]bool{true}, 1)
	if err != nil {
		tb.Fatal(err)
	}
	profile, err := testParams.Compile()
	if err != nil {
		tb.Fatal(err)
	}
	profile.Overflow = g.OverflowSet(0, 0)
	return &marker.Plan{
		Geometry:  g,
		Malformed: marker.Action{Verbs: marker.VerbDrop},
		Profiles:  []marker.Profile{profile},
		Rules:     []marker.Rule{marker.AnyRule(0)},
		Classes: []marker.Class{{
			Name:    "test",
			Meters:  []marker.Meter{marker.NewMeter(0, 0, marker.PerFlow, [2]int{32, 128})},
			Arrival: marker.DefaultArrival(),
			Actions: [marker.Colors]marker.Action{
				{Verbs: marker.VerbDSCP, DSCP: af11}, {Verbs: marker.VerbDSCP, DSCP: af12}, {Verbs: marker.VerbDrop},
			},
		}},
	}
}

// counted is what the counters say of forty packets of one flow.
var counted = marker.ClassStats{
	Packets: [marker.Colors]uint64{10, 10, 20},
	Bytes:   [marker.Colors]uint64{10 * packetLen, 10 * packetLen, 20 * packetLen},
}

// newLab makes a laboratory. When the test has ended, and taken off what it attached, no pin may be left.
func newLab(tb testing.TB, o netlab.Options) *netlab.Lab {
	tb.Helper()
	testutils.RequireRoot(tb)
	lab, err := netlab.New(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := lab.Close(); err != nil {
			tb.Error(err)
		}
		wantNothing(tb)
	})
	return lab
}

func bounded(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	tb.Cleanup(cancel)
	return ctx
}

// attach polices the host's device until the test ends.
func attach(tb testing.TB, h *netlab.Host, o AttachOptions) *Attachment {
	tb.Helper()
	a, err := tryAttach(tb, h, h.Device, o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := detach(h, a); err != nil && !errors.Is(err, ErrNotAttached) && !errors.Is(err, netlab.ErrClosed) {
			tb.Error(err)
		}
		if err := a.Close(); err != nil {
			tb.Error(err)
		}
	})
	return a
}

func tryAttach(tb testing.TB, h *netlab.Host, device string, o AttachOptions) (a *Attachment, err error) {
	tb.Helper()
	plan := testPlan(tb)
	err = h.Do(func() (err error) {
		a, err = Attach(device, plan, o)
		return err
	})
	return a, err
}

func detach(h *netlab.Host, a *Attachment) error { return h.Do(a.Detach) }

// find opens the attachment anew, as another command would.
func find(tb testing.TB, h *netlab.Host, device string, d Direction) *Attachment {
	tb.Helper()
	var a *Attachment
	err := h.Do(func() (err error) {
		a, err = Find(device, d)
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { a.Close() })
	return a
}

func stats(tb testing.TB, a *Attachment) marker.Stats {
	tb.Helper()
	s, err := a.Maps.Stats(&marker.Plan{Classes: make([]marker.Class, 1)})
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// wantNothing checks that no pin is left.
func wantNothing(tb testing.TB) {
	tb.Helper()
	if _, err := os.Lstat(Root); !errors.Is(err, fs.ErrNotExist) {
		entries, _ := os.ReadDir(Root)
		tb.Errorf("%s is left, with %v", Root, entries)
	}
}
