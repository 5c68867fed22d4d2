package marker

import "testing"

// tiny makes a mirror of one class that meters flows in a table of so many slots.
func tiny(t testing.TB, params Params, flows uint64, seed uint64) *Mirror {
	t.Helper()
	profile, err := params.Compile()
	if err != nil {
		t.Fatal(err)
	}
	g, err := NewGeometry(flows, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	profile.Overflow = g.Reserved
	meter := NewMeter(0, 0, PerFlow, [2]int{32, 64})
	meter.Reserved = g.Reserved + 1
	m, err := NewMirror(&Plan{
		Geometry:  g,
		Malformed: Action{Verbs: VerbDrop},
		Profiles:  []Profile{profile},
		Classes:   []Class{{Name: "all", Meters: []Meter{meter}, Arrival: DefaultArrival()}},
	}, SeedsFrom(seed))
	if err != nil {
		t.Fatal(err)
	}
	return m
}
