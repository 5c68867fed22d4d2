// Package certify proves from decisions that a policer kept its contract: that of each bucket's packets green
// alone, and green and yellow together, stayed under their envelope over every interval.
//
// It is no meter, and shares no code with the meters: it does not ask what a packet should have got, but adds
// up what was let through. Over all intervals from any packet to the one at hand, what counts is
//
//	used(t) = max over s of A(s,t) − r·(t−s),  A(s,t) the bytes let through from s to t
//
// which one number a bucket keeps: it falls by r a second, never below 0, and grows by each packet. While it
// never exceeds B, no interval held more than B + r·T. Quantities are nanobytes (10^-9 byte; of a packet where
// packets are counted) and nanoseconds, so all of it is exact.
package certify

import (
	"container/heap"
	"errors"
	"fmt"
	"math/bits"

	"github.com/tricolor-policer/tricolor/record"
)

// ErrDecisions is returned for decisions that contradict themselves: no policer made them.
var ErrDecisions = errors.New("the decisions contradict themselves")

// Which colours an envelope bounds.
const (
	Green = iota // green alone
	Total        // green and yellow
	envelopes
)

// Interval is a bucket's packets from one to another, both included, and what its envelope allowed in that time.
type Interval struct {
	Key        uint32 // of the record
	Envelope   int    // Green or Total
	From, To   Packet
	Accepted   uint64 // bytes, or packets where these are counted
	Left, Over uint64 // nanobytes that it was under or over the envelope
	Burst      uint64 // nanobytes: of the envelope, when the interval ended
	Packets    bool   // packets are counted
}

// Packet is a packet of the decisions.
type Packet struct {
	Number uint64 // from 1, as they stand in the record
	Time   uint64 // ns: when its bucket counted it
}

// Allowed is what the envelope allowed over the interval, in whole bytes: B + r·T.
func (i *Interval) Allowed() uint64 {
	if i.Over > 0 {
		return i.Accepted - (i.Over+nano-1)/nano
	}
	return i.Accepted + i.Left/nano
}

// Result is what was found.
type Result struct {
	Packets  uint64    // decisions
	Colors   [3]uint64 // of them, by colour
	Buckets  uint64    // that let a packet through
	Tightest Interval  // nearest its envelope, by its share of the burst that was left; To.Number 0: there was none
	Breaks   uint64    // packets that exceeded an envelope
	Broken   Interval  // the first that did; where Breaks is not 0
	Spans    uint64    // intervals over a change of meter that no envelope spans: they are two
	Late     uint64    // packets that stood too far from their place

	// Packets after which a bucket held more than it had held and earned, less what they took: a ledger that no
	// policer wrote. ExcessKey and ExcessAt are those of the first.
	Excess    uint64
	ExcessKey uint32
	ExcessAt  Packet
}

const nano = 1_000_000_000

// Certifier takes the decisions one by one, in the order of their time. Its memory is constant for each bucket,
// and for each packet that another CPU's clock had be counted later than its own time, until that has come.
type Certifier struct {
	policies *[]record.Policy
	buckets  map[uint32]*bucket
	waiting  events
	result   Result
}

// New begins. policies are those of the record, which may still grow.
func New(policies *[]record.Policy) *Certifier {
	return &Certifier{policies: policies, buckets: map[uint32]*bucket{}}
}

// event is a packet as one bucket counted it.
type event struct {
	at      Packet
	key     uint32
	cost    uint64       // nanobytes
	color   record.Color // red: the bucket gave nothing, by whichever meter of the chain
	policy  uint32
	profile uint32
	packets bool
	c, x    uint64 // tokens it left
	shared  bool   // by an overflow bucket: the tokens are not the key's own
}

// Add takes the next decision. Returns an error that wraps ErrDecisions.
func (c *Certifier) Add(r *record.Record) error {
	c.result.Packets++
	number := c.result.Packets
	worst := record.Red
	if r.Chain > 0 {
		worst = record.Green
	}
	for i := range r.Chain {
		worst = max(worst, r.Meters[i].Color)
	}
	if worst != r.Color {
		return fmt.Errorf("%w: packet %d is %v, and the worst that a meter of its chain gave it is %v", ErrDecisions, number, r.Color, worst)
	}
	c.result.Colors[r.Color]++
	hi, cost := bits.Mul64(r.Cost, nano)
	if hi > 0 {
		return fmt.Errorf("%w: packet %d costs %d", ErrDecisions, number, r.Cost)
	}
	packets := (*c.policies)[r.Policy].Classes[r.Class].Count == "packets"
	for i := range r.Chain {
		m := &r.Meters[i]
		e := event{
			at: Packet{number, m.Time}, key: m.Key, cost: cost, color: m.Color, policy: m.Policy, profile: m.Profile, packets: packets,
			c: m.C, x: m.X, shared: m.Overflow && m.Shared != m.Key,
		}
		if !r.Spent() {
			e.color = record.Red
		}
		heap.Push(&c.waiting, e)
		if e.shared {
			e.key, e.shared = m.Shared, false
			heap.Push(&c.waiting, e)
		}
	}
	// No packet to come is of an earlier time than this one's.
	c.count(r.Time)
	return nil
}

// Finish returns what was found. Nothing may be added afterwards.
func (c *Certifier) Finish() *Result {
	c.count(^uint64(0))
	for _, b := range c.buckets {
		if b.gave {
			c.result.Buckets++
		}
	}
	return &c.result
}

// count has the buckets count what they did before a time.
func (c *Certifier) count(before uint64) {
	for len(c.waiting) > 0 && (c.waiting[0].at.Time < before || before == ^uint64(0)) {
		e, _ := heap.Pop(&c.waiting).(event)
		b := c.buckets[e.key]
		if b == nil {
			b = &bucket{policy: e.policy, profile: e.profile, last: e.at.Time}
			c.buckets[e.key] = b
		}
		if !e.shared && !b.held.take(&(*c.policies)[e.policy].Profiles[e.profile], &e) {
			if c.result.Excess++; c.result.Excess == 1 {
				c.result.ExcessKey, c.result.ExcessAt = e.key, e.at
			}
		}
		b.count(*c.policies, &e, &c.result)
	}
}

// events are those that wait for their time, the earliest first.
type events []event

func (w events) Len() int { return len(w) }
func (w events) Less(i, j int) bool {
	a, b := &w[i], &w[j]
	if a.at.Time != b.at.Time {
		return a.at.Time < b.at.Time
	}
	if a.policy != b.policy {
		return a.policy < b.policy
	}
	// At one time a bucket's tokens only go: who left more was first, and of equals who took some.
	if a.c != b.c {
		return a.c > b.c
	}
	if a.x != b.x {
		return a.x > b.x
	}
	if a.color != b.color {
		return a.color < b.color
	}
	return a.at.Number < b.at.Number
}
func (w events) Swap(i, j int) { w[i], w[j] = w[j], w[i] }

// Push is heap's.
func (w *events) Push(x any) {
	if e, ok := x.(event); ok {
		*w = append(*w, e)
	}
}

// Pop is heap's.
func (w *events) Pop() any {
	last := (*w)[len(*w)-1]
	*w = (*w)[:len(*w)-1]
	return last
}
