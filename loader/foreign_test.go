package loader

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/tricolor-policer/tricolor/internal/netlab"
)

// foreign is somebody else's program on a hook. It counts what passes, and lets it go on.
type foreign struct {
	program *ebpf.Program
	counts  *ebpf.Map
}

func newForeign(tb testing.TB) *foreign { return namedForeign(tb, "foreign") }

func namedForeign(tb testing.TB, name string) *foreign {
	tb.Helper()
	counts, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		tb.Fatal(err)
	}
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: name, Type: ebpf.SchedCLS, License: "Dual BSD/GPL", Instructions: asm.Instructions{
		asm.LoadMapValue(asm.R1, counts.FD(), 0),
		asm.Mov.Imm(asm.R2, 1),
		asm.AddAtomic.Mem(asm.R1, asm.R2, asm.DWord, 0),
		asm.Mov.Imm(asm.R0, -1),
		asm.Return(),
	}})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		program.Close()
		counts.Close()
	})
	return &foreign{program, counts}
}

// id is the program's.
func (f *foreign) id(tb testing.TB) ebpf.ProgramID {
	tb.Helper()
	info, err := f.program.Info()
	if err != nil {
		tb.Fatal(err)
	}
	id, _ := info.ID()
	return id
}

// count returns how many buffers have passed.
func (f *foreign) count(tb testing.TB) (n uint64) {
	tb.Helper()
	if err := f.counts.Lookup(uint32(0), &n); err != nil {
		tb.Fatal(err)
	}
	return n
}

func (f *foreign) attachTCX(tb testing.TB, h *netlab.Host, d Direction, first bool) {
	tb.Helper()
	anchor := link.Tail()
	if first {
		anchor = link.Head()
	}
	err := h.Do(func() error {
		l, err := link.AttachTCX(link.TCXOptions{Interface: h.Ifindex, Program: f.program, Attach: d.attachType(), Anchor: anchor})
		if err == nil {
			tb.Cleanup(func() { l.Close() })
		}
		return err
	})
	if errors.Is(err, ebpf.ErrNotSupported) {
		tb.Skipf("needs TCX (Linux 6.6): %v", err)
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// attachFilter hangs it on the device's clsact qdisc, which must be there.
func (f *foreign) attachFilter(tb testing.TB, h *netlab.Host, d Direction, priority uint16) {
	tb.Helper()
	err := h.Do(func() error {
		return netlink.FilterAdd(&netlink.BpfFilter{
			FilterAttrs: netlink.FilterAttrs{
				LinkIndex: h.Ifindex, Parent: d.parent(), Handle: 7, Priority: priority, Protocol: unix.ETH_P_ALL,
			},
			Fd: f.program.FD(), Name: "foreign", DirectAction: true,
		})
	})
	if err != nil {
		tb.Fatal(err)
	}
}

// hooks lists what hangs on the device by netlink: qdiscs and the names of filters.
func hooks(tb testing.TB, h *netlab.Host) string {
	tb.Helper()
	var out []string
	err := h.Do(func() error {
		device, err := netlink.LinkByIndex(h.Ifindex)
		if err != nil {
			return err
		}
		qdiscs, err := netlink.QdiscList(device)
		if err != nil {
			return err
		}
		for _, q := range qdiscs {
			if q.Attrs().Parent == netlink.HANDLE_CLSACT {
				out = append(out, q.Type())
			}
		}
		for _, d := range []Direction{Ingress, Egress} {
			if d == Egress && slices.Contains(out, "ingress") {
				continue // it has no egress side, and would list the other again
			}
			filters, err := netlink.FilterList(device, d.parent())
			if err != nil {
				return err
			}
			for _, f := range filters {
				if b, ok := f.(*netlink.BpfFilter); ok && b.Handle != 0 {
					out = append(out, d.String()+":"+b.Name)
				}
			}
		}
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	return strings.Join(out, " ")
}

func addClsact(tb testing.TB, h *netlab.Host) {
	tb.Helper()
	if err := h.Do(func() error {
		return netlink.QdiscAdd(clsact(&netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: h.Ifindex}}))
	}); err != nil {
		tb.Fatal(err)
	}
}

func sendForty(tb testing.TB, lab *netlab.Lab) {
	tb.Helper()
	sink, err := lab.Right.ReceiveUDP(false, port)
	if err != nil {
		tb.Fatal(err)
	}
	_, err = lab.Left.SendUDP(bounded(tb), netlab.UDPFlow{To: sink.Addr(), From: port, Payload: packetLen - 28, Count: 40})
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := sink.Stop(); err != nil { // all has arrived
		tb.Fatal(err)
	}
}

// Whoever is on the hook before us sees all packets, whoever is behind us all that we let through, and
// they stay when we go.
func TestForeign(t *testing.T) {
	for _, d := range []Direction{Ingress, Egress} {
		for _, m := range mechanisms {
			t.Run(m.String(), func(t *testing.T) {
				needs(t, m)
				lab := newLab(t, netlab.Options{})
				h := lab.Right
				if d == Egress {
					h = lab.Left
				}
				// Each of ours and of both kinds of foreign: there first, and come later.
				addClsact(t, h)
				earlyTCX, earlyFilter := newForeign(t), newForeign(t)
				earlyTCX.attachTCX(t, h, d, false)
				earlyFilter.attachFilter(t, h, d, 60_000) // after which no place is free but behind it
				before := hooks(t, h)
				a := attach(t, h, AttachOptions{Direction: d, Mechanism: m})
				lateTCX := newForeign(t)
				lateTCX.attachTCX(t, h, d, false)
				lateFilter := newForeign(t)
				lateFilter.attachFilter(t, h, d, 65_000)

				sendForty(t, lab)
				if got := stats(t, a).Classes[0]; got != counted {
					t.Errorf("counters: %+v, want %+v", got, counted)
				}
				want := map[*foreign]uint64{earlyTCX: 40, lateTCX: 20, earlyFilter: 20, lateFilter: 20}
				if m == Clsact { // all of TCX runs first
					want = map[*foreign]uint64{earlyTCX: 40, lateTCX: 40, earlyFilter: 40, lateFilter: 20}
				}
				for f, name := range map[*foreign]string{earlyTCX: "TCX first", lateTCX: "TCX later", earlyFilter: "filter first", lateFilter: "filter later"} {
					if got := f.count(t); got != want[f] {
						t.Errorf("%s saw %d packets, want %d", name, got, want[f])
					}
				}

				if err := detach(h, a); err != nil {
					t.Fatal(err)
				}
				if after := hooks(t, h); after != before+" "+d.String()+":foreign" {
					t.Errorf("on the hook: %s; before us there was %s", after, before)
				}
				sendForty(t, lab)
				for f, name := range map[*foreign]string{earlyTCX: "TCX first", lateTCX: "TCX later", earlyFilter: "filter first", lateFilter: "filter later"} {
					if got := f.count(t); got != want[f]+40 {
						t.Errorf("after us %s saw %d packets more, want 40", name, got-want[f])
					}
				}
			})
		}
	}
}

// The very last priority is taken: ours goes before it, into a free place, and replaces nobody.
func TestFilterPlace(t *testing.T) {
	lab := newLab(t, netlab.Options{})
	addClsact(t, lab.Left)
	last, next := newForeign(t), newForeign(t)
	last.attachFilter(t, lab.Left, Egress, 65_535)
	next.attachFilter(t, lab.Left, Egress, 65_534)
	a := attach(t, lab.Left, AttachOptions{Direction: Egress, Mechanism: Clsact})
	if a.About.Priority != 65_533 {
		t.Errorf("our priority is %d", a.About.Priority)
	}
	sendForty(t, lab)
	if last.count(t) != 20 || next.count(t) != 20 {
		t.Errorf("those behind us saw %d and %d packets, want 20 each", next.count(t), last.count(t))
	}
}

// The clsact qdisc goes with the last of ours if we added it and nobody else uses it, and only then.
func TestOwnQdisc(t *testing.T) {
	for name, first := range map[string]Direction{"ingress first": Ingress, "egress first": Egress} {
		t.Run(name, func(t *testing.T) {
			lab := newLab(t, netlab.Options{})
			h := lab.Left
			a := attach(t, h, AttachOptions{Direction: Ingress, Mechanism: Clsact})
			b := attach(t, h, AttachOptions{Direction: Egress, Mechanism: Clsact})
			if first == Egress {
				a, b = b, a
			}
			if err := detach(h, a); err != nil {
				t.Fatal(err)
			}
			if got, want := hooks(t, h), "clsact "+b.Direction().String()+":tricolor"; got != want {
				t.Errorf("after the first detach: %q, want %q", got, want)
			}
			if err := detach(h, b); err != nil {
				t.Fatal(err)
			}
			if got := hooks(t, h); got != "" {
				t.Errorf("left: %q", got)
			}
		})
	}
	t.Run("foreign filter", func(t *testing.T) {
		lab := newLab(t, netlab.Options{})
		a := attach(t, lab.Left, AttachOptions{Direction: Ingress, Mechanism: Clsact})
		newForeign(t).attachFilter(t, lab.Left, Egress, 9)
		if err := detach(lab.Left, a); err != nil {
			t.Fatal(err)
		}
		if got := hooks(t, lab.Left); got != "clsact egress:foreign" {
			t.Errorf("left: %q", got)
		}
	})
	t.Run("foreign filter at our priority", func(t *testing.T) {
		lab := newLab(t, netlab.Options{})
		a := attach(t, lab.Left, AttachOptions{Direction: Ingress, Mechanism: Clsact})
		newForeign(t).attachFilter(t, lab.Left, Ingress, a.About.Priority)
		if err := detach(lab.Left, a); err != nil {
			t.Fatal(err)
		}
		if got := hooks(t, lab.Left); got != "clsact ingress:foreign" {
			t.Errorf("left: %q", got)
		}
	})
	t.Run("foreign qdisc", func(t *testing.T) {
		lab := newLab(t, netlab.Options{})
		addClsact(t, lab.Left)
		a := attach(t, lab.Left, AttachOptions{Direction: Ingress, Mechanism: Clsact})
		if err := detach(lab.Left, a); err != nil {
			t.Fatal(err)
		}
		if got := hooks(t, lab.Left); got != "clsact" {
			t.Errorf("left: %q", got)
		}
	})
	t.Run("ingress qdisc", func(t *testing.T) {
		lab := newLab(t, netlab.Options{})
		if err := lab.Left.Do(func() error {
			return netlink.QdiscAdd(&netlink.Ingress{QdiscAttrs: netlink.QdiscAttrs{
				LinkIndex: lab.Left.Ifindex, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_INGRESS,
			}})
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := tryAttach(t, lab.Left, "left0", AttachOptions{Direction: Egress, Mechanism: Clsact}); err == nil || !strings.Contains(err.Error(), "ingress qdisc") {
			t.Errorf("egress beside an ingress qdisc: %v", err)
		}
		wantNothing(t)
		a := attach(t, lab.Left, AttachOptions{Direction: Ingress, Mechanism: Clsact})
		if got := hooks(t, lab.Left); got != "ingress ingress:tricolor" {
			t.Errorf("on the hook: %q", got)
		}
		if err := detach(lab.Left, a); err != nil {
			t.Fatal(err)
		}
		if got := hooks(t, lab.Left); got != "ingress" {
			t.Errorf("left: %q", got)
		}
	})
	wantNothing(t)
}
