package marker

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugePage is the size of a large page, where there are any.
const hugePage = 2 << 20

// newSets makes the sets of a table, in huge pages where the kernel has them to give: a table is read at random,
// and with small pages nearly every packet would miss the processor's page translations too.
func newSets(n uint32) []Set {
	sets := make([]Set, n)
	start := uintptr(unsafe.Pointer(unsafe.SliceData(sets)))
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(sets))), uint64(n)*SetSlots*SlotBytes)
	// Only whole huge pages within the table: what stands beside it is the runtime's.
	skip := uint64(-start % hugePage)
	if skip < uint64(len(bytes)) {
		whole := bytes[skip:]
		if whole = whole[:len(whole)&^(hugePage-1)]; len(whole) > 0 {
			_ = unix.Madvise(whole, unix.MADV_HUGEPAGE) // a wish: without, it is but slower
		}
	}
	return sets
}
