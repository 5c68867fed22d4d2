package loader

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/vishvananda/netlink"

	"github.com/tricolor-policer/tricolor/internal/netlab"
)

// gc runs GC in a host's namespace, and checks what it found.
func gc(tb testing.TB, h *netlab.Host, o GCOptions, want ...Garbage) {
	tb.Helper()
	if err := h.Do(func() error {
		got, err := GC(o)
		if diff := cmp.Diff(want, got, cmpopts.SortSlices(func(a, b Garbage) bool { return a.Path < b.Path })); diff != "" {
			tb.Errorf("gc %+v (-want +got):\n%s", o, diff)
		}
		return err
	}); err != nil {
		tb.Error(err)
	}
}

func garbage(a *Attachment, why GarbageKind, removed bool) Garbage {
	return Garbage{a.ident.dir(), why, a.About.Device, a.Direction(), a.ident.ns, a.ident.ifindex, removed}
}

// What polices stays; what does not goes, from whichever network namespace it is asked for.
func TestGC(t *testing.T) {
	for _, m := range mechanisms {
		t.Run(m.String(), func(t *testing.T) {
			needs(t, m)
			lab := newLab(t, netlab.Options{})
			gc(t, lab.Left, GCOptions{})
			live := attach(t, lab.Left, AttachOptions{Direction: Egress, Mechanism: m})
			attach(t, lab.Right, AttachOptions{Direction: Egress, Mechanism: m}) // which is told from there, with clsact
			gc(t, lab.Left, GCOptions{Unseen: true})
			var stale []*Attachment
			for _, h := range []*netlab.Host{lab.Left, lab.Right} {
				d := addVeth(t, h, "veth7", "peer0", 77)
				a, err := tryAttach(t, h, "veth7", AttachOptions{Mechanism: m})
				if err != nil {
					t.Fatal(err)
				}
				defer a.Close()
				stale = append(stale, a)
				if err := h.Do(func() error { return netlink.LinkDel(d) }); err != nil {
					t.Fatal(err)
				}
			}
			left := filepath.Join(Root, making+"123")
			if err := os.Mkdir(left, 0o700); err != nil {
				t.Fatal(err)
			}
			want := []Garbage{
				garbage(stale[0], StalePins, true), garbage(stale[1], StalePins, true), {Path: left, Why: Leftover, Removed: true},
			}
			gc(t, lab.Left, GCOptions{DryRun: true}, want...)
			gc(t, lab.Left, GCOptions{}, want...) // the dry run has removed nothing
			gc(t, lab.Left, GCOptions{})
			sendForty(t, lab)
			if got := stats(t, live).Classes[0]; got != counted {
				t.Errorf("counters: %+v, want %+v", got, counted)
			}
		})
	}
}

// The network namespace of a clsact filter is gone, or cannot be found: only whoever says so loses its pins.
func TestGCUnseen(t *testing.T) {
	lab, gone := newLab(t, netlab.Options{}), newLab(t, netlab.Options{})
	a, err := tryAttach(t, gone.Left, "left0", AttachOptions{Mechanism: Clsact})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	gc(t, lab.Left, GCOptions{}, garbage(a, UnseenPins, false))
	gc(t, lab.Left, GCOptions{DryRun: true, Unseen: true}, garbage(a, UnseenPins, true))
	gc(t, lab.Left, GCOptions{Unseen: true}, garbage(a, UnseenPins, true))
	wantNothing(t)
}
