package marker

import (
	"errors"
	"testing"
)

// Plans that would do harm, whoever made them: Check takes none. (A dscp verb on what is not IP does nothing.)
func TestCheckRefusesHarm(t *testing.T) {
	for name, plan := range map[string]*Plan{
		"two families, one reserved set": planOf(t,
			testClass{name: "a", rules: []func(*Rule){srcIn("10.0.0.1/32")}, meters: []testMeter{{number: 0, family: 1, per: PerClass, params: rate(1, 1000)}}},
			testClass{name: "b", meters: []testMeter{{number: 0, family: 2, per: PerClass, params: rate(1, 1000)}}}),
		"a prefix's overflow of position 2": func() *Plan {
			p := planOf(t, testClass{name: "a", meters: []testMeter{{params: rate(1, 1000)}}})
			p.setProfile(t, 1, 2, rate(1, 1000))
			p.Sets = []PrefixSet{entries("10.0.0.0/8", uint32(1))}
			p.Rules[0].SrcSet = 1
			return p
		}(),
		"a meter of a profile that is gone": func() *Plan {
			p := planOf(t, testClass{name: "a", meters: []testMeter{{params: rate(1, 1000)}}})
			p.Classes[0].Meters[0].Profile = 1
			return p
		}(),
	} {
		if err := plan.Check(); !errors.Is(err, ErrPlan) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A dscp or ecn-ce verb does nothing to what is not IP.
func TestMarkNotIP(t *testing.T) {
	plan := planOf(t, testClass{name: "a", rules: []func(*Rule){only(FamilyNone)}, meters: []testMeter{{per: PerClass, params: rate(1, 1000)}},
		change: func(c *Class) { c.Actions[Green] = Action{Verbs: VerbDSCP | VerbCE, DSCP: 1} }})
	f := whole(ethernet("0806"))
	before := string(f.Data)
	if out := mirrorOf(t, plan).Packet(&f, 0); out.Kind != Metered || out.Dropped || string(f.Data) != before {
		t.Errorf("%+v, %x", out, f.Data)
	}
}
