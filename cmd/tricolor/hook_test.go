package main

import (
	"errors"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/tricolor-policer/tricolor/internal/testutils"
)

// rename renames a device: rename d0 d9.
func rename(ts *testscript.TestScript, _ bool, args []string) {
	device, err := netlink.LinkByName(args[0])
	ts.Check(err)
	ts.Check(netlink.LinkSetName(device, args[1]))
}

// altname gives a device another name besides: altname d0 uplink.
func altname(ts *testscript.TestScript, _ bool, args []string) {
	device, err := netlink.LinkByName(args[0])
	ts.Check(err)
	ts.Check(netlink.LinkAddAltName(device, args[1]))
}

// foreign puts somebody else's program on a device's egress, until the script ends: foreign d0 tcx NAME, or as a
// filter of a priority: foreign d0 7 NAME. It lets all packets go on.
func foreign(ts *testscript.TestScript, _ bool, args []string) {
	device, err := netlink.LinkByName(args[0])
	ts.Check(err)
	program, err := newForeign(args[2])
	ts.Check(err)
	defer program.Close()
	if args[1] == "tcx" {
		l, err := link.AttachTCX(link.TCXOptions{Interface: device.Attrs().Index, Program: program, Attach: ebpf.AttachTCXEgress})
		ts.Check(err)
		ts.Defer(func() { l.Close() })
		return
	}
	priority, err := strconv.ParseUint(args[1], 10, 16)
	ts.Check(err)
	ts.Check(addFilter(device, uint16(priority), args[2], program))
}

// newForeign loads a program that lets all packets go on.
func newForeign(name string) (*ebpf.Program, error) {
	return ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: name, Type: ebpf.SchedCLS, License: "Dual BSD/GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()},
	})
}

// addFilter runs a program on a device's egress, by a filter.
func addFilter(device netlink.Link, priority uint16, name string, program *ebpf.Program) error {
	err := netlink.QdiscAdd(&netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: device.Attrs().Index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
	}})
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	return netlink.FilterAdd(&netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{
			LinkIndex: device.Attrs().Index, Parent: netlink.HANDLE_MIN_EGRESS, Handle: 7, Priority: priority, Protocol: unix.ETH_P_ALL,
		},
		Fd: program.FD(), Name: name, DirectAction: true,
	})
}

// others are the scripts' other network namespaces, by script.
var others sync.Map

// elsewhere runs a command in a network namespace of the script's own, which lasts until the script ends:
// elsewhere tricolor attach lo.
func elsewhere(ts *testscript.TestScript, _ bool, args []string) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	home, err := netns.Get()
	ts.Check(err)
	defer home.Close()
	if other, ok := others.Load(ts); ok {
		ts.Check(netns.Set(other.(netns.NsHandle)))
	} else {
		other, err := netns.New() // and the thread is there
		ts.Check(err)
		others.Store(ts, other)
		ts.Defer(func() {
			others.Delete(ts)
			other.Close()
		})
	}
	err = ts.Exec(args[0], args[1:]...)
	ts.Check(netns.Set(home))
	ts.Check(err)
}

// Whatever those on the hook are called, and devices that are gone, no command prints what a terminal obeys.
func TestHostileHook(t *testing.T) {
	testutils.RequireRoot(t)
	const name = "d\x1b[2J\u009b"
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	device := &netlink.Veth{LinkAttrs: attrs, PeerName: "peer0"}
	if err := netlink.LinkAdd(device); err != nil {
		t.Fatal(err)
	}
	gone := sync.OnceFunc(func() {
		if err := netlink.LinkDel(device); err != nil {
			t.Error(err)
		}
	})
	defer gone()
	program, err := newForeign("foreign")
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	if err := addFilter(device, 7, hostile, program); err != nil {
		t.Fatal(err)
	}
	attach := func(args ...string) []string {
		return append([]string{"attach", name, "--direction", "egress", "--meter", "token", "--cir", "1mbit", "--cbs", "70kB", "--flows", "64"}, args...)
	}
	for _, args := range [][]string{
		{"show", name}, {"show", name, "-o", "json"}, attach("--prio", "7"), attach(), attach("--hook", "clsact"), {"show"},
		{"detach", "--all"}, attach(),
	} {
		wantHarmless(t, args...)
	}
	gone()
	for _, args := range [][]string{{"gc", "-n"}, {"gc", "-n", "-o", "json"}, {"gc"}} {
		wantHarmless(t, args...)
	}
}
