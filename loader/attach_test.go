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
	"github.com/cilium/ebpf/link"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/tricolor-policer/tricolor/internal/netlab"
	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/marker"
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
	for _, m := range mechanisms {
		t.Run(m.String(), func(t *testing.T) {
			needs(t, m)
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
	auto := attach(t, lab.Left, AttachOptions{Direction: Egress})
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
		want := []string{"left0 ingress clsact attached", "left0 egress " + auto.Mechanism.String() + " attached", "right0 egress clsact unseen"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("listed (-want +got):\n%s", diff)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

// Nobody but root may open a pin, or see which there are, whatever the umask of who attaches.
func TestPinsArePrivate(t *testing.T) {
	testutils.RequireRoot(t)
	defer unix.Umask(unix.Umask(0))
	for _, m := range mechanisms {
		t.Run(m.String(), func(t *testing.T) {
			needs(t, m)
			pinsArePrivate(t, m)
		})
	}
}

func pinsArePrivate(t *testing.T, m Mechanism) {
	lab := newLab(t, netlab.Options{})
	a := attach(t, lab.Left, AttachOptions{Mechanism: m})
	want := len(a.Maps.Named()) + 1 // the program
	if m == TCX {
		want++ // the link
	}
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

// What fails leaves nothing, be it at the first step or at the last: when all is on the hook, and
// something is in the pins' place.
func TestAttachUndone(t *testing.T) {
	for _, m := range mechanisms {
		t.Run(m.String(), func(t *testing.T) {
			needs(t, m)
			lab := newLab(t, netlab.Options{})
			plan := testPlan(t)
			plan.Classes[0].Meters[0].Profile = 9
			err := lab.Left.Do(func() error { _, err := Attach("left0", plan, AttachOptions{Mechanism: m}); return err })
			wantError(t, "a broken plan", err, marker.ErrPlan)
			wantNothing(t)

			a := attach(t, lab.Left, AttachOptions{Direction: Egress})
			if err := detach(lab.Left, a); err != nil {
				t.Fatal(err)
			}
			attachTCX = func(o link.TCXOptions) (link.Link, error) {
				if err := os.MkdirAll(filepath.Join(a.ident.dir(), "x"), 0o700); err != nil {
					return nil, err
				}
				if m == Clsact {
					return nil, ebpf.ErrNotSupported
				}
				return link.AttachTCX(o)
			}
			defer func() { attachTCX = link.AttachTCX }()
			b, err := tryAttach(t, lab.Left, "left0", AttachOptions{Direction: Egress})
			if err == nil {
				b.Close()
				t.Error("attached over something else")
			}
			if got := hooks(t, lab.Left); got != "" {
				t.Errorf("left on the device: %q", got)
			}
			entries, err := os.ReadDir(Root)
			if err != nil || len(entries) != 1 {
				t.Errorf("left under %s: %v, %v; want what was in the way", Root, entries, err)
			}
			if err := os.RemoveAll(Root); err != nil {
				t.Fatal(err)
			}
			after := newForeign(t)
			after.attachTCX(t, lab.Left, Egress, false)
			sendForty(t, lab)
			if got := after.count(t); got != 40 {
				t.Errorf("the hook passes %d packets, want 40: something polices", got)
			}
		})
	}
}

// A kernel before 6.6 has no TCX.
func TestNoTCX(t *testing.T) {
	lab := newLab(t, netlab.Options{})
	attachTCX = func(link.TCXOptions) (link.Link, error) { return nil, ebpf.ErrNotSupported }
	defer func() { attachTCX = link.AttachTCX }()
	_, err := tryAttach(t, lab.Left, "left0", AttachOptions{Mechanism: TCX})
	wantError(t, "TCX", err, ErrKernel, "6.6", "clsact")
	wantNothing(t)
	a := attach(t, lab.Left, AttachOptions{Direction: Egress})
	found := find(t, lab.Left, "left0", Egress)
	if a.Mechanism != Clsact || found.Mechanism != Clsact || found.State != Attached {
		t.Errorf("attached by %v; found as %v, %v", a.Mechanism, found.Mechanism, found.State)
	}
	sendForty(t, lab)
	if got := stats(t, found).Classes[0]; got != counted {
		t.Errorf("counters: %+v, want %+v", got, counted)
	}
}

// Of several commands at once one attaches, and the others are told so.
func TestAttachAtOnce(t *testing.T) {
	for _, m := range mechanisms {
		t.Run(m.String(), func(t *testing.T) {
			needs(t, m)
			lab := newLab(t, netlab.Options{})
			const commands = 4
			type result struct {
				a   *Attachment
				err error
			}
			results := make(chan result)
			for range commands {
				go func() {
					a, err := tryAttach(t, lab.Left, "left0", AttachOptions{Mechanism: m})
					results <- result{a, err}
				}()
			}
			var won *Attachment
			for range commands {
				r := <-results
				switch {
				case r.err != nil:
					wantError(t, "one of several", r.err, ErrAttached)
				case won != nil:
					t.Error("two have attached")
					fallthrough
				default:
					won = r.a
					defer r.a.Close()
				}
			}
			if won == nil {
				t.Fatal("none has attached")
			}
			// And so with taking off.
			errs := make(chan error)
			for range commands {
				go func() { errs <- detach(lab.Left, won) }()
			}
			done := 0
			for range commands {
				if err := <-errs; err == nil {
					done++
				} else {
					wantError(t, "one of several", err, ErrNotAttached)
				}
			}
			if done != 1 {
				t.Errorf("%d have detached, want 1", done)
			}
		})
	}
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
