package loader

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/tricolor-policer/tricolor/internal/netlab"
	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/maps"
)

// wantError checks an error by its sentinel, nil for none, and by words it must have.
func wantError(tb testing.TB, what string, err, want error, words ...string) {
	tb.Helper()
	if !errors.Is(err, want) {
		tb.Errorf("%s: error %v, want %v", what, err, want)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			tb.Errorf("%s: error %q does not say %q", what, err, w)
		}
	}
}

func TestLife(t *testing.T) {
	each(t, func(t *testing.T, m Mechanism) {
		lab := newLab(t, netlab.Options{})
		h := lab.Left
		before := hooks(t, h)
		o := AttachOptions{Direction: Egress, Mechanism: m, Version: "1.2.3"}
		a := attach(t, h, o)
		if err := a.Close(); err != nil { // as at the command's end
			t.Fatal(err)
		}

		found := find(t, h, "left0", Egress)
		if found.Mechanism != m || found.State != Attached || found.Device != "left0" || found.ProgramID != a.ProgramID || found.ProgramID == 0 {
			t.Errorf("found %+v", found)
		}
		if diff := cmp.Diff(a.About, found.About); diff != "" {
			t.Errorf("about (-attached +found):\n%s", diff)
		}
		if got := found.About; got.Device != "left0" || got.Version != "1.2.3" || !got.Egress || got.Ifindex != uint32(h.Ifindex) ||
			got.OwnQdisc != (m == Clsact) || (got.Priority != 0) != (m == Clsact) {
			t.Errorf("about: %+v", got)
		}
		plan, err := found.Maps.ReadPlan()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(testPlan(t), plan); diff != "" {
			t.Errorf("plan (-written +read):\n%s", diff)
		}
		sendForty(t, lab)
		if got := stats(t, found).Classes[0]; got != counted {
			t.Errorf("counters: %+v, want %+v", got, counted)
		}

		_, err = tryAttach(t, h, "left0", o)
		wantError(t, "second attach", err, ErrAttached, "left0 egress", "1.2.3", "tricolor detach left0 --direction egress",
			time.Unix(int64(found.About.Since), 0).Format(time.DateOnly))
		wantError(t, "the other direction", h.Do(func() error { _, err := Find("left0", Ingress); return err }), ErrNotAttached, "left0 ingress")
		wantError(t, "the other host", lab.Right.Do(func() error { _, err := Find("right0", Egress); return err }), ErrNotAttached)
		if got := stats(t, find(t, h, "left0", Egress)).Classes[0]; got != counted {
			t.Errorf("after a second attach that was refused: %+v, want %+v", got, counted)
		}

		if err := detach(h, found); err != nil {
			t.Fatal(err)
		}
		wantNothing(t)
		wantError(t, "second detach", detach(h, found), ErrNotAttached, "left0 egress")
		wantError(t, "find after detach", h.Do(func() error { _, err := Find("left0", Egress); return err }), ErrNotAttached)
		if got := hooks(t, h); got != before {
			t.Errorf("left on the device: %q, before %q", got, before)
		}
		sendForty(t, lab)
		if got := stats(t, found).Classes[0]; got != counted {
			t.Errorf("a packet met the program after detach: %+v", got)
		}
		wantNothing(t)
	})
}

// Another took its place: an old handle must not take that off.
func TestDetachOnlyItself(t *testing.T) {
	lab := newLab(t, netlab.Options{})
	a := attach(t, lab.Left, AttachOptions{})
	if err := detach(lab.Left, find(t, lab.Left, "left0", Ingress)); err != nil {
		t.Fatal(err)
	}
	attach(t, lab.Left, AttachOptions{})
	wantError(t, "detach of the one before", detach(lab.Left, a), ErrNotAttached)
	if got := find(t, lab.Left, "left0", Ingress).State; got != Attached {
		t.Errorf("the later one is %v", got)
	}
}

func TestList(t *testing.T) {
	lab := newLab(t, netlab.Options{})
	if all, err := List(); len(all) != 0 || err != nil {
		t.Errorf("with nothing attached: %v, %v", all, err)
	}
	attach(t, lab.Right, AttachOptions{Direction: Egress, Mechanism: Clsact})
	attach(t, lab.Left, AttachOptions{Direction: Egress})
	attach(t, lab.Left, AttachOptions{Direction: Ingress, Mechanism: Clsact})
	for _, junk := range []string{"junk", "1-2-sideways", "01-2-egress", "1-2-egress-3", "-1-2-egress"} {
		if err := os.Mkdir(filepath.Join(Root, junk), 0o700); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(Root) // after the junk, and what is attached
		defer os.Remove(filepath.Join(Root, junk))
	}
	if err := lab.Left.Do(func() error {
		all, err := List()
		var got []string
		for _, a := range all {
			got = append(got, strings.Join([]string{a.Device, a.Direction().String(), a.Mechanism.String(), a.State.String()}, " "))
			a.Close()
		}
		want := []string{"left0 ingress clsact attached", "left0 egress tcx attached", "right0 egress clsact unseen"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("listed (-want +got):\n%s", diff)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

func TestPinsArePrivate(t *testing.T) {
	lab := newLab(t, netlab.Options{})
	a := attach(t, lab.Left, AttachOptions{})
	want := len(a.Maps.Named()) + 2
	if err := filepath.WalkDir(Root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o600)
		if e.IsDir() {
			mode = 0o700
		} else {
			want--
		}
		if info.Mode().Perm() != mode {
			t.Errorf("%s: mode %v, want %v", path, info.Mode().Perm(), mode)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if want != 0 {
		t.Errorf("%d pins are missing", want)
	}
}

func TestNoDevice(t *testing.T) {
	lab := newLab(t, netlab.Options{})
	_, err := tryAttach(t, lab.Left, "eth9", AttachOptions{})
	wantError(t, "attach", err, ErrNoDevice, "eth9", "lo", "left0")
	_, err = tryAttach(t, lab.Left, "a-name-longer-than-a-device-may-have", AttachOptions{})
	wantError(t, "attach by a long name", err, ErrNoDevice, "a-name-longer")
	_, err = tryAttach(t, lab.Left, "", AttachOptions{})
	wantError(t, "attach by no name", err, ErrNoDevice)
	wantError(t, "find", lab.Left.Do(func() error { _, err := Find("eth9", Egress); return err }), ErrNoDevice, "eth9", "left0")
	wantNothing(t)
}

// A device that is gone leaves a stale attachment; one in its place, with its name and index, is policed
// anew, right from its first packet.
func TestStale(t *testing.T) {
	each(t, func(t *testing.T, m Mechanism) {
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

// Somebody took our filter, or our program, off the hook.
func TestTakenOff(t *testing.T) {
	each(t, func(t *testing.T, m Mechanism) {
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

func TestRenamed(t *testing.T) {
	each(t, func(t *testing.T, m Mechanism) {
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

// A command was killed after it had taken the hook, and before its pins appeared.
func TestLeftovers(t *testing.T) {
	each(t, func(t *testing.T, m Mechanism) {
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

// What fails half-way leaves nothing.
func TestAttachUndone(t *testing.T) {
	each(t, func(t *testing.T, m Mechanism) {
		lab := newLab(t, netlab.Options{})
		// The last step of all cannot be done: something is in the pins' place.
		var ns unix.Stat_t
		if err := lab.Left.Do(func() error { return unix.Stat("/proc/thread-self/ns/net", &ns) }); err != nil {
			t.Fatal(err)
		}
		dir := ident{ns.Ino, uint32(lab.Left.Ifindex), Egress}.dir()
		if err := os.MkdirAll(filepath.Join(dir, "x"), 0o700); err != nil {
			t.Fatal(err)
		}
		if _, err := tryAttach(t, lab.Left, "left0", AttachOptions{Direction: Egress, Mechanism: m}); err == nil {
			t.Error("attached over something else")
		}
		if got := hooks(t, lab.Left); got != "" {
			t.Errorf("left on the device: %q", got)
		}
		if err := os.RemoveAll(Root); err != nil {
			t.Fatal(err)
		}
		plan := testPlan(t)
		plan.Classes[0].Meters[0].Profile = 9
		err := lab.Left.Do(func() error { _, err := Attach("left0", plan, AttachOptions{Mechanism: m}); return err })
		if err == nil {
			t.Error("a broken plan was attached")
		}
	})
}

func TestPrivilege(t *testing.T) {
	testutils.RequireRoot(t)
	lab := newLab(t, netlab.Options{})
	errs := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlock: the thread ends with its capabilities
		errs <- lab.Left.Do(func() error {
			header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
			var none [2]unix.CapUserData
			if err := unix.Capset(&header, &none[0]); err != nil {
				return err
			}
			_, err := Attach("left0", testPlan(t), AttachOptions{})
			return err
		})
	}()
	wantError(t, "attach without capabilities", <-errs, ErrPrivilege, "root")
	wantNothing(t)
}

// Neither descriptors nor programs may be left after twenty rounds.
func TestNoLeaks(t *testing.T) {
	lab := newLab(t, netlab.Options{})
	round := func(m Mechanism) ebpf.ProgramID {
		a, err := tryAttach(t, lab.Left, "left0", AttachOptions{Mechanism: m})
		if err != nil {
			t.Fatal(err)
		}
		_, err = tryAttach(t, lab.Left, "left0", AttachOptions{Mechanism: m})
		wantError(t, "second attach", err, ErrAttached)
		if err := lab.Left.Do(func() error {
			all, err := List()
			for _, a := range all {
				a.Close()
			}
			return err
		}); err != nil {
			t.Error(err)
		}
		if err := errors.Join(detach(lab.Left, a), a.Close()); err != nil {
			t.Fatal(err)
		}
		return a.ProgramID
	}
	descriptors := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	round(TCX)
	round(Clsact)
	before := descriptors()
	var programs []ebpf.ProgramID
	for range 10 {
		programs = append(programs, round(TCX), round(Clsact))
	}
	if after := descriptors(); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
	for _, id := range programs {
		// The kernel frees a program in its own time.
		for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
			p, err := ebpf.NewProgramFromID(id)
			if errors.Is(err, fs.ErrNotExist) {
				break
			}
			if err == nil {
				p.Close()
			}
			if time.Now().After(deadline) {
				t.Errorf("program %d is still there: %v", id, err)
				break
			}
		}
	}
	wantNothing(t)
}
