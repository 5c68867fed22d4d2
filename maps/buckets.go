package maps

import (
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/tricolor-policer/tricolor/marker"
)

// Buckets is a read-only view of the kernel's bucket table, in place: reading copies nothing and takes
// no lock. Close it when done.
type Buckets struct {
	memory []byte
	sets   []marker.Set
}

// ErrTorn is returned for a set that the kernel kept changing while it was read.
var ErrTorn = errors.New("the buckets changed while they were read")

// readTries is how often a set is read again that changed meanwhile.
const readTries = 1000

// OpenBuckets maps the table into memory. Requires Linux 5.5.
func OpenBuckets(m *ebpf.Map) (*Buckets, error) {
	const size = int(unsafe.Sizeof(marker.Set{}))
	if m.ValueSize() != uint32(size) {
		return nil, fmt.Errorf("%w: map %s has values of %d bytes, not %d", ErrLayout, m, m.ValueSize(), size)
	}
	memory, err := unix.Mmap(m.FD(), 0, int(m.MaxEntries())*size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map the buckets of %s into memory: %w", m, err)
	}
	return &Buckets{
		memory: memory,
		sets:   unsafe.Slice((*marker.Set)(unsafe.Pointer(&memory[0])), m.MaxEntries()),
	}, nil
}

// Close unmaps the table.
func (b *Buckets) Close() error {
	b.sets = nil
	return unix.Munmap(b.memory)
}

// Len returns the number of sets, reserved ones included.
func (b *Buckets) Len() int { return len(b.sets) }

// Set reads one set as it was at one moment. Returns ErrTorn where the kernel never left it alone for
// long enough.
func (b *Buckets) Set(i uint32, out *marker.Set) error {
	s := &b.sets[i]
	lock := &s[0].Lock
	for range readTries {
		before := atomic.LoadUint32(lock)
		if before&1 != 0 {
			continue
		}
		from := (*[unsafe.Sizeof(marker.Set{}) / 8]uint64)(unsafe.Pointer(s))
		to := (*[unsafe.Sizeof(marker.Set{}) / 8]uint64)(unsafe.Pointer(out))
		for w := range from {
			to[w] = atomic.LoadUint64(&from[w])
		}
		if atomic.LoadUint32(lock) == before {
			return nil
		}
	}
	return ErrTorn
}

// Slot is where a bucket lies.
type Slot struct {
	Set  uint32
	Slot int
}

// All yields every bucket in use: in order of sets, the reserved ones last. Sets that could not be read
// whole are left out and counted in torn.
func (b *Buckets) All(torn *int) iter.Seq2[Slot, *marker.Slot] {
	return func(yield func(Slot, *marker.Slot) bool) {
		var s marker.Set
		for i := range uint32(len(b.sets)) {
			if atomic.LoadUint64((*uint64)(unsafe.Pointer(&b.sets[i][0].Lock))) == 0 {
				continue // never used: the sequence is 0 and so are the tags
			}
			if b.Set(i, &s) != nil {
				*torn++
				continue
			}
			for slot := range s {
				if s.Tag(slot) != 0 && !yield(Slot{i, slot}, &s[slot]) {
					return
				}
			}
		}
	}
}
