package marker

import (
	"errors"
	"testing"
)

// Changes of policy, SPEC 3.7, with hand-computed answers. Whole seconds: a rate is bytes earned in one.

const second = uint64(Nano)

func rate(cir, cbs uint64) Params { return Params{Meter: Token, CIR: cir, CBS: cbs} }

// one is a policy of one class, per flow.
func one(t fataler, params Params) *Plan {
	return planOf(t, testClass{name: "a", meters: []testMeter{{params: params}}})
}

func apply(t *testing.T, m *Mirror, plan *Plan, now, deadline uint64) {
	t.Helper()
	if err := m.Apply(plan, now, deadline); err != nil {
		t.Fatal(err)
	}
}

// A carried bucket is settled by its old profile up to the change, clamped, then earns by the new one.
func TestSettle(t *testing.T) {
	for _, c := range []struct {
		name     string
		old, new Params
		spend    int    // bytes, at 10 s
		change   uint64 // s
		at       uint64 // s: then a packet of 28 bytes
		left     []uint64
	}{
		{"earned before and after", rate(100, 1000), rate(10, 2000), 1000, 15, 20, []uint64{500 + 50 - 28, 0}},
		{"by a faster one after", rate(10, 1000), rate(100, 2000), 1000, 15, 20, []uint64{50 + 500 - 28, 0}},
		{"clamped, and earned from there", rate(100, 1000), rate(10, 300), 1000, 15, 15, []uint64{300 - 28, 0}},
		{"clamped, then full", rate(100, 1000), rate(10, 300), 1000, 15, 20, []uint64{300 - 28, 0}},
		{"a larger burst is not a present", rate(100, 1000), rate(10, 2000), 1000, 25, 25, []uint64{1000 - 28, 0}},
		{"nor is it when full", rate(100, 1000), rate(10, 2000), 28, 25, 30, []uint64{1000 + 50 - 28, 0}},
		{"the old burst stops the old rate", rate(100, 1000), rate(10, 2000), 1000, 100, 101, []uint64{1010 - 28, 0}},
		{"at once", rate(100, 1000), rate(10, 2000), 900, 10, 10, []uint64{100 - 28, 0}},
		{"at the bucket's last", rate(100, 1000), rate(10, 2000), 1000, 10, 20, []uint64{100 - 28, 0}},
		{"before the bucket's last: from there on by the new", rate(100, 1000), rate(10, 2000), 1000, 5, 20, []uint64{100 - 28, 0}},
		{"srtcm: both", Params{Meter: SRTCM, CIR: 100, CBS: 100, EBS: 400}, Params{Meter: SRTCM, CIR: 10, CBS: 50, EBS: 600}, 100, 12, 22, []uint64{50 - 28, 400 + 100}},
		{"srtcm to trtcm keeps both counts, clamped", Params{Meter: SRTCM, CIR: 1, CBS: 100, EBS: 400}, Params{Meter: TRTCM, CIR: 2, CBS: 50, PIR: 10, PBS: 300}, 60, 10, 10, []uint64{40 - 28, 300 - 28}},
		{"trtcm to srtcm", Params{Meter: TRTCM, CIR: 1, CBS: 100, PIR: 2, PBS: 400}, Params{Meter: SRTCM, CIR: 10, CBS: 200, EBS: 250}, 60, 10, 12, []uint64{60 - 28, 250}},
		{"token to rfc4115: E has nothing", rate(1, 100), Params{Meter: RFC4115, CIR: 1, CBS: 100, EIR: 7, EBS: 50}, 60, 10, 13, []uint64{43 - 28, 21}},
		{"rfc4115 to token: E is lost", Params{Meter: RFC4115, CIR: 1, CBS: 100, EIR: 7, EBS: 50}, rate(1, 100), 60, 10, 11, []uint64{41 - 28, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := mirrorOf(t, one(t, c.old))
			m.Packet(ptr(from(1, c.spend)), 10*second)
			apply(t, m, one(t, c.new), c.change*second, 0)
			wantChain(t, "after", m, from(1, 28), c.at*second, Green, c.left...)
		})
	}
}

// The whole table is settled when Apply returns, each bucket where its clock was, reserved and overflow ones
// too; then nothing is left of the old policy.
func TestSettleWholeTable(t *testing.T) {
	plan := func(cir uint64) *Plan {
		return planOf(t, testClass{name: "a", meters: []testMeter{{number: 0, params: rate(cir, 1000)}, {number: 1, per: PerClass, params: rate(2*cir, 100_000)}}})
	}
	m := mirrorOf(t, plan(10))
	overflows := 0
	for i := range 200 {
		if out := m.Packet(ptr(from(uint16(i), 500)), 10*second); out.Slots[0]/SetSlots >= m.Plan().Geometry.Reserved {
			overflows++
		}
	}
	before := append([]Set(nil), m.Sets()...)
	apply(t, m, plan(20), 12*second, 0)
	buckets := 0
	for i := range m.Sets() {
		for at := range m.Sets()[i] {
			if m.Sets()[i].Tag(at) == 0 {
				continue
			}
			// Two seconds at 10 bytes, that of the class at 20.
			want, earned := before[i][at], uint64(20)
			if uint32(i) == m.Plan().Geometry.ReservedSet(1) {
				earned = 40
			}
			want.Generation, want.Bucket.Last, want.Bucket.Tc = 1, 12*second, want.Bucket.Tc+earned*Nano
			if m.Sets()[i][at] != want {
				t.Errorf("set %d, slot %d: %+v, not %+v", i, at, m.Sets()[i][at], want)
			}
			buckets++
		}
	}
	if overflows < 3 || buckets != 200-overflows+2 {
		t.Errorf("%d buckets, %d packets in overflow", buckets, overflows)
	}
}

// Applying the same policy again changes nothing: drained, with the clock frozen, no more is green, in any
// bucket; and a whole mirror that was applied to goes on as one that was not.
func TestSettleSamePolicyAgain(t *testing.T) {
	policy := func() *Plan {
		return planOf(t,
			testClass{name: "a", rules: []func(*Rule){srcIn("10.0.0.0/31")}, meters: []testMeter{{number: 0, params: rate(100, 300)}, {number: 1, per: PerSrc, prefix: [2]int{24, 64}, params: Params{Meter: SRTCM, CIR: 50, CBS: 400, EBS: 200}}, {number: 2, per: PerInterface, params: rate(100, 10_000)}}},
			testClass{name: "b", stats: 1, meters: []testMeter{{number: 3, params: Params{Meter: TRTCM, CIR: 50, CBS: 100, PIR: 100, PBS: 300}}, {number: 4, per: PerClass, params: Params{Meter: RFC4115, CIR: 10, CBS: 2000, EIR: 10, EBS: 10_000}}, {number: 2, per: PerInterface, params: rate(100, 10_000)}}},
		)
	}
	m, other := mirrorOf(t, policy()), mirrorOf(t, policy())
	offer := func(now uint64, rounds int) (passed int) {
		for range rounds {
			for i := range 100 { // more than the table holds
				out := m.Packet(ptr(from(uint16(i), 100)), now)
				want := other.Packet(ptr(from(uint16(i), 100)), now)
				if out != want {
					t.Fatalf("%+v, not %+v", out, want)
				}
				if out.Color != Red {
					passed++
				}
			}
		}
		return passed
	}
	if offer(5*second, 10) == 0 || offer(5*second, 1) != 0 {
		t.Fatal("not drained")
	}
	same := policy()
	for i := range 1000 {
		plan := same // the same one, and every other time a copy
		if i%2 == 1 {
			plan = policy()
		}
		apply(t, m, plan, 5*second, []uint64{0, 0, 1000 * second}[i%3])
		if i%100 < 3 && offer(5*second, 1) != 0 {
			t.Fatalf("apply %d: more is green", i+1)
		}
	}
	m.Confirm(0)
	for now := 6 * second; now < 20*second; now += second {
		offer(now, 2)
		apply(t, m, policy(), now, 0)
	}
	for i := range m.Sets() {
		for at := range m.Sets()[i] {
			// The whole table is settled at an apply: a bucket's last may be later, what it holds is the same.
			// A change puts an overflow bucket where there was none: it is full.
			a, b := m.Sets()[i][at], other.Sets()[i][at]
			if m.Sets()[i].Tag(at) != 0 && other.Sets()[i].Tag(at) == 0 && uint32(i) >= m.Plan().Geometry.OverflowSet(0, 0) {
				p := &m.Plan().Profiles[a.Profile]
				if p.Refill(&a.Bucket, 20*second); !p.Full(&a.Bucket) {
					t.Errorf("set %d: %+v is not full", i, a)
				}
				continue
			}
			a.Generation, b.Generation = 0, 0
			if m.Sets()[i].Tag(at) != 0 {
				p := &m.Plan().Profiles[a.Profile]
				p.Refill(&a.Bucket, 20*second)
				p.Refill(&b.Bucket, 20*second)
			}
			if a != b {
				t.Errorf("set %d, slot %d: %+v, not %+v", i, at, a, b)
			}
		}
	}
}

// A plan that breaks its bounds, or is for another table, leaves the old one running.
func TestApplyRefuses(t *testing.T) {
	bad, other := one(t, rate(1, 1)), one(t, rate(1, 1))
	bad.Rules[0].Class = 1
	g, _ := NewGeometry(2*MinFlows, [MaxChain]bool{true, true, true}, testProfiles)
	other.Geometry = g
	for i := range other.Profiles {
		other.Profiles[i].Overflow = g.OverflowSet(0, uint32(i))
	}
	for name, plan := range map[string]*Plan{"a rule of no class": bad, "another shape": other} {
		old := one(t, rate(100, 1000))
		m := mirrorOf(t, old)
		m.Packet(ptr(from(1, 1000)), 0)
		if err := m.Apply(plan, second, 0); !errors.Is(err, ErrPlan) {
			t.Errorf("%s: %v", name, err)
		}
		if m.Plan() != old {
			t.Errorf("%s: the plan is another", name)
		}
		wantChain(t, name, m, from(1, 50), 2*second, Green, 150, 0)
	}
}

// What is new starts full: another family on the same profile and the same reserved set, whatever its
// predecessor has spent; a family that stays is carried.
func TestSettleNewBucketsStartFull(t *testing.T) {
	policy := func(family uint16) *Plan {
		return planOf(t, testClass{name: "a", meters: []testMeter{{number: 0, family: family, per: PerClass, params: rate(1, 1000)}, {number: 1, family: family, params: rate(1, 500)}}})
	}
	m := mirrorOf(t, policy(7))
	wantChain(t, "drained", m, from(1, 400), 0, Green, 600, 0, 100, 0)
	apply(t, m, policy(7), 0, 0)
	wantChain(t, "carried", m, from(1, 101), 0, Red, 600, 0, 100, 0)
	apply(t, m, policy(8), 0, 0)
	out := wantChain(t, "new", m, from(1, 500), 0, Green, 500, 0, 0, 0)
	if s := bucketOf(m, out, 0); s.Packets != [Colors]uint64{1} || s.Bytes != [Colors]uint64{500} {
		t.Errorf("the new bucket counts the old one's packets: %v %v", s.Packets, s.Bytes)
	}
}

// Buckets of a profile that is gone may be forgotten at once, drained or not, and by whatever clock.
func TestSettleGone(t *testing.T) {
	policy := func(number uint32) *Plan {
		return planOf(t, testClass{name: "a", meters: []testMeter{{number: number, params: rate(1, 1000)}}})
	}
	m := mirrorOf(t, policy(0))
	for i := range 300 {
		m.Packet(ptr(from(uint16(i), 500)), 5*second)
	}
	if m.Stats().Classes[0].Overflow == 0 {
		t.Fatal("the table is not full")
	}
	apply(t, m, policy(1), 5*second, 0)
	overflow := m.Stats().Classes[0].Overflow
	for i := range 32 { // half of the table: without what is there, none is in overflow
		wantChain(t, "new", m, from(uint16(i), 500), 4*second, Green, 500, 0)
	}
	if got := m.Stats().Classes[0].Overflow; got != overflow {
		t.Errorf("%d in overflow: the buckets of a policy that is gone stand in the way", got-overflow)
	}
}

// Counters stand where Class.Stats says: kept for a class that stays, 0 for one that is new, though the
// number was another's.
func TestApplyStats(t *testing.T) {
	class := func(name string, stats uint8, number uint32, host string) testClass {
		return testClass{name: name, stats: stats, rules: []func(*Rule){srcIn(host)}, meters: []testMeter{{number: number, params: rate(1, 1000)}}}
	}
	a, b := class("a", 5, 0, "10.0.0.1/32"), class("b", 3, 1, "10.0.0.2/32")
	m := mirrorOf(t, planOf(t, a, b))
	m.Packet(ptr(from(1, 100)), 0)
	m.Packet(ptr(from(2, 200)), 0)
	count := func(what string, want ...uint64) {
		t.Helper()
		stats := m.Stats()
		for i, bytes := range want {
			packets := bytes / 100
			if got := stats.Classes[i]; len(stats.Classes) != len(want) || got.Bytes[Green] != bytes || got.Packets[Green] != min(packets, 1) {
				t.Errorf("%s: class %d counted %+v, not %d bytes", what, i, got, bytes)
			}
		}
	}
	count("at first", 100, 200)
	apply(t, m, planOf(t, b, a), 0, 0)
	count("in another order", 200, 100)
	apply(t, m, planOf(t, a), 0, 0)
	count("without b", 100)
	apply(t, m, planOf(t, class("c", 3, 2, "10.0.0.3/32"), a), 0, 0)
	count("c on b's counters", 0, 100)
	m.Packet(ptr(from(3, 300)), 0)
	count("c", 300, 100)
	m.Stats().Classes[0].Bytes[Green] = 7
	count("what Stats returned is a copy", 300, 100)
}
