package marker

import "math/bits"

// A packet's memory is asked for some time before the packet is decided, in three steps, since what to ask for
// hangs on what is there. Meanwhile the processor goes on with the packets before it; decided one by one, each
// packet would wait for its own memory.

const (
	// reachAhead is how many packets lie between two steps, and between the last one and deciding: enough for what was
	// asked for to come, few enough for it to be there still.
	reachAhead = 16
	// reachBlock is how many packets take a step together: few enough that the processor has room for all they ask for.
	reachBlock = 4
)

// reach is what the packets of a block ask for, as set × SetSlots + slot.
type reach [reachBlock * MaxChain]uint32

// reachLeft asks for the left candidate sets, where most keys are.
func (m *Mirror) reachLeft(packets []prepared) {
	n := 0
	for i := range packets {
		p := &packets[i]
		for j := range p.places[:p.keyed] {
			m.reach[n] = p.places[j].left * SetSlots
			n++
		}
	}
	prefetchTags(&m.table.sets[0], &m.reach[0], n)
}

// reachRight asks for the right ones of keys that are not there.
func (m *Mirror) reachRight(packets []prepared) {
	sets, n := m.table.sets, 0
	for i := range packets {
		p := &packets[i]
		for j := range p.places[:p.keyed] {
			pl := &p.places[j]
			set, right := pl.left, pl.right
			if sets[set].matches(pl.tag) == 0 {
				set = right
			}
			pl.hint = set
			m.reach[n] = set * SetSlots
			n++
		}
	}
	prefetchTags(&sets[0], &m.reach[0], n)
}

// reachSlot asks for the slots that seem to be the keys', and notes which.
func (m *Mirror) reachSlot(packets []prepared) {
	sets, n := m.table.sets, 0
	for i := range packets {
		p := &packets[i]
		for j := range p.places[:p.keyed] {
			pl := &p.places[j]
			set, matches := pl.hint, sets[pl.hint].matches(pl.tag)
			if matches == 0 {
				pl.hint = NoSet
				continue
			}
			pl.hint = set*SetSlots + uint32(bits.TrailingZeros32(matches))/8
			m.reach[n] = pl.hint
			n++
		}
	}
	prefetchSlots(&sets[0], &m.reach[0], n)
}
