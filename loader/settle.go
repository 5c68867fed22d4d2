package loader

import (
	"fmt"

	"github.com/tricolor-policer/tricolor/bpf"
	"github.com/tricolor-policer/tricolor/marker"
)

// settleChunk is how many sets one run of the settling program does: some milliseconds with bottom halves
// off.
const settleChunk = 1 << 14

// settleTries bounds how often it is run again for sets that were busy.
const settleTries = 1000

// settleAll settles all buckets to the generation in force at now (ns; a live program reads its own clock).
func (c *Changer) settleAll(sets uint32, now uint64) error { return c.run(0, sets, now, false) }

// prepareOverflow makes the overflow buckets that a change needs, of which the next policy is written but not in
// force: see prepare_set in bpf/policer.bpf.c.
func (c *Changer) prepareOverflow(g marker.Geometry, now uint64) error {
	return c.run(g.Reserved, g.Sets, now, true)
}

// run has the settling program do the sets from … to.
func (c *Changer) run(from, to uint32, now uint64, prepare bool) error {
	for ; from < to; from += settleChunk {
		busy := uint32(1)
		for try := 0; busy > 0; try++ {
			if try == settleTries {
				return fmt.Errorf("%w: %d sets of buckets stayed locked", ErrRun, busy)
			}
			var err error
			if busy, err = c.settle.settle(from, min(settleChunk, to-from), now, prepare); err != nil {
				return err
			}
		}
	}
	return nil
}

// settle runs the settling program on sets, and returns how many could not be locked in time.
func (r *Runner) settle(from, count uint32, now uint64, prepare bool) (busy uint32, err error) {
	r.context = skbContext{Tstamp: now}
	r.context.Cb[bpf.PolicerSettleInSETTLE_FROM] = from
	r.context.Cb[bpf.PolicerSettleInSETTLE_COUNT] = count
	r.context.Cb[bpf.PolicerSettleInSETTLE_PREPARE] = uint32(bit(prepare))
	verdict, _, err := r.run(r.in[:runMin])
	if err == nil && verdict != tcUnspec {
		err = fmt.Errorf("%w: the settling program found no policy", ErrRun)
	}
	return r.context.Cb[bpf.PolicerSettleInSETTLE_COUNT], err
}
