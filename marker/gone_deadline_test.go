package marker

import "testing"

// A class that an unconfirmed policy takes away is back at its deadline, and so are its buckets' tokens (SPEC 3.7):
// the operator whose SSH it was is not dropped at the very moment that should save him.
func TestClassComesBackAtTheDeadline(t *testing.T) {
	a := testClass{name: "a", rules: []func(*Rule){protoIs(6)}, meters: []testMeter{{number: 0, params: rate(1, 1000)}}}
	b := testClass{name: "b", stats: 1, meters: []testMeter{{number: 1, params: rate(1, 1000)}, {number: 2, per: PerClass, params: rate(1, 1000)}}}
	m := mirrorOf(t, planOf(t, a, b))
	wantChain(t, "before", m, from(1, 100), 0, Green, 900, 0, 900, 0)
	apply(t, m, planOf(t, a), 0, 10*second)
	if out := m.Packet(ptr(from(1, 100)), 5*second); out.Kind != Unmatched {
		t.Fatalf("%+v", out)
	}
	out := m.Packet(ptr(from(1, 500)), 10*second)
	if out.Color != Green {
		t.Errorf("after the deadline: %v, %+v, %+v", out.Color, bucketOf(m, out, 0).Bucket, bucketOf(m, out, 1).Bucket)
	}
}
