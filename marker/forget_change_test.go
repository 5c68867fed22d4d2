package marker

import (
	"errors"
	"testing"
)

// A key that was forgotten full of a small burst does not come back full of the larger one that a change brings
// meanwhile: one that was not forgotten would not (SPEC 3.3, 3.7).
func TestForgottenThenLargerBurst(t *testing.T) {
	const second = uint64(Nano)
	large := Params{Meter: Token, CIR: 10, CBS: 1000}
	small := Params{Meter: Token, CIR: 10, CBS: 10}
	again := func(m *Mirror, params Params, now uint64) {
		plan := *m.Plan()
		p, _ := params.Compile()
		p.Overflow = plan.Profiles[0].Overflow
		plan.Profiles = []Profile{p}
		if err := m.Apply(&plan, now, 0); err != nil {
			t.Fatal(err)
		}
	}
	for _, forgotten := range []bool{false, true} {
		m := tiny(t, large, MinFlows, 1)
		keys := crowd(m, 16, 3, 9)
		accepted := uint64(0)
		take := func(now, bytes uint64) {
			if color, _, _ := offer(m, keys[0], now, bytes, Green); color == Green {
				accepted += bytes
			}
		}
		take(0, 1000)
		again(m, small, 0) // the bucket holds 0 of 10, full at 1 s
		if forgotten {     // a crowd takes its slot, of buckets that were never spent from
			for _, k := range keys[1:9] {
				offer(m, k, second, 10, Green)
			}
		}
		again(m, large, second+second/100)
		take(second+second/100, 1000)
		if accepted != 1000 {
			t.Errorf("forgotten %v: %d bytes accepted within 1.01 s, of a burst of 1000 and 10 bytes/s", forgotten, accepted)
		}
	}
}

// Within one policy no two lines with different profiles may share a bucket: it could be full by the small one,
// forgotten, and made again full by the large one.
func TestLinesShareNoBucket(t *testing.T) {
	plan := planOf(t, testClass{name: "a", meters: []testMeter{{per: PerSrc, prefix: [2]int{24, 64}, params: rate(10, 1000)}}})
	plan.setProfile(t, 1, 0, rate(10, 30))
	plan.Sets = []PrefixSet{entries("0.0.0.0/0", NoProfile, "10.0.0.2/32", uint32(1))}
	plan.Rules[0].SrcSet = 1
	if err := plan.Check(); !errors.Is(err, ErrPlan) {
		t.Errorf("a line of /32 that brings a profile, and buckets of /24: %v", err)
	}
	plan.Sets = []PrefixSet{entries("0.0.0.0/0", NoProfile, "10.0.0.0/24", uint32(1))}
	if err := plan.Check(); err != nil {
		t.Error(err)
	}
}
