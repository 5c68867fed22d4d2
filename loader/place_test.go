package loader

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/tricolor-policer/tricolor/internal/netlab"
)

func TestPlaceMechanism(t *testing.T) {
	for _, c := range []struct {
		place Place
		m     Mechanism
		want  Mechanism
		words string // of the refusal
	}{
		{Place{}, Auto, Auto, ""},
		{Place{}, Clsact, Clsact, ""},
		{Place{Before: "x"}, Auto, TCX, ""},
		{Place{After: All}, TCX, TCX, ""},
		{Place{Priority: 7}, Auto, Clsact, ""},
		{Place{Priority: 7}, Clsact, Clsact, ""},
		{Place{Before: "x", After: "y"}, Auto, 0, "say one"},
		{Place{Before: "x", Priority: 7}, Auto, 0, "say one"},
		{Place{Before: "x"}, Clsact, 0, "say a priority"},
		{Place{Priority: 7}, TCX, 0, "before or after"},
	} {
		got, err := c.place.mechanism(c.m)
		if c.words != "" {
			wantError(t, fmt.Sprint(c.place, c.m), err, ErrPlace, c.words)
		} else if got != c.want || err != nil {
			t.Errorf("%+v by %v: %v, %v; want %v", c.place, c.m, got, err, c.want)
		}
	}
}

// order lists who is on a hook, ours as "us".
func order(tb testing.TB, h *netlab.Host, d Direction) string {
	tb.Helper()
	var words []string
	if err := h.Do(func() error {
		all, err := ListHook(h.Device, d)
		for _, on := range all {
			word := on.Name
			if on.Policer {
				word = "us"
			}
			if on.Mechanism == Clsact {
				word = fmt.Sprintf("%s:%s@%d", on.Kind, word, on.Priority)
			}
			words = append(words, word)
		}
		return err
	}); err != nil {
		tb.Fatal(err)
	}
	return strings.Join(words, " ")
}

// Wherever it is put among others on TCX, those before see all packets, those behind what it lets through.
func TestPlaceOnTCX(t *testing.T) {
	needs(t, TCX)
	lab := newLab(t, netlab.Options{})
	h := lab.Left
	first, second, third := namedForeign(t, "first"), namedForeign(t, "a_name_cut_at15"), namedForeign(t, "third")
	for _, f := range []*foreign{first, second, third} {
		f.attachTCX(t, h, Egress, false)
	}
	for _, c := range []struct {
		place Place
		want  string
	}{
		{Place{}, "first a_name_cut_at15 third us"},
		{Place{Before: All}, "us first a_name_cut_at15 third"},
		{Place{After: All}, "first a_name_cut_at15 third us"},
		{Place{Before: "first"}, "us first a_name_cut_at15 third"},
		{Place{After: "first"}, "first us a_name_cut_at15 third"},
		{Place{Before: "a_name_cut_at15_bytes"}, "first us a_name_cut_at15 third"},
		{Place{After: fmt.Sprint(second.id(t))}, "first a_name_cut_at15 us third"},
		{Place{Before: fmt.Sprint(third.id(t))}, "first a_name_cut_at15 us third"},
	} {
		before := map[*foreign]uint64{first: first.count(t), second: second.count(t), third: third.count(t)}
		a := attach(t, h, AttachOptions{Direction: Egress, Place: c.place})
		if got := order(t, h, Egress); got != c.want {
			t.Errorf("%+v: on the hook %s, want %s", c.place, got, c.want)
		}
		sendForty(t, lab)
		if got := stats(t, a).Classes[0]; got != counted {
			t.Errorf("%+v: counters %+v", c.place, got)
		}
		ours := strings.Index(c.want, "us")
		for f, name := range map[*foreign]string{first: "first", second: "a_name_cut_at15", third: "third"} {
			want := uint64(40)
			if strings.Index(c.want, name) > ours {
				want = 20
			}
			if got := f.count(t) - before[f]; got != want {
				t.Errorf("%+v: %s saw %d packets, want %d", c.place, name, got, want)
			}
		}
		if err := detach(h, a); err != nil {
			t.Fatal(err)
		}
		if got := order(t, h, Egress); got != "first a_name_cut_at15 third" {
			t.Errorf("after detach: on the hook %s", got)
		}
	}

	_, err := tryAttach(t, h, h.Device, AttachOptions{Direction: Egress, Place: Place{Before: "nosuch"}})
	wantError(t, "before nobody", err, ErrPlace, "nosuch", fmt.Sprintf("%d (first)", first.id(t)), "(third)")
	_, err = tryAttach(t, h, h.Device, AttachOptions{Direction: Ingress, Place: Place{After: "first"}})
	wantError(t, "after nobody", err, ErrPlace, "first", "nobody is on", "ingress")
	twin := namedForeign(t, "first")
	twin.attachTCX(t, h, Egress, false)
	_, err = tryAttach(t, h, h.Device, AttachOptions{Direction: Egress, Place: Place{Before: "first"}})
	wantError(t, "before two", err, ErrPlace, "say an id", fmt.Sprint(first.id(t)), fmt.Sprint(twin.id(t)))
	wantNothing(t)
}

// And so among filters, by priority.
func TestPlaceByPriority(t *testing.T) {
	for _, d := range []Direction{Ingress, Egress} {
		lab := newLab(t, netlab.Options{})
		h := lab.Left
		if d == Ingress {
			h = lab.Right
		}
		addClsact(t, h)
		early, late := newForeign(t), newForeign(t)
		early.attachFilter(t, h, d, 10)
		late.attachFilter(t, h, d, 30)
		for _, c := range []struct {
			priority    uint16
			early, late uint64
			want        string
		}{
			{0, 40, 40, "bpf:foreign@10 bpf:foreign@30 bpf:us@49152"},
			{5, 20, 20, "bpf:us@5 bpf:foreign@10 bpf:foreign@30"},
			{20, 40, 20, "bpf:foreign@10 bpf:us@20 bpf:foreign@30"},
			{65_535, 40, 40, "bpf:foreign@10 bpf:foreign@30 bpf:us@65535"},
		} {
			e, l := early.count(t), late.count(t)
			a := attach(t, h, AttachOptions{Direction: d, Mechanism: Clsact, Place: Place{Priority: c.priority}})
			if got := order(t, h, d); got != c.want {
				t.Errorf("priority %d: on the hook %s, want %s", c.priority, got, c.want)
			}
			sendForty(t, lab)
			if diff := cmp.Diff([]uint64{c.early, c.late}, []uint64{early.count(t) - e, late.count(t) - l}); diff != "" {
				t.Errorf("priority %d: the others saw (-want +got):\n%s", c.priority, diff)
			}
			if err := detach(h, a); err != nil {
				t.Fatal(err)
			}
		}
		_, err := tryAttach(t, h, h.Device, AttachOptions{Direction: d, Place: Place{Priority: 30}})
		wantError(t, "a priority that is taken", err, ErrPlace, "30", "foreign", d.String())
		if got := hooks(t, h); got != fmt.Sprintf("clsact %v:foreign %[1]v:foreign", d) {
			t.Errorf("left: %s", got)
		}
	}
}

// Filters that devices share are no place for one device's policer.
func TestSharedBlock(t *testing.T) {
	lab := newLab(t, netlab.Options{})
	if err := lab.Left.Do(func() error {
		block := uint32(22)
		for _, name := range []string{"left0", "lo"} {
			device, err := netlink.LinkByName(name)
			if err != nil {
				return err
			}
			qdisc := clsact(device)
			qdisc.IngressBlock = &block
			if err := netlink.QdiscAdd(qdisc); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	_, err := tryAttach(t, lab.Left, "left0", AttachOptions{Mechanism: Clsact})
	wantError(t, "attach to a shared block", err, ErrPlace, "left0 ingress", "shared", "tcx")
	wantNothing(t)
	if got := hooks(t, lab.Left); got != "clsact" {
		t.Errorf("left: %q", got)
	}
	attach(t, lab.Left, AttachOptions{Direction: Egress, Mechanism: Clsact}) // which is not shared
}
