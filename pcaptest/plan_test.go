package pcaptest

import (
	"testing"

	"github.com/tricolor-policer/tricolor/marker"
)

// planOf is a plan of one class.
func planOf(t testing.TB, params marker.Params, per marker.Per, flows uint64) *marker.Plan {
	t.Helper()
	profile, err := params.Compile()
	if err != nil {
		t.Fatal(err)
	}
	g, err := marker.NewGeometry(flows, [marker.MaxChain]bool{true}, 1)
	if err != nil {
		t.Fatal(err)
	}
	profile.Overflow = g.OverflowSet(0, 0)
	meter := marker.NewMeter(0, 0, per, [2]int{32, 64})
	meter.Reserved = g.ReservedSet(0)
	return &marker.Plan{
		Geometry:  g,
		Malformed: marker.Action{Verbs: marker.VerbDrop},
		Profiles:  []marker.Profile{profile},
		Rules:     []marker.Rule{marker.AnyRule(0)},
		Classes: []marker.Class{{
			Name:    "all",
			Meters:  []marker.Meter{meter},
			Arrival: marker.DefaultArrival(),
			Actions: [marker.Colors]marker.Action{
				marker.Green:  {Verbs: marker.VerbDSCP, DSCP: 10},
				marker.Yellow: {Verbs: marker.VerbDSCP, DSCP: 12},
				marker.Red:    {Verbs: marker.VerbDrop},
			},
		}},
	}
}
