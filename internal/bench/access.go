package main

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// What a table in memory must cost: a program that reads the clock, as a policer does, and then a few words of an array
// of sets, 512 bytes each, at random places. Reads that hang on one another wait for each other; others do not.

// tags, slot and tail are words of a set in cache lines of their own: its lock and tags; a slot's key; the rest of it.
const tags, slot, tail = 44, 256, 256 + 64

// read is one word to read: of the set at hand or of a second one; after the reads before it, or beside them.
type read struct {
	at     int16
	second bool
	after  bool
}

// accessSection has what those reads take over the program without any.
func accessSection(t *table) error {
	ways := []struct {
		name  string
		reads []read
	}{
		{"", nil},
		{"one word", []read{{at: tags}}},
		{"two cache lines of a set, at once", []read{{at: tags}, {at: slot}}},
		{"three, at once", []read{{at: tags}, {at: slot}, {at: tail}}},
		{"two, one after the other", []read{{at: tags}, {at: slot, after: true}}},
		{"three, one after the other", []read{{at: tags}, {at: slot, after: true}, {at: tail, after: true}}},
		{"two sets, at once", []read{{at: tags}, {at: tags, second: true}}},
		{"two sets, one after the other", []read{{at: tags}, {at: tags, second: true, after: true}}},
	}
	for _, megabytes := range []uint32{1, 16, 256} {
		sets, err := ebpf.NewMap(&ebpf.MapSpec{Name: "sets", Type: ebpf.Array, KeySize: 4, ValueSize: 512, MaxEntries: megabytes << 11, Flags: 1 << 10})
		if err != nil {
			return err
		}
		defer sets.Close()
		programs, figures := make([]*ebpf.Program, len(ways)), make([]figure, len(ways))
		for i := range ways {
			if programs[i], err = readsProgram(sets, ways[i].reads); err != nil {
				return fmt.Errorf("the bench's own program: %w", err)
			}
			defer programs[i].Close()
		}
		for range rounds {
			for i, p := range programs {
				ns, err := perPacket(p, make([]byte, 64), 500_000)
				if err != nil {
					return err
				}
				figures[i] = append(figures[i], ns)
			}
		}
		t.note("a table of %d MiB", megabytes)
		for i := 1; i < len(ways); i++ {
			t.row(ways[i].name, figures[i].less(figures[0]), "ns", "")
		}
	}
	return nil
}

// readsProgram reads the clock, draws a set, and does the reads.
func readsProgram(sets *ebpf.Map, reads []read) (*ebpf.Program, error) {
	const index = -4 // on the stack
	insns := asm.Instructions{
		asm.FnKtimeGetNs.Call(),
		asm.FnGetPrandomU32.Call(),
		asm.And.Imm(asm.R0, int32(sets.MaxEntries()-1)), // a power of two
		asm.StoreMem(asm.RFP, index, asm.R0, asm.Word),
		asm.Mov.Imm(asm.R6, 0), // of what was read: always 0, but nobody knows before
	}
	find := func(to asm.Register) {
		insns = append(insns,
			asm.LoadMapPtr(asm.R1, sets.FD()),
			asm.Mov.Reg(asm.R2, asm.RFP),
			asm.Add.Imm(asm.R2, index),
			asm.FnMapLookupElem.Call(),
			asm.JEq.Imm(asm.R0, 0, "out"),
			asm.Mov.Reg(to, asm.R0),
		)
	}
	if len(reads) > 0 {
		find(asm.R7)
	}
	for _, r := range reads {
		set := asm.R7
		if r.second {
			// The other set's number: the first one's, multiplied.
			insns = append(insns,
				asm.LoadMem(asm.R1, asm.RFP, index, asm.Word),
				asm.Mul.Imm(asm.R1, 0x1e3779b1),
				asm.And.Imm(asm.R1, int32(sets.MaxEntries()-1)),
			)
			if r.after {
				insns = append(insns, asm.Add.Reg(asm.R1, asm.R6))
			}
			insns = append(insns, asm.StoreMem(asm.RFP, index, asm.R1, asm.Word))
			find(asm.R8)
			set = asm.R8
		} else if r.after {
			insns = append(insns, asm.Mov.Reg(asm.R8, asm.R7), asm.Add.Reg(asm.R8, asm.R6))
			set = asm.R8
		}
		insns = append(insns,
			asm.LoadMem(asm.R6, set, r.at, asm.Word),
			asm.And.Imm(asm.R6, 0),
		)
	}
	insns = append(insns, asm.Mov.Imm(asm.R0, 0).WithSymbol("out"), asm.Return())
	return ebpf.NewProgram(&ebpf.ProgramSpec{Name: "reads", Type: ebpf.SchedCLS, License: "Dual BSD/GPL", Instructions: insns})
}
