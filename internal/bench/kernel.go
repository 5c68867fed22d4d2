package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/tricolor-policer/tricolor/loader"
	"github.com/tricolor-policer/tricolor/marker"
)

// The kernel program is timed by test runs of a small program that gives the packet a source address
// out of flows and then tail-calls: once the policer, once a program that does nothing. What the two
// differ by is the policer's.

// driver loads a program that writes one of flows source addresses and tail-calls target.
func driver(target *ebpf.Program, flows uint32) (*ebpf.Program, func(), error) {
	table, err := ebpf.NewMap(&ebpf.MapSpec{
		Name: "target", Type: ebpf.ProgramArray, KeySize: 4, ValueSize: 4, MaxEntries: 1,
		Contents: []ebpf.MapKV{{Key: uint32(0), Value: target}},
	})
	if err != nil {
		return nil, nil, err
	}
	const sourceAddress = 14 + 12
	insns := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMem(asm.R7, asm.R1, 76, asm.Word), // data
		asm.LoadMem(asm.R8, asm.R1, 80, asm.Word), // data_end
		asm.Mov.Reg(asm.R2, asm.R7),
		asm.Add.Imm(asm.R2, 64),
		asm.JGT.Reg(asm.R2, asm.R8, "out"),
	}
	if flows > 1 {
		// (random × flows) >> 32
		insns = append(insns,
			asm.FnGetPrandomU32.Call(),
			asm.LoadImm(asm.R1, int64(flows), asm.DWord),
			asm.Mul.Reg(asm.R0, asm.R1),
			asm.RSh.Imm(asm.R0, 32),
			asm.StoreMem(asm.R7, sourceAddress, asm.R0, asm.Word),
		)
	}
	insns = append(insns,
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.LoadMapPtr(asm.R2, table.FD()),
		asm.Mov.Imm(asm.R3, 0),
		asm.FnTailCall.Call(),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("out"),
		asm.Return(),
	)
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "driver", Type: ebpf.SchedCLS, License: "Dual BSD/GPL", Instructions: insns})
	if err != nil {
		return nil, nil, errors.Join(err, table.Close())
	}
	return p, func() { p.Close(); table.Close() }, nil
}

// empty loads a program that lets every packet go on.
func empty() (*ebpf.Program, error) {
	return ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "empty", Type: ebpf.SchedCLS, License: "Dual BSD/GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()},
	})
}

// perPacket is the mean time of runs test runs of a program, in ns.
func perPacket(p *ebpf.Program, frame []byte, runs uint32) (float64, error) {
	_, d, err := p.Benchmark(frame, int(runs), nil)
	return float64(d) / float64(time.Nanosecond), err
}

// kernel times the policer over an empty program.
func kernel(plan *marker.Plan, flows uint32, rounds int, runs uint32) (over, floor figure, err error) {
	policer, err := loader.Load(plan, loader.Options{Seeds: marker.SeedsFrom(1)})
	if err != nil {
		return over, floor, err
	}
	defer policer.Close()
	nothing, err := empty()
	if err != nil {
		return over, floor, err
	}
	defer nothing.Close()
	ours, closeOurs, err := driver(policer.Program, flows)
	if err != nil {
		return over, floor, err
	}
	defer closeOurs()
	theirs, closeTheirs, err := driver(nothing, flows)
	if err != nil {
		return over, floor, err
	}
	defer closeTheirs()
	frame := udpFrame()
	if _, err := perPacket(ours, frame, max(runs, 4*flows)); err != nil { // the table fills
		return over, floor, err
	}
	for range rounds {
		a, err := perPacket(theirs, frame, runs)
		if err != nil {
			return over, floor, err
		}
		b, err := perPacket(ours, frame, runs)
		if err != nil {
			return over, floor, err
		}
		floor = append(floor, a)
		over = append(over, b-a)
	}
	stats, err := policer.Maps.Stats(plan)
	if err != nil {
		return over, floor, err
	}
	if stats.Port != (marker.PortStats{}) {
		return over, floor, fmt.Errorf("the bench's packets were not all metered: %+v", stats.Port)
	}
	return over, floor, nil
}

// hotPlan is one class of one srTCM bucket a flow, at a rate that is never reached.
func hotPlan() (*marker.Plan, error) {
	return onePlan(marker.Params{Meter: marker.SRTCM, CIR: 12_500_000_000, CBS: 1 << 30, EBS: 1 << 20})
}

func kernelSection(t *table) error {
	plan, err := hotPlan()
	if err != nil {
		return err
	}
	for _, k := range []struct {
		name   string
		flows  uint32
		target string
	}{{"1 flow", 1, "<= 60"}, {"100k flows at random", 100_000, ""}, {"900k flows at random", 900_000, "<= 310"}} {
		over, floor, err := kernel(plan, k.flows, rounds, 2_000_000)
		if err != nil {
			return err
		}
		t.row("srtcm, "+k.name, over, "ns", k.target)
		t.row("  the empty program itself", floor, "ns", "")
	}
	return nil
}
