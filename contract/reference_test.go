package contract

import (
	"testing"

	"github.com/tricolor-policer/tricolor/marker"
)

const second = uint64(marker.Nano)

// reference is the contract of the edge that everything is explained by.
var reference = Params{Rate: 5, Burst: 8, Window: 6 * second, Queue: 18}

func compared(t *testing.T, p Params, arrivals []Arrival) []Row {
	t.Helper()
	c, err := New(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range arrivals {
		c.Arrive(marker.Key{}, a)
	}
	return c.Rows()
}

// The arrivals are written out: 12, 10 ms apart, ending at 5.90 s; 23 from 6.10 s; 5 from 10.1 s.
func TestReferenceArrivals(t *testing.T) {
	const ms = 1_000_000
	var want []Arrival
	for i := range uint64(12) {
		want = append(want, Arrival{5790*ms + i*10*ms, 1})
	}
	for i := range uint64(23) {
		want = append(want, Arrival{6100*ms + i*10*ms, 1})
	}
	for i := range uint64(5) {
		want = append(want, Arrival{10_100*ms + i*500*ms, 1})
	}
	got, err := scenario("edge").Arrivals(reference, 1)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 40 {
		t.Fatalf("%d arrivals, want 40", len(got))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("arrival %d: %v, want %v", i+1, got[i], want[i])
		}
	}
}

// Each column, reckoned by hand. A window is (t - 6 s, t]: the fullest ends at 11.6 s, without the last arrival.
func TestReference(t *testing.T) {
	arrivals, err := scenario("edge").Arrivals(reference, 1)
	if err != nil {
		t.Fatal(err)
	}
	want := [Kinds]struct {
		packets, most uint64
		excess        int64 // nano-packets
		delay         uint64
	}{
		Token:   {15, 14, 0, 0},
		GCRA:    {15, 14, 0, 0},
		Fixed:   {40, 39, 24_350_000_000, 0}, // 35 within 0.53 s: 35 - 8 - 2.65
		Log:     {31, 30, 19_600_000_000, 0}, // 30 within 0.48 s: 30 - 8 - 2.4
		Counter: {35, 34, 19_600_000_000, 0}, // the same, then 12 × 1.9/6 + 18 and so on leave room
		Shaper:  {26, 25, 0, 3_600_000_000},  // the 22nd arrival waits for just 18 packets
	}
	for _, row := range compared(t, reference, arrivals) {
		w := want[row.Contract]
		if row.Packets != w.packets || row.MostInWindow != w.most || row.Excess.Int64() != w.excess || row.WorstDelay != w.delay {
			t.Errorf("%v: %d admitted, %d in a window, %v over, %d ns; want %+v", row.Contract, row.Packets, row.MostInWindow, row.Excess, row.WorstDelay, w)
		}
	}
}

// 42 in the previous minute, 18 in this one, 15 s in: 42 × 45/60 + 18 = 49.5.
func TestCounterWorkedExample(t *testing.T) {
	const minute = 60 * second
	terms, err := Params{Rate: 5, Burst: 1, Window: minute}.compile()
	if err != nil {
		t.Fatal(err)
	}
	c := &counter{terms: terms}
	for range 42 {
		c.admit(10*second, 1)
	}
	for range 18 {
		c.admit(minute+second, 1)
	}
	// The estimate is kept times the window: twice it is 99 windows.
	if got := c.estimate(minute + 15*second); got.plus(got) != product(99, minute) {
		t.Errorf("the estimate is %v / %d, want 49.5", got.big(), minute)
	}
}

func TestAudit(t *testing.T) {
	a, err := RunAudit()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range a.Faults {
		t.Errorf("%v: %v: %s", f.Case, f.Check, f.What)
	}
	if !a.OK() || a.Cases != 324 || a.ChecksRun() != 2592 || a.ChecksPassed() != 2592 {
		t.Errorf("cases %d/%d, checks %d/%d; want 324 and 2592", a.CasesPassed, a.Cases, a.ChecksPassed(), a.ChecksRun())
	}
}
