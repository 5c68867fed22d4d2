package maps

import (
	"math/bits"
	"sync/atomic"

	"github.com/tricolor-policer/tricolor/marker"
)

// Used counts the slots in use of each chain position; reserved sets are not among them. It reads the tags alone,
// 4 bytes of each set, so that the whole of a large table is counted within milliseconds. What the kernel inserts
// meanwhile may be counted or not. The geometry is that of the table's own plan.
func (b *Buckets) Used(g marker.Geometry) (used [marker.MaxChain]uint64) {
	for position, stage := range g.Stages {
		sets := b.sets[stage.Base : stage.Base+stage.Mask+1]
		for i := range sets {
			used[position] += uint64(occupied(atomic.LoadUint32(&sets[i][0].Tags)))
		}
	}
	return used
}

// occupied counts the bytes that are not 0.
func occupied(tags uint32) int {
	const low = 0x7f7f7f7f
	return bits.OnesCount32((tags&low + low | tags) &^ low)
}
