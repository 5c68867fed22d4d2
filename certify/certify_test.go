package certify

import (
	"errors"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/tricolor-policer/tricolor/record"
)

// one is a decision of one meter, on key 0 by profile 0.
func one(time, cost uint64, color record.Color) *record.Record {
	return &record.Record{
		Time: time, Cost: cost, Packets: 1, Color: color, Chain: 1,
		Meters: [record.MaxChain]record.Meter{{Color: color, Time: time}},
	}
}

func policyOf(since uint64, profiles ...record.Profile) record.Policy {
	return record.Policy{Since: since, Classes: []record.Class{{Name: "all", Count: "l3"}}, Profiles: profiles}
}

func certified(tb interface {
	Helper()
	Fatal(args ...any)
}, policies []record.Policy, all ...*record.Record) *Result {
	tb.Helper()
	c := New(&policies)
	for _, r := range all {
		if err := c.Add(r); err != nil {
			tb.Fatal(err)
		}
	}
	return c.Finish()
}

// The burst, then what is earned to the byte: proven. One byte or one nanosecond less: broken, by that.
func TestExact(t *testing.T) {
	const ms = 1_000_000
	policies := []record.Policy{policyOf(0, record.Profile{Meter: "token", CIR: 1000, CBS: 1500 * nano})}
	got := certified(t, policies, one(1000*ms, 1500, record.Green), one(2000*ms, 1000, record.Green), one(2500*ms, 500, record.Green), one(2500*ms, 9000, record.Red))
	if got.Breaks != 0 || got.Tightest.Left != 0 || got.Tightest.Accepted != 1500 || got.Colors != [3]uint64{3, 0, 1} || got.Buckets != 1 {
		t.Errorf("exact: %+v", got)
	}
	got = certified(t, policies, one(1000*ms, 1500, record.Green), one(2000*ms, 1000, record.Green), one(2500*ms-1, 500, record.Green))
	want := Interval{From: Packet{1, 1000 * ms}, To: Packet{3, 2500*ms - 1}, Accepted: 3000, Over: 1000, Burst: 1500 * nano, Envelope: Green}
	if got.Breaks != 2 || got.Broken != want || got.Broken.Allowed() != 2999 { // green, and green and yellow
		t.Errorf("a nanosecond early: %+v", got)
	}
	// Over the second interval alone it is broken too: the first packet is no part of it.
	got = certified(t, policies, one(0, 10, record.Green), one(1000*ms, 1500, record.Green), one(1500*ms, 501, record.Green))
	if want := (Interval{From: Packet{2, 1000 * ms}, To: Packet{3, 1500 * ms}, Accepted: 2001, Over: nano, Burst: 1500 * nano}); got.Broken != want {
		t.Errorf("a byte over: %+v", got.Broken)
	}
}

// Green and yellow together have an envelope of their own, by the meter.
func TestTotal(t *testing.T) {
	for _, c := range []struct {
		profile record.Profile
		burst   uint64
		rate    uint64
	}{
		{record.Profile{Meter: "srtcm", CIR: 1000, CBS: 100 * nano, XBS: 50 * nano}, 150, 1000},
		{record.Profile{Meter: "trtcm", CIR: 1000, CBS: 100 * nano, XIR: 3000, XBS: 120 * nano}, 120, 3000},
		{record.Profile{Meter: "rfc4115", CIR: 1000, CBS: 100 * nano, XIR: 1000, XBS: 50 * nano}, 150, 2000},
	} {
		policies := []record.Policy{policyOf(0, c.profile)}
		fits := []*record.Record{one(0, 100, record.Green), one(0, c.burst-100, record.Yellow), one(nano/1000, c.rate/1000, record.Yellow)}
		if got := certified(t, policies, fits...); got.Breaks != 0 || got.Tightest.Left != 0 {
			t.Errorf("%s: %+v", c.profile.Meter, got)
		}
		if got := certified(t, policies, append(fits, one(nano/1000, 1, record.Yellow))...); got.Breaks != 1 || got.Broken.Envelope != Total || got.Broken.Over != nano {
			t.Errorf("%s, a byte more: %+v", c.profile.Meter, got)
		}
		if got := certified(t, policies, one(0, 101, record.Green)); got.Breaks != 1 || got.Broken.Envelope != Green {
			t.Errorf("%s, green over its own: %+v", c.profile.Meter, got)
		}
	}
}

// A change of policy carries over what is left, clamped to the new burst, and changes the rate from then on.
func TestChange(t *testing.T) {
	policies := []record.Policy{
		policyOf(0, record.Profile{Meter: "token", CIR: 100, CBS: 1000 * nano}),
		policyOf(5*nano, record.Profile{Meter: "token", CIR: 10, CBS: 2000 * nano}),
		policyOf(10*nano, record.Profile{Meter: "token", CIR: 10, CBS: 30 * nano}),
	}
	by := func(r *record.Record, policy uint32) *record.Record {
		r.Policy, r.Meters[0].Policy = policy, policy
		return r
	}
	// 1000 are spent; 500 are earned until the change, 10 in the second after it; at the next all but 30 is cut off.
	all := []*record.Record{one(0, 1000, record.Green), by(one(6*nano, 300, record.Green), 1), by(one(11*nano, 30, record.Green), 2)}
	if got := certified(t, policies, all...); got.Breaks != 0 || got.Tightest.Left != 0 {
		t.Errorf("%+v", got)
	}
	for _, more := range []*record.Record{by(one(6*nano, 211, record.Green), 1), by(one(11*nano, 1, record.Green), 2)} {
		at := 2
		if more.Policy == 2 {
			at = 3
		}
		if got := certified(t, policies, append(append([]*record.Record{}, all[:at]...), more)...); got.Broken.Over != nano || got.Broken.To.Number != uint64(at+1) {
			t.Errorf("policy %d, a byte more: %+v", more.Policy, got)
		}
	}
}

// Between a policy's stamp and its being in force packets meet the old one: a red one's bucket has earned by that.
func TestChangeStamp(t *testing.T) {
	policies := []record.Policy{
		policyOf(0, record.Profile{Meter: "token", CIR: 100, CBS: 1000 * nano}),
		policyOf(5*nano, record.Profile{Meter: "token", CIR: 10, CBS: 1000 * nano}),
	}
	all := []*record.Record{one(0, 1000, record.Green), one(6*nano, 900, record.Red), one(7*nano, 610, record.Green)}
	all[2].Policy, all[2].Meters[0].Policy = 1, 1
	if got := certified(t, policies, all...); got.Breaks != 0 || got.Tightest.Left != 0 {
		t.Errorf("%+v", got)
	}
	all[2].Cost++
	if got := certified(t, policies, all...); got.Broken.Over != nano {
		t.Errorf("a byte more: %+v", got)
	}
}

// A packet that its bucket counted later than its own time, since another CPU was ahead, counts at that time.
func TestBucketTime(t *testing.T) {
	policies := []record.Policy{policyOf(0, record.Profile{Meter: "token", CIR: 1000_000_000, CBS: 100 * nano})}
	behind := one(90, 10, record.Green)
	behind.Meters[0].Time = 110
	if got := certified(t, policies, one(0, 100, record.Green), behind, one(100, 100, record.Green)); got.Breaks != 0 || got.Tightest.Left != 0 {
		t.Errorf("%+v", got)
	}
}

// A colour that no meter gave is no decision.
func TestContradiction(t *testing.T) {
	policies := []record.Policy{policyOf(0, record.Profile{Meter: "token"})}
	c := New(&policies)
	r := one(0, 1, record.Red)
	r.Color = record.Green
	if err := c.Add(r); !errors.Is(err, ErrDecisions) {
		t.Error(err)
	}
	if err := c.Add(&record.Record{Color: record.Yellow}); !errors.Is(err, ErrDecisions) {
		t.Error(err)
	}
}

// One pass finds what looking at every interval finds.
func TestEveryInterval(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate, burst := rapid.Uint64Range(1, 20).Draw(t, "rate"), rapid.Uint64Range(1, 40).Draw(t, "burst")
		policies := []record.Policy{policyOf(0, record.Profile{Meter: "token", CIR: rate, CBS: burst * nano})}
		var all []*record.Record
		now := uint64(0)
		for range rapid.IntRange(1, 12).Draw(t, "packets") {
			now += rapid.Uint64Max(3*nano).Draw(t, "gap")
			all = append(all, one(now, rapid.Uint64Max(30).Draw(t, "cost"), record.Color(2*rapid.IntRange(0, 1).Draw(t, "red"))))
		}
		first, least := 0, new(big.Int).Lsh(big.NewInt(1), 100)
		for to := range all {
			for from := range all[:to+1] {
				if all[to].Color == record.Red || all[from].Color == record.Red {
					continue
				}
				left := new(big.Int).Mul(new(big.Int).SetUint64(rate), new(big.Int).SetUint64(all[to].Time-all[from].Time))
				left.Add(left, new(big.Int).SetUint64(burst*nano))
				for _, r := range all[from : to+1] {
					if r.Color != record.Red {
						left.Sub(left, new(big.Int).SetUint64(r.Cost*nano))
					}
				}
				if left.Sign() < 0 && first == 0 {
					first = to + 1
				}
				if left.Cmp(least) < 0 {
					least = left
				}
			}
			if first > 0 {
				break
			}
		}
		got := certified(t, policies, all...)
		switch {
		case first > 0 && (got.Breaks == 0 || got.Broken.To.Number != uint64(first)):
			t.Fatalf("broken at packet %d; found %+v", first, got)
		case first == 0 && got.Breaks > 0:
			t.Fatalf("not broken; found %+v", got.Broken)
		case first == 0 && got.Tightest.To.Number > 0 && least.Cmp(new(big.Int).SetUint64(got.Tightest.Left)) != 0:
			t.Fatalf("the least left is %v; found %+v", least, got.Tightest)
		}
	})
}
