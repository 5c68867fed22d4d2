package main

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"github.com/tricolor-policer/tricolor/internal/testutils"
)

// start makes a target that the test's end closes.
func start(t *testing.T, p policer, b bucketSize, to [4]byte) *target {
	t.Helper()
	target, err := newTarget(p, b, to)
	if errors.Is(err, errNoPeer) {
		t.Skip(err) // not even TRICOLOR_REQUIRE_KERNEL=1 makes this a failure: peers are nobody's duty
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := target.close(); err != nil {
			t.Error(err)
		}
	})
	return target
}

func (t *target) mustSend(tb testing.TB, order walk, packets uint32) {
	tb.Helper()
	if err := t.flood.follow(order); err != nil {
		tb.Fatal(err)
	}
	if _, err := t.flood.send(packets); err != nil {
		tb.Fatal(err)
	}
}

// Each flow of a flood in turn comes to the hook once, its packets whole, and all of them get to where the flood goes.
func TestFloodFlows(t *testing.T) {
	testutils.RequireRoot(t)
	testutils.RequireTCX(t)
	const flows = 5000
	target := start(t, nothing, plenty, rightUDP)
	seen, err := ebpf.NewMap(&ebpf.MapSpec{Name: "seen", Type: ebpf.Hash, KeySize: 8, ValueSize: 8, MaxEntries: 2 * flows})
	if err != nil {
		t.Fatal(err)
	}
	defer seen.Close()
	const address, port = 26, 34
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "see", Type: ebpf.SchedCLS, License: "Dual BSD/GPL",
		Instructions: asm.Instructions{ // seen[address, port] = 1
			asm.LoadMem(asm.R2, asm.R1, 76, asm.Word),
			asm.LoadMem(asm.R3, asm.R1, 80, asm.Word),
			asm.Mov.Reg(asm.R4, asm.R2),
			asm.Add.Imm(asm.R4, port+2),
			asm.JGT.Reg(asm.R4, asm.R3, "out"),
			asm.LoadMem(asm.R3, asm.R2, address, asm.Word),
			asm.LoadMem(asm.R4, asm.R2, port, asm.Half),
			asm.StoreMem(asm.R10, -8, asm.R3, asm.Word),
			asm.StoreMem(asm.R10, -4, asm.R4, asm.Word),
			asm.Mov.Imm(asm.R3, 1),
			asm.StoreMem(asm.R10, -16, asm.R3, asm.DWord),
			asm.LoadMapPtr(asm.R1, seen.FD()),
			asm.Mov.Reg(asm.R2, asm.R10),
			asm.Add.Imm(asm.R2, -8),
			asm.Mov.Reg(asm.R3, asm.R10),
			asm.Add.Imm(asm.R3, -16),
			asm.Mov.Imm(asm.R4, 0),
			asm.FnMapUpdateElem.Call(),
			asm.Mov.Imm(asm.R0, -1).WithSymbol("out"),
			asm.Return(),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	err = target.lab.Right.Do(func() error {
		l, err := link.AttachTCX(link.TCXOptions{Interface: target.lab.Right.Ifindex, Program: p, Attach: ebpf.AttachTCXIngress})
		if err == nil {
			t.Cleanup(func() { l.Close() })
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	target.mustSend(t, inTurn(flows), flows)
	n := 0
	var key [8]byte
	var one uint64
	for it := seen.Iterate(); it.Next(&key, &one); {
		n++
	}
	if n != flows {
		t.Errorf("%d flows came to the hook, sent were %d", n, flows)
	}
	arrived, err := target.arrived()
	if err != nil {
		t.Fatal(err)
	}
	if arrived < flows { // a signal in between has some sent again
		t.Errorf("%d packets arrived, sent were %d", arrived, flows)
	}
}

// What goes nowhere gets past every hook, PREROUTING included, and is dropped there.
func TestFloodNowhere(t *testing.T) {
	testutils.RequireRoot(t)
	const flows = 30
	target := start(t, hashlimit, plenty, nowhere)
	target.mustSend(t, inTurn(flows), 2000)
	var known []byte
	err := target.lab.Right.Do(func() (err error) {
		known, err = os.ReadFile("/proc/thread-self/net/ipt_hashlimit/flood")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(known, []byte("\n")); n != flows {
		t.Errorf("hashlimit knows %d flows, sent were %d", n, flows)
	}
	delivered, err := target.snmp("Ip:", "InDelivers")
	if err != nil {
		t.Fatal(err)
	}
	if delivered != 0 {
		t.Errorf("IP delivered %d packets", delivered)
	}
}

// Each policer lets through what conforms, drops what does not, and meters the flows each by itself, except for
// the one limit for all.
func TestPolicersMeter(t *testing.T) {
	testutils.RequireRoot(t)
	for _, p := range append([]policer{oursToken, oursSRTCM}, peers...) {
		t.Run(p.name, func(t *testing.T) {
			const flows, each = 40, 50
			all := start(t, p, bucketSize{rate: 1e9, burst: 1.1e9, flows: flows}, rightUDP)
			all.mustSend(t, inTurn(flows), flows*each)
			arrived, err := all.arrived()
			if err != nil {
				t.Fatal(err)
			}
			if received, err := all.received(); err != nil || arrived != received || received < flows*each {
				t.Errorf("%d of %d packets of a plentiful rate arrived (%v)", arrived, received, err)
			}
			// 16 bytes a second are no packet more in less than four seconds.
			few := start(t, p, bucketSize{rate: 16, burst: 64, flows: flows}, rightUDP)
			few.mustSend(t, inTurn(flows), flows*each)
			if arrived, err = few.arrived(); err != nil {
				t.Fatal(err)
			}
			least, most := uint64(flows), uint64(flows*each/2)
			if p.name == nftSingle.name {
				least, most = 1, flows/2
			}
			if arrived < least || arrived > most {
				t.Errorf("%d packets of a scant rate arrived, want %d to %d", arrived, least, most)
			}
		})
	}
}
