package marker

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// envelope is the most that a burst and a rate let through in any interval: a bucket that starts full,
// and from which nothing is ever refused. What is taken beyond its tokens is over the envelope.
type envelope struct {
	rate, burst uint64 // bytes per second; nanobytes
	worst       Color  // colours up to this one count
	clock       uint64 // ns, never back
	tokens      uint64
}

func (e *envelope) take(clock, nanobytes uint64) error {
	if e.tokens = min(e.burst, e.tokens+(clock-e.clock)*e.rate); e.tokens < nanobytes {
		return fmt.Errorf("%v or better: %d nanobytes over %d bytes + %d bytes/s × T, at %d ns", e.worst, nanobytes-e.tokens, e.burst/Nano, e.rate, clock)
	}
	e.clock, e.tokens = clock, e.tokens-nanobytes
	return nil
}

// envelopes are those of SPEC 2.
func (m Params) envelopes() []envelope {
	green := envelope{rate: m.CIR, burst: m.CBS * Nano}
	both := envelope{worst: Yellow}
	switch m.Meter {
	case SRTCM:
		both.rate, both.burst = m.CIR, (m.CBS+m.EBS)*Nano
	case TRTCM:
		both.rate, both.burst = m.PIR, m.PBS*Nano
	case RFC4115:
		both.rate, both.burst = m.CIR+m.EIR, (m.CBS+m.EBS)*Nano
	default:
		both = green
	}
	all := []envelope{green, both}
	for i := range all {
		all[i].tokens = all[i].burst
	}
	return all
}

// crowded is a table with more keys for four of its sets than these have slots, and what must hold of it.
type crowded struct {
	*Mirror
	keys      []Key
	envelopes map[Key][]envelope
	clock     map[Key]uint64 // the latest time that a bucket has seen while the key was metered in it
	offered   uint64
	overflow  uint64
	forgotten int
	lost      [Colors]uint64 // packets of buckets that were forgotten
}

func newCrowded(t fataler, params Params) *crowded {
	c := &crowded{Mirror: tiny(t, params, MinFlows, 1), envelopes: map[Key][]envelope{}, clock: map[Key]uint64{}}
	c.keys = crowd(c.Mirror, 10, 3, 9)
	c.keys = append(c.keys, crowd(c.Mirror, 6, 4, 9)...)
	c.keys = append(c.keys, crowd(c.Mirror, 6, 3, 10)...)
	for _, k := range c.keys {
		c.envelopes[k] = params.envelopes()
	}
	c.OnForget(func(s *Slot) {
		c.forgotten++
		for color, n := range s.Packets {
			c.lost[color] += n
		}
	})
	return c
}

// step offers a packet and says what is wrong with the answer.
func (c *crowded) step(k Key, now, bytes uint64, in Color) error {
	color, slot, overflow := offer(c.Mirror, k, now, bytes, in)
	c.offered++
	if overflow {
		c.overflow++
	}
	c.clock[k] = max(c.clock[k], slot.Bucket.Last)
	for i := range c.envelopes[k] {
		if e := &c.envelopes[k][i]; color <= e.worst {
			if err := e.take(c.clock[k], bytes*Nano); err != nil {
				return fmt.Errorf("key %d: %w", slices.Index(c.keys, k), err)
			}
		}
	}
	// One slot a key, or none where its packets are in overflow.
	if n, _, _ := holds(c.Mirror, k); n > 1 || (n == 1) == overflow {
		return fmt.Errorf("%d slots hold the key; in overflow: %v", n, overflow)
	}
	return nil
}

// end checks what must hold at the end: nothing that was counted is lost.
func (c *crowded) end() error {
	sum := c.lost
	for i := range c.table.sets {
		for s := range c.table.sets[i] {
			for color, n := range c.table.sets[i][s].Packets {
				sum[color] += n
			}
		}
	}
	counted := c.stats.Classes[0].Packets
	if sum != counted || counted[Green]+counted[Yellow]+counted[Red] != c.offered {
		return fmt.Errorf("%d offered, counted %v, in the buckets and those forgotten %v", c.offered, counted, sum)
	}
	return nil
}

var crowdedMeters = []Params{
	{Meter: Token, CIR: 1000, CBS: 100},
	{Meter: SRTCM, CIR: 1000, CBS: 60, EBS: 40, Aware: true},
	{Meter: TRTCM, CIR: 600, CBS: 60, PIR: 1000, PBS: 100, Aware: true},
	{Meter: RFC4115, CIR: 600, CBS: 60, EIR: 400, EBS: 40},
	{Meter: RFC4115, CIR: 1000, CBS: 60, EBS: 40, Coupling: true},
}

// drawn runs the property on packets that rapid draws.
func drawn(t *testing.T, params Params, clockBack bool) {
	var packets, overflow, forgotten uint64
	rapid.Check(t, func(t *rapid.T) {
		c := newCrowded(t, params)
		now := uint64(1e12)
		for i := range rapid.IntRange(1, 150).Draw(t, "packets") {
			k := c.keys[rapid.IntRange(0, len(c.keys)-1).Draw(t, "key")]
			bytes := rapid.SampledFrom([]uint64{0, 1, 39, 40, 60, 99, 100, 101}).Draw(t, "bytes")
			in := Color(rapid.IntRange(0, 2).Draw(t, "in"))
			if err := c.step(k, now, bytes, in); err != nil {
				t.Fatalf("packet %d at %d ns, %d bytes: %v", i+1, now, bytes, err)
			}
			switch rapid.IntRange(0, 7).Draw(t, "gap") {
			case 0:
				if clockBack {
					now -= rapid.Uint64Range(0, 120e6).Draw(t, "back")
				}
			case 1, 2, 3:
				now += rapid.Uint64Range(0, 2e6).Draw(t, "ns")
			case 4:
				now += rapid.Uint64Range(0, 120e6).Draw(t, "ns")
			}
		}
		if err := c.end(); err != nil {
			t.Fatal(err)
		}
		packets, overflow, forgotten = packets+c.offered, overflow+c.overflow, forgotten+uint64(c.forgotten)
	})
	t.Logf("%d packets, %d in overflow, %d buckets forgotten", packets, overflow, forgotten)
	if overflow == 0 || forgotten == 0 {
		t.Error("a case never occurred")
	}
}

// longRun runs it on one sequence of many packets.
func longRun(t *testing.T, params Params, clockBack bool) {
	const packets = 100_000
	r := rand.New(rand.NewPCG(1, 2))
	c := newCrowded(t, params)
	now := uint64(1e12)
	for i := range packets {
		k := c.keys[r.IntN(len(c.keys))]
		if err := c.step(k, now, r.Uint64N(102), Color(r.IntN(3)*r.IntN(2))); err != nil {
			t.Fatalf("packet %d at %d ns: %v", i+1, now, err)
		}
		switch now += r.Uint64N(3e6); r.IntN(40) {
		case 0:
			now += r.Uint64N(120e6)
		case 1:
			if clockBack {
				now -= r.Uint64N(120e6)
			}
		}
	}
	if err := c.end(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d packets, %d in overflow, %d buckets forgotten", c.offered, c.overflow, c.forgotten)
	if c.overflow < packets/1000 || c.forgotten < packets/1000 {
		t.Error("a case hardly occurred")
	}
}

// SPEC 3.3: whatever comes, in whatever order, no key gets more than its meter's envelope, though its
// bucket is forgotten and made again, and though it is metered in overflow meanwhile. Time is that of the
// bucket: the latest stamp that it has seen.
func testEnvelopes(t *testing.T, clockBack bool) {
	for _, params := range crowdedMeters {
		t.Run(fmt.Sprintf("%v, coupling %v", params.Meter, params.Coupling), func(t *testing.T) {
			drawn(t, params, clockBack)
			longRun(t, params, clockBack)
		})
	}
}

func TestTableEnvelopes(t *testing.T) { testEnvelopes(t, false) }
