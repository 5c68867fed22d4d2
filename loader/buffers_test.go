package loader

import (
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// What newLargest can measure of a buffer: code that has the skb in R1 and puts a number in R3.
var (
	bufferLength = asm.Instructions{asm.LoadMem(asm.R3, asm.R1, skbLen, asm.Word)}
	// mostLinear less the bytes of the linear area: the largest is of the buffer with the shortest.
	bufferInPages = asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, skbData, asm.Word),
		asm.LoadMem(asm.R3, asm.R1, skbDataEnd, asm.Word),
		asm.Sub.Reg(asm.R3, asm.R2),
		asm.Neg.Imm(asm.R3, 0),
		asm.Add.Imm(asm.R3, mostLinear),
	}
)

const mostLinear = 1 << 16

// Offsets in struct __sk_buff.
const (
	skbLen     = 0
	skbData    = 76
	skbDataEnd = 80
)

// newLargest is a foreign program that counts nothing, but keeps the largest measure of what has passed.
func newLargest(tb testing.TB, measure asm.Instructions) *foreign {
	tb.Helper()
	largest, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		tb.Fatal(err)
	}
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "Dual BSD/GPL", Instructions: append(
		append(asm.Instructions{}, measure...),
		asm.LoadMapValue(asm.R1, largest.FD(), 0),
		asm.LoadMem(asm.R2, asm.R1, 0, asm.DWord),
		asm.JLE.Reg(asm.R3, asm.R2, "done"),
		asm.StoreMem(asm.R1, 0, asm.R3, asm.DWord),
		asm.Mov.Imm(asm.R0, -1).WithSymbol("done"),
		asm.Return(),
	)})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		program.Close()
		largest.Close()
	})
	return &foreign{program, largest}
}
