package certify

import (
	"testing"

	"github.com/tricolor-policer/tricolor/record"
)

// left is one decision and what it left in its bucket, in bytes.
func left(time, cost uint64, color record.Color, c, x uint64) *record.Record {
	r := one(time, cost, color)
	r.Meters[0].C, r.Meters[0].X = c*nano, x*nano
	return r
}

// Each step leaves all that its bucket can have; a nanobyte more in any of its accounts is found, and less is not.
func TestLedger(t *testing.T) {
	const s = nano
	for _, c := range []struct {
		what    string
		profile record.Profile
		all     []*record.Record
	}{
		{"token", record.Profile{Meter: "token", CIR: 10, CBS: 100 * nano}, []*record.Record{
			left(0, 100, record.Green, 0, 0), left(5*s, 60, record.Red, 50, 0), left(6*s, 60, record.Green, 0, 0),
			left(50*s, 1, record.Green, 99, 0),
		}},
		{"srtcm", record.Profile{Meter: "srtcm", CIR: 10, CBS: 100 * nano, XBS: 50 * nano}, []*record.Record{
			left(0, 100, record.Green, 0, 50), left(5*s, 50, record.Yellow, 50, 0), left(11*s, 1, record.Yellow, 100, 9), left(90*s, 1, record.Red, 100, 50),
		}},
		{"trtcm", record.Profile{Meter: "trtcm", CIR: 10, CBS: 100 * nano, XIR: 20, XBS: 50 * nano}, []*record.Record{
			left(0, 50, record.Green, 50, 0), left(1*s, 20, record.Yellow, 60, 0), left(2*s, 30, record.Red, 70, 20), left(90*s, 1, record.Green, 99, 49),
		}},
		{"rfc4115", record.Profile{Meter: "rfc4115", CIR: 10, CBS: 100 * nano, XIR: 20, XBS: 50 * nano}, []*record.Record{
			left(0, 100, record.Green, 0, 50), left(1*s, 50, record.Yellow, 10, 0), left(2*s, 30, record.Red, 20, 20),
		}},
		{"rfc4115 coupled", record.Profile{Meter: "rfc4115", Coupling: true, CIR: 10, CBS: 100 * nano, XIR: 20, XBS: 50 * nano}, []*record.Record{
			left(0, 50, record.Yellow, 100, 0), left(1*s, 10, record.Green, 90, 30),
		}},
	} {
		policies := []record.Policy{policyOf(0, c.profile)}
		if got := certified(t, policies, c.all...); got.Excess != 0 || got.Breaks != 0 {
			t.Errorf("%s: %+v", c.what, got)
		}
		for i, r := range c.all[1:] {
			m := &r.Meters[0]
			for _, tokens := range []*uint64{&m.C, &m.X} {
				*tokens++
				if got := certified(t, policies, c.all...); got.Excess == 0 || got.ExcessAt.Number != uint64(i+2) {
					t.Errorf("%s, a nanobyte more after packet %d: %+v", c.what, i+2, got)
				}
				*tokens--
			}
		}
	}
}

// Over a change of policy, and between buckets of other keys, nothing is compared; nor does a packet that
// was lost between two make the second wrong.
func TestLedgerBounds(t *testing.T) {
	policies := []record.Policy{
		policyOf(0, record.Profile{Meter: "token", CIR: 10, CBS: 100 * nano}),
		policyOf(5, record.Profile{Meter: "token", CIR: 10, CBS: 200 * nano}),
	}
	changed, other := left(6, 1, record.Green, 199, 0), left(7, 1, record.Red, 100, 0)
	changed.Policy, changed.Meters[0].Policy, other.Meters[0].Key = 1, 1, 1
	all := []*record.Record{left(0, 1, record.Green, 99, 0), left(1, 9, record.Green, 7, 0), changed, other}
	if got := certified(t, policies, all...); got.Excess != 0 {
		t.Errorf("%+v", got)
	}
}

// Tokens of an overflow bucket are its own: a key that shares it, and later has a bucket to itself, is no excess.
func TestLedgerOverflow(t *testing.T) {
	policies := []record.Policy{policyOf(0, record.Profile{Meter: "token", CIR: 10, CBS: 100 * nano})}
	shared := left(0, 60, record.Green, 40, 0)
	shared.Meters[0].Overflow, shared.Meters[0].Shared = true, 2
	if got := certified(t, policies, shared, left(1, 10, record.Green, 80, 0)); got.Excess != 0 || got.Buckets != 2 {
		t.Errorf("%+v", got)
	}
	again := left(1, 10, record.Green, 80, 0)
	again.Meters[0].Overflow, again.Meters[0].Shared = true, 2
	if got := certified(t, policies, shared, again); got.Excess != 1 || got.ExcessKey != 2 {
		t.Errorf("%+v", got)
	}
}

// Two CPUs' packets at one time stand in either order.
func TestLedgerSameTime(t *testing.T) {
	policies := []record.Policy{policyOf(0, record.Profile{Meter: "token", CIR: 10, CBS: 100 * nano})}
	if got := certified(t, policies, left(3, 90, record.Red, 80, 0), left(3, 10, record.Green, 80, 0), left(3, 10, record.Green, 90, 0)); got.Excess != 0 {
		t.Errorf("%+v", got)
	}
}

// A bucket that was full when its burst grew may have been forgotten, and be a new one, full by the new burst.
func TestForgottenOverChange(t *testing.T) {
	policies := []record.Policy{
		policyOf(0, record.Profile{Meter: "token", CIR: 1000, CBS: 100 * nano}),
		policyOf(5*nano, record.Profile{Meter: "token", CIR: 1000, CBS: 500_000 * nano}),
	}
	late := one(6*nano, 500_000, record.Green)
	late.Policy, late.Meters[0].Policy = 1, 1
	if got := certified(t, policies, one(0, 100, record.Green), late); got.Breaks != 0 {
		t.Errorf("%+v", got)
	}
	late.Cost++
	if got := certified(t, policies, one(0, 100, record.Green), late); got.Breaks == 0 {
		t.Errorf("a byte more: %+v", got)
	}
}
