package loader

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/tricolor-policer/tricolor/internal/netlab"
	"github.com/tricolor-policer/tricolor/maps"
)

// A device that is gone leaves a stale attachment; one in its place, with its name and index, is policed
// anew, right from its first packet.
func TestStale(t *testing.T) {
	for _, m := range mechanisms {
		t.Run(m.String(), func(t *testing.T) {
			needs(t, m)
			lab := newLab(t, netlab.Options{})
			const name, index = "veth7", 77
			add := func() *netlink.Veth {
				d := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name, Index: index}, PeerName: "peer0"}
				if err := lab.Left.Do(func() error { return netlink.LinkAdd(d) }); err != nil {
					t.Fatal(err)
				}
				return d
			}
			o := AttachOptions{Direction: Egress, Mechanism: m}
			device := add()
			old, err := tryAttach(t, lab.Left, name, o)
			if err != nil {
				t.Fatal(err)
			}
			defer old.Close()
			if err := lab.Left.Do(func() error { return netlink.LinkDel(device) }); err != nil {
				t.Fatal(err)
			}
			if got := find(t, lab.Left, name, Egress); got.State != Stale || got.Device != name {
				t.Errorf("its device gone: %v, device %s", got.State, got.Device)
			}
			add()
			if got := find(t, lab.Left, name, Egress).State; got != Stale {
				t.Errorf("another device in its place: %v", got)
			}
			now, err := tryAttach(t, lab.Left, name, o)
			if err != nil {
				t.Fatal(err)
			}
			defer now.Close()
			wantError(t, "detach of the old one", detach(lab.Left, old), ErrNotAttached)
			if got := find(t, lab.Left, name, Egress); got.State != Attached || got.ProgramID != now.ProgramID {
				t.Errorf("attached again: %v", got.State)
			}
			if err := lab.Left.Do(func() error { return netlink.LinkDel(device) }); err != nil {
				t.Fatal(err)
			}
			if err := detach(lab.Left, find(t, lab.Left, name, Egress)); err != nil {
				t.Errorf("detach of a stale one: %v", err)
			}
		})
	}
}

// Somebody took our filter, or our program, off the hook.
func TestTakenOff(t *testing.T) {
	for _, m := range mechanisms {
		t.Run(m.String(), func(t *testing.T) {
			needs(t, m)
			lab := newLab(t, netlab.Options{})
			a := attach(t, lab.Left, AttachOptions{Mechanism: m})
			if m == TCX {
				if err := a.link.Detach(); err != nil {
					t.Fatal(err)
				}
			} else if err := lab.Left.Do(func() error {
				return netlink.QdiscDel(clsact(&netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: lab.Left.Ifindex}}))
			}); err != nil {
				t.Fatal(err)
			}
			if m == Clsact { // and put up a qdisc of their own
				addClsact(t, lab.Left)
			}
			stale := find(t, lab.Left, "left0", Ingress)
			if stale.State != Stale {
				t.Errorf("it is %v", stale.State)
			}
			before := hooks(t, lab.Left)
			if err := detach(lab.Left, stale); err != nil {
				t.Fatal(err)
			}
			if got := hooks(t, lab.Left); got != before {
				t.Errorf("detach of a stale one left %q of %q", got, before)
			}
		})
	}
}

func TestRenamed(t *testing.T) {
	for _, m := range mechanisms {
		t.Run(m.String(), func(t *testing.T) {
			needs(t, m)
			lab := newLab(t, netlab.Options{})
			d := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "veth7"}, PeerName: "peer0"}
			if err := lab.Left.Do(func() error { return netlink.LinkAdd(d) }); err != nil {
				t.Fatal(err)
			}
			a, err := tryAttach(t, lab.Left, "veth7", AttachOptions{Mechanism: m})
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			if err := lab.Left.Do(func() error {
				return errors.Join(netlink.LinkSetName(d, "renamed0"), netlink.LinkAddAltName(d, "also0"))
			}); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"renamed0", "also0"} {
				if got := find(t, lab.Left, name, Ingress); got.State != Attached || got.Device != "renamed0" || got.About.Device != "veth7" {
					t.Errorf("by %s: %v, device %s, was %s", name, got.State, got.Device, got.About.Device)
				}
			}
			wantError(t, "by its old name", lab.Left.Do(func() error { _, err := Find("veth7", Ingress); return err }), ErrNoDevice)
			if err := detach(lab.Left, a); err != nil {
				t.Error(err)
			}
		})
	}
}

// A command was killed after it had taken the hook, and before its pins appeared.
func TestLeftovers(t *testing.T) {
	for _, m := range mechanisms {
		t.Run(m.String(), func(t *testing.T) {
			needs(t, m)
			lab := newLab(t, netlab.Options{})
			o := AttachOptions{Direction: Egress, Mechanism: m}
			a := attach(t, lab.Left, o)
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(a.ident.dir(), filepath.Join(Root, making+"123")); err != nil {
				t.Fatal(err)
			}
			for _, dir := range []string{making + "empty", removing + "empty"} {
				if err := os.Mkdir(filepath.Join(Root, dir), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			b := attach(t, lab.Left, o)
			entries, err := os.ReadDir(Root)
			if err != nil || len(entries) != 1 || entries[0].Name() != b.ident.String() {
				t.Errorf("under %s: %v, %v", Root, entries, err)
			}
			sendForty(t, lab)
			if got := stats(t, b).Classes[0]; got != counted {
				t.Errorf("counters: %+v, want %+v: the old one polices still", got, counted)
			}
			if err := detach(lab.Left, b); err != nil {
				t.Fatal(err)
			}
			if got := hooks(t, lab.Left); got != "" {
				t.Errorf("left: %q", got)
			}
		})
	}
}

// Whoever looks while the pins appear, or go, finds them whole or not at all.
func TestFindMeanwhile(t *testing.T) {
	lab := newLab(t, netlab.Options{})
	a := attach(t, lab.Left, AttachOptions{Direction: Egress})
	away := filepath.Join(Root, "away")
	done := make(chan error, 1)
	go func() {
		var err error
		for range 2000 {
			err = errors.Join(err, os.Rename(a.ident.dir(), away))
			time.Sleep(10 * time.Microsecond)
			err = errors.Join(err, os.Rename(away, a.ident.dir()))
			time.Sleep(100 * time.Microsecond)
		}
		done <- err
	}()
	found, missed := 0, 0
	for running := true; running; {
		err := lab.Left.Do(func() error {
			got, err := Find("left0", Egress)
			if err != nil {
				return err
			}
			return got.Close()
		})
		switch {
		case err == nil:
			found++
		case errors.Is(err, ErrNotAttached):
			missed++
		default:
			t.Fatal(err)
		}
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			running = false
		default:
		}
	}
	t.Logf("found %d times, not %d times", found, missed)
	if found == 0 {
		t.Error("never found: the test shows nothing")
	}
}

// Pins that somebody tampered with are refused, and hide no others.
func TestHostilePins(t *testing.T) {
	pin := func(dir, name string) string { return filepath.Join(dir, name) }
	swap := func(dir string) error {
		return errors.Join(os.Rename(pin(dir, "table"), pin(dir, "x")), os.Rename(pin(dir, "policies"), pin(dir, "table")), os.Rename(pin(dir, "x"), pin(dir, "policies")))
	}
	for name, c := range map[string]struct {
		tamper, mend func(dir string) error
		want         error
	}{
		"missing": {
			func(dir string) error { return os.Rename(pin(dir, "about"), pin(dir, "x")) },
			func(dir string) error { return os.Rename(pin(dir, "x"), pin(dir, "about")) },
			fs.ErrNotExist,
		},
		"swapped": {swap, swap, maps.ErrLayout},
		"of another": {
			func(dir string) error { return os.Rename(dir, filepath.Join(Root, "1-2-egress")) },
			func(dir string) error { return os.Rename(filepath.Join(Root, "1-2-egress"), dir) },
			maps.ErrLayout,
		},
	} {
		t.Run(name, func(t *testing.T) {
			lab := newLab(t, netlab.Options{})
			a := attach(t, lab.Left, AttachOptions{Direction: Egress})
			attach(t, lab.Right, AttachOptions{Direction: Egress})
			if err := c.tamper(a.ident.dir()); err != nil {
				t.Fatal(err)
			}
			all, err := List()
			wantError(t, "list", err, c.want, Root)
			if len(all) != 1 || all[0].Device != "right0" {
				t.Errorf("listed %v, want right0 alone", all)
			}
			for _, a := range all {
				a.Close()
			}
			if err := c.mend(a.ident.dir()); err != nil {
				t.Error(err)
			}
		})
	}
	wantNothing(t)
}
