package loader

import (
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tricolor-policer/tricolor/marker"
)

// A holder takes locks of a table as a CPU does that polices, and gives them back when it is told to: a lock
// holder that stalls. Only tests do this. It also sees, and clears, what lies in sets, locked or not.
type holder struct {
	t    *testing.T
	sets []marker.Set // the kernel's, in place
}

func newHolder(t *testing.T, p *Program) *holder {
	t.Helper()
	const size = int(unsafe.Sizeof(marker.Set{}))
	m := p.Maps.Buckets
	memory, err := unix.Mmap(m.FD(), 0, int(m.MaxEntries())*size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Munmap(memory); err != nil {
			t.Error(err)
		}
	})
	return &holder{t, unsafe.Slice((*marker.Set)(unsafe.Pointer(&memory[0])), m.MaxEntries())}
}

func (h *holder) lock(set uint32) *uint32 { return &h.sets[set][0].Lock }

// hold takes a set's lock: its sequence becomes odd. It reports whether the lock could be had.
func (h *holder) hold(set uint32) bool {
	h.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		seq := atomic.LoadUint32(h.lock(set))
		if seq&1 == 0 && atomic.CompareAndSwapUint32(h.lock(set), seq, seq+1) {
			return true
		}
	}
	h.t.Errorf("the lock of set %d could not be had for a minute: somebody never gave it back", set)
	return false
}

// release gives a set's lock back: its sequence becomes the next even number.
func (h *holder) release(set uint32) { atomic.AddUint32(h.lock(set), 1) }

// held are the sets whose locks are held, by anybody.
func (h *holder) held() (sets []uint32) {
	for i := range h.sets {
		if atomic.LoadUint32(h.lock(uint32(i)))&1 != 0 {
			sets = append(sets, uint32(i))
		}
	}
	return sets
}

// copy is what lies in all sets, locks left out, while nobody polices.
func (h *holder) copy() []marker.Set {
	sets := append([]marker.Set(nil), h.sets...)
	for i := range sets {
		sets[i][0].Lock = 0
	}
	return sets
}

// clear makes the table as new, while nobody polices.
func (h *holder) clear() { clear(h.sets) }
