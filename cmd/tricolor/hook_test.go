package main

import (
	"runtime"
	"strconv"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
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
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: args[2], Type: ebpf.SchedCLS, License: "Dual BSD/GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()},
	})
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
	_ = netlink.QdiscAdd(&netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{ // it may be there
		LinkIndex: device.Attrs().Index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
	}})
	ts.Check(netlink.FilterAdd(&netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{
			LinkIndex: device.Attrs().Index, Parent: netlink.HANDLE_MIN_EGRESS, Handle: 7, Priority: uint16(priority), Protocol: unix.ETH_P_ALL,
		},
		Fd: program.FD(), Name: args[2], DirectAction: true,
	}))
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
