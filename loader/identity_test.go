package loader

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/tricolor-policer/tricolor/internal/netlab"
)

// addVeth makes a pair of devices on a host, the first with an index of its own; 0: any.
func addVeth(tb testing.TB, h *netlab.Host, name, peer string, index int) *netlink.Veth {
	tb.Helper()
	d := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name, Index: index}, PeerName: peer}
	if err := h.Do(func() error { return netlink.LinkAdd(d) }); err != nil {
		tb.Fatal(err)
	}
	return d
}

// Devices of the same name and index in two network namespaces have nothing to do with one another.
func TestSameIndexElsewhere(t *testing.T) {
	for _, m := range mechanisms {
		t.Run(m.String(), func(t *testing.T) {
			needs(t, m)
			lab := newLab(t, netlab.Options{})
			o := AttachOptions{Mechanism: m}
			var both [2]*Attachment
			for i, h := range []*netlab.Host{lab.Left, lab.Right} {
				addVeth(t, h, "veth7", "peer0", 77)
				a, err := tryAttach(t, h, "veth7", o)
				if err != nil {
					t.Fatal(err)
				}
				defer a.Close()
				both[i] = a
			}
			for i, h := range []*netlab.Host{lab.Left, lab.Right} {
				got := find(t, h, "veth7", Ingress)
				if got.ProgramID != both[i].ProgramID || got.State != Attached || !got.Here {
					t.Errorf("found program %d, %v, want %d", got.ProgramID, got.State, both[i].ProgramID)
				}
			}
			if err := detach(lab.Left, find(t, lab.Left, "veth7", Ingress)); err != nil {
				t.Fatal(err)
			}
			if got := find(t, lab.Right, "veth7", Ingress); got.State != Attached || got.ProgramID != both[1].ProgramID {
				t.Errorf("the other is %v", got.State)
			}
			wantError(t, "find of what was taken off", lab.Left.Do(func() error { _, err := Find("veth7", Ingress); return err }), ErrNotAttached)
			if err := detach(lab.Right, both[1]); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A device has several names, some longer than a name may be: each will do.
func TestAlternativeNames(t *testing.T) {
	const long = "a-name-longer-than-a-device-may-have"
	lab := newLab(t, netlab.Options{})
	d := addVeth(t, lab.Left, "veth7", "peer0", 0)
	if err := lab.Left.Do(func() error { return netlink.LinkAddAltName(d, long) }); err != nil {
		t.Fatal(err)
	}
	a, err := tryAttach(t, lab.Left, long, AttachOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if a.Device != "veth7" || a.About.Device != "veth7" {
		t.Errorf("attached to %s", a.Device)
	}
	_, err = tryAttach(t, lab.Left, "veth7", AttachOptions{})
	wantError(t, "a second attach, by another name", err, ErrAttached, "veth7")
	if err := lab.Left.Do(func() error { _, err := ListHook(long, Ingress); return err }); err != nil {
		t.Error(err)
	}
	if err := detach(lab.Left, find(t, lab.Left, long, Ingress)); err != nil {
		t.Error(err)
	}
}

// A device that replaces a policed one, with its name and index, is policed from its first packet on, and
// by a table of its own.
func TestReplacedDevice(t *testing.T) {
	for _, m := range mechanisms {
		t.Run(m.String(), func(t *testing.T) {
			needs(t, m)
			lab := newLab(t, netlab.Options{})
			index := lab.Left.Ifindex
			old, err := tryAttach(t, lab.Left, "left0", AttachOptions{Direction: Egress, Mechanism: m})
			if err != nil {
				t.Fatal(err)
			}
			defer old.Close()
			// Its twin, of another laboratory, comes to its place: another device of that name and index.
			twin := newLab(t, netlab.Options{})
			if twin.Left.Ifindex != index {
				t.Fatalf("the twin has index %d, want %d", twin.Left.Ifindex, index)
			}
			if err := twin.Left.Do(func() error {
				_, err := Find("left0", Egress)
				return err
			}); err == nil {
				t.Error("found in another network namespace")
			}
			if err := lab.Close(); err != nil {
				t.Fatal(err)
			}
			all, err := List()
			if err != nil || len(all) != 1 {
				t.Fatalf("listed %v, %v", all, err)
			}
			defer all[0].Close()
			if want := map[Mechanism]State{TCX: Stale, Clsact: Unseen}[m]; all[0].State != want || all[0].Here {
				t.Errorf("its namespace gone: %v, here %v; want %v", all[0].State, all[0].Here, want)
			}
			now := attach(t, twin.Left, AttachOptions{Direction: Egress, Mechanism: m})
			sendForty(t, twin)
			if got := stats(t, now).Classes[0]; got != counted {
				t.Errorf("counters: %+v, want %+v", got, counted)
			}
			if got := stats(t, old).Classes[0]; got == counted {
				t.Error("the old one polices still")
			}
			found, err := GC(GCOptions{Unseen: true})
			if err != nil || len(found) != 1 || !found[0].Removed || found[0].Path != old.ident.dir() {
				t.Errorf("gc: %+v, %v", found, err)
			}
		})
	}
}

// A device that is moved to another network namespace takes its policer with it, by TCX: it is found there, and
// not attached a second time.
func TestMovedDevice(t *testing.T) {
	needs(t, TCX)
	lab := newLab(t, netlab.Options{})
	d := addVeth(t, lab.Left, "veth7", "peer0", 77)
	addVeth(t, lab.Right, "other0", "other1", 77) // so that it gets another index
	a, err := tryAttach(t, lab.Left, "veth7", AttachOptions{Mechanism: TCX})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if err := lab.Left.Do(func() error { return netlink.LinkSetNsFd(d, int(lab.Right.NS)) }); err != nil {
		t.Fatal(err)
	}
	if got := find(t, lab.Left, "veth7", Ingress); got.State != Moved || got.Here || got.ProgramID != a.ProgramID {
		t.Errorf("where it was: %v, here %v", got.State, got.Here)
	}
	wantError(t, "the one with its old index", lab.Right.Do(func() error { _, err := Find("other0", Ingress); return err }), ErrNotAttached)
	there := find(t, lab.Right, "veth7", Ingress)
	if there.State != Attached || !there.Here || there.ProgramID != a.ProgramID || there.Device != "veth7" {
		t.Errorf("where it is: %v, here %v, device %s", there.State, there.Here, there.Device)
	}
	_, err = tryAttach(t, lab.Right, "veth7", AttachOptions{})
	wantError(t, "a second attach", err, ErrAttached, "veth7 ingress", "tricolor detach veth7")
	_, err = tryAttach(t, lab.Right, "veth7", AttachOptions{Mechanism: Clsact})
	wantError(t, "a second attach by clsact", err, ErrAttached)

	// Another takes its place: it cannot have its pins.
	addVeth(t, lab.Left, "veth8", "peer8", 77)
	wantError(t, "find of what took its place", lab.Left.Do(func() error { _, err := Find("veth8", Ingress); return err }), ErrNotAttached)
	_, err = tryAttach(t, lab.Left, "veth8", AttachOptions{})
	wantError(t, "attach in its place", err, ErrAttached, "moved", "tricolor detach veth7")
	if taken, left, err := detachAll(t, lab.Left); taken != "" || left != "veth7/ingress" || err != nil {
		t.Errorf("detach of all where it was: took %q off, left %q, %v", taken, left, err)
	}
	if err := detach(lab.Right, there); err != nil {
		t.Fatal(err)
	}
	if ids, err := tcxOf(lab.Right, "veth7"); len(ids) != 0 || err != nil {
		t.Errorf("left on the hook: %v, %v", ids, err)
	}
	wantNothing(t)
}

func tcxOf(h *netlab.Host, device string) (names []OnHook, err error) {
	err = h.Do(func() error {
		names, err = ListHook(device, Ingress)
		return err
	})
	return names, err
}

// detachAll takes off all of a host, and returns the devices of what was taken off, and left.
func detachAll(tb testing.TB, h *netlab.Host) (taken, left string, err error) {
	tb.Helper()
	names := func(all []*Attachment) string {
		var names []string
		for _, a := range all {
			names = append(names, fmt.Sprint(a.Device, "/", a.Direction()))
			a.Close()
		}
		return strings.Join(names, " ")
	}
	err = h.Do(func() error {
		t, l, err := DetachAll()
		taken, left = names(t), names(l)
		return err
	})
	return taken, left, err
}

// All of this network namespace go, stale ones too, and none of another.
func TestDetachAll(t *testing.T) {
	for _, m := range mechanisms {
		t.Run(m.String(), func(t *testing.T) {
			needs(t, m)
			lab := newLab(t, netlab.Options{})
			if taken, left, err := detachAll(t, lab.Left); taken != "" || left != "" || err != nil {
				t.Errorf("of none: %q, %q, %v", taken, left, err)
			}
			d := addVeth(t, lab.Left, "veth7", "peer0", 77)
			stale, err := tryAttach(t, lab.Left, "veth7", AttachOptions{Mechanism: m})
			if err != nil {
				t.Fatal(err)
			}
			defer stale.Close()
			if err := lab.Left.Do(func() error { return netlink.LinkDel(d) }); err != nil {
				t.Fatal(err)
			}
			attach(t, lab.Left, AttachOptions{Direction: Ingress, Mechanism: m})
			attach(t, lab.Left, AttachOptions{Direction: Egress, Mechanism: m})
			other := attach(t, lab.Right, AttachOptions{Direction: Ingress, Mechanism: m})
			if taken, left, err := detachAll(t, lab.Left); taken != "left0/ingress left0/egress veth7/ingress" || left != "right0/ingress" || err != nil {
				t.Errorf("took %q off, left %q, %v", taken, left, err)
			}
			if got := hooks(t, lab.Left) + order(t, lab.Left, Ingress) + order(t, lab.Left, Egress); got != "" {
				t.Errorf("left on left0: %s", got)
			}
			if got := find(t, lab.Right, "right0", Ingress); got.State != Attached || got.ProgramID != other.ProgramID {
				t.Errorf("the other host's is %v", got.State)
			}
		})
	}
}
