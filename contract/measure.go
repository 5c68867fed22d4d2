package contract

import "github.com/tricolor-policer/tricolor/marker"

// measure is one key's output under one contract, as far as it is needed to go on measuring.
type measure struct {
	// The greatest A(s, t) - r (t - s) over all s, by the last output: what a bucket would have had to hold.
	level wide // nano-units
	at    wide // of the last output, as work

	// Output of the last window, (t - T, t].
	recent queue[output]
	sum    uint64 // units
}

type output struct {
	at   wide // as work
	cost uint64
}

// add takes an output, not before the last. It returns the level behind it, and the units of the
// window that ends with it. span is the window as work.
func (m *measure) add(at wide, cost uint64, span wide) (level wide, inWindow uint64) {
	m.level = m.level.minus(at.minus(m.at)).plus(wide{lo: cost * marker.Nano})
	m.at = at
	for first := m.recent.first(); first != nil && !at.minus(first.at).less(span); first = m.recent.first() {
		m.sum -= first.cost
		m.recent.pop()
	}
	m.sum += cost
	m.recent.push(output{at, cost})
	return m.level, m.sum
}
