package marker

import "testing"

// A change gives an address's line another profile: from the change on its bucket earns by that one, however long
// it is not touched (SPEC 3.7).
func TestLineMovedToAnotherProfile(t *testing.T) {
	plan := func(profile uint32) *Plan {
		p := planOf(t, testClass{name: "a", meters: []testMeter{{params: rate(1, 1)}}})
		p.setProfile(t, 1, 0, rate(1000, 1000))
		p.setProfile(t, 2, 0, rate(1, 300))
		p.Sets = []PrefixSet{entries("10.0.0.1/32", profile)}
		p.Rules[0].SrcSet = 1
		return p
	}
	m := mirrorOf(t, plan(1))
	wantChain(t, "drained", m, from(1, 1000), 10*second, Green, 0, 0)
	apply(t, m, plan(2), 10*second, 0)
	out := m.Packet(ptr(from(1, 28)), 11*second)
	if got := bucketOf(m, out, 0).Bucket.Tc; out.Color != Red || got != 1*Nano {
		t.Errorf("%v, %d bytes left: 1 s after the change the bucket has 1 byte", out.Color, got/Nano)
	}
}
