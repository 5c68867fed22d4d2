package marker

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// NewMappedMirror is NewMirror with a table in memory of its own, which is there as far as it is used: the runtime
// would have to clear all of what it uses again. free gives it back; nothing of the mirror may be used afterwards.
func NewMappedMirror(plan *Plan, seeds Seeds) (m *Mirror, free func(), err error) {
	var memory []byte
	m, err = newMirror(plan, seeds, func(n uint32) []Set {
		var err error
		memory, err = unix.Mmap(-1, 0, int(n)*SetSlots*SlotBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			return newSets(n)
		}
		_ = unix.Madvise(memory, unix.MADV_HUGEPAGE) // a wish, as newSets'
		return unsafe.Slice((*Set)(unsafe.Pointer(unsafe.SliceData(memory))), n)
	})
	return m, func() {
		if memory != nil {
			_ = unix.Munmap(memory) // a mapping of our own, unmapped once
			memory = nil
		}
	}, err
}
