package marker

import "testing"

// The envelopes hold whatever the clocks do: a packet behind its bucket's time, another's behind that of
// the bucket it has forgotten.
func TestTableEnvelopesClockBack(t *testing.T) { testEnvelopes(t, true) }

// A bucket that is full, but was last seen later than now (its last packet was red, or cost nothing), may
// be forgotten at now. What it is replaced with must not earn again what this one had earned by then.
func TestTableForgetsAheadOfTheClock(t *testing.T) {
	const ms = 1_000_000
	m, in, out := full(t, 0)
	k := in[0]
	offer(m, k, 9*ms, 1001, Green)   // red, and full as of 9 ms
	offer(m, out[0], 5*ms, 0, Green) // behind that; forgets the lowest full bucket of the set: k's
	if n, _, _ := holds(m, k); n != 0 {
		t.Fatal("k was not forgotten")
	}
	color, slot, _ := offer(m, k, 5*ms, 1000, Green)
	if color != Green || slot.Bucket != (Bucket{Last: 9 * ms}) {
		t.Errorf("%v, %+v: last is not the 9 ms which the bucket before it had seen", color, slot.Bucket)
	}
	// Had it not been forgotten, nothing would be earned between 5 and 9 ms.
	if color, _, _ := offer(m, k, 9*ms, 1000, Green); color != Red {
		t.Errorf("%v: 2000 bytes at 9 ms from a burst of 1000", color)
	}
}
