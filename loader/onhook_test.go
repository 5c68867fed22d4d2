package loader

import (
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/tricolor-policer/tricolor/internal/netlab"
)

// All on a hook are listed, in their order, be they programs or filters of other kinds; ours are told.
func TestListHook(t *testing.T) {
	needs(t, TCX)
	lab := newLab(t, netlab.Options{})
	h := lab.Left
	if got := order(t, h, Egress); got != "" {
		t.Errorf("on a hook of nobody: %s", got)
	}
	addClsact(t, h)
	at := func(priority, protocol uint16, chain uint32) netlink.FilterAttrs {
		return netlink.FilterAttrs{LinkIndex: h.Ifindex, Parent: Egress.parent(), Priority: priority, Protocol: protocol, Chain: &chain}
	}
	if err := h.Do(func() error {
		for _, at := range []netlink.FilterAttrs{at(3, unix.ETH_P_ALL, 0), at(2, unix.ETH_P_IP, 0), at(1, unix.ETH_P_ALL, 9)} {
			if err := netlink.FilterAdd(&netlink.U32{FilterAttrs: at, ClassId: netlink.MakeHandle(1, 1), Sel: &netlink.TcU32Sel{
				Flags: netlink.TC_U32_TERMINAL, Nkeys: 1, Keys: []netlink.TcU32Key{{Mask: 0xff, Val: 1, Off: 8}},
			}}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Skipf("this kernel lacks u32 filters: %v", err)
	}
	foreign := newForeign(t)
	foreign.attachFilter(t, h, Egress, 1)
	foreign.attachTCX(t, h, Egress, false)
	a := attach(t, h, AttachOptions{Direction: Egress})
	newForeign(t).attachTCX(t, h, Ingress, false)

	var all []OnHook
	if err := h.Do(func() (err error) {
		all, err = a.ListHook()
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for i := range all {
		if all[i].Kind == "u32" {
			all[i].Handle = 0 // the kernel's to choose
		}
	}
	want := []OnHook{
		{Mechanism: TCX, Kind: "bpf", ProgramID: foreign.id(t), Name: "foreign"},
		{Mechanism: TCX, Kind: "bpf", ProgramID: a.ProgramID, Name: programName, Policer: true},
		{Mechanism: Clsact, Kind: "bpf", ProgramID: foreign.id(t), Name: "foreign", Priority: 1, Handle: 7, Protocol: unix.ETH_P_ALL},
		{Mechanism: Clsact, Kind: "u32", Priority: 2, Protocol: unix.ETH_P_IP},
		{Mechanism: Clsact, Kind: "u32", Priority: 3, Protocol: unix.ETH_P_ALL},
		{Mechanism: Clsact, Kind: "u32", Priority: 1, Chain: 9, Protocol: unix.ETH_P_ALL},
	}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Errorf("on the hook (-want +got):\n%s", diff)
	}
	wantError(t, "of no device", h.Do(func() error { _, err := ListHook("eth9", Egress); return err }), ErrNoDevice)
}

// What polices already, by whatever way, is not policed a second time.
func TestNoSecond(t *testing.T) {
	for _, m := range mechanisms {
		t.Run(m.String(), func(t *testing.T) {
			needs(t, m)
			lab := newLab(t, netlab.Options{})
			h := lab.Left
			a := attach(t, h, AttachOptions{Direction: Egress, Mechanism: m})
			before := order(t, h, Egress)
			for _, second := range mechanisms {
				_, err := tryAttach(t, h, h.Device, AttachOptions{Direction: Egress, Mechanism: second})
				wantError(t, "second attach by "+second.String(), err, ErrAttached, "tricolor apply left0", "tricolor detach left0 --direction egress")
			}
			// Its pins are hidden, as by another mount namespace.
			hidden := filepath.Join(Root, "hidden")
			if err := os.Rename(a.ident.dir(), hidden); err != nil {
				t.Fatal(err)
			}
			show := sync.OnceFunc(func() {
				if err := os.Rename(hidden, a.ident.dir()); err != nil {
					t.Error(err)
				}
			})
			defer show()
			_, err := tryAttach(t, h, h.Device, AttachOptions{Direction: Egress, Mechanism: m})
			words := "another mount namespace"
			if m == Clsact {
				words = "tc filter del dev left0 egress prio 49152 handle 0x1 bpf"
			}
			wantError(t, "attach beside one without pins", err, ErrAttached, "left0 egress", words)
			if got := order(t, h, Egress); got != before {
				t.Errorf("on the hook: %s, want %s", got, before)
			}
			show()
			sendForty(t, lab)
			if got := stats(t, a).Classes[0]; got != counted {
				t.Errorf("counters: %+v, want %+v", got, counted)
			}
		})
	}
}

// With CAP_BPF alone pins are read all the same; who else is on the hook is not told.
func TestListWithoutNetAdmin(t *testing.T) {
	needs(t, TCX)
	lab := newLab(t, netlab.Options{})
	attach(t, lab.Left, AttachOptions{Mechanism: TCX})
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()         // and never unlock: the thread ends with its capabilities
		_ = lab.Left.Do(func() error { // which cannot come back
			header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
			var few [2]unix.CapUserData
			few[unix.CAP_BPF/32].Effective = 1 << (unix.CAP_BPF % 32)
			few[unix.CAP_BPF/32].Permitted = 1 << (unix.CAP_BPF % 32)
			if err := unix.Capset(&header, &few[0]); err != nil {
				t.Error(err)
			}
			all, err := List()
			if err != nil || len(all) != 1 || all[0].State != Attached || !all[0].Here {
				t.Errorf("listed %v, %v", all, err)
			}
			for _, a := range all {
				_, err := a.ListHook()
				wantError(t, "list of the hook", err, ErrPrivilege, "CAP_NET_ADMIN")
				a.Close()
			}
			return nil
		})
	}()
	<-done
}
