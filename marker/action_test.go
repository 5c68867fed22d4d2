package marker

import "testing"

func TestActionString(t *testing.T) {
	for want, a := range map[string]Action{
		"pass":              {},
		"drop":              {Verbs: VerbDrop},
		"dscp=af12":         {Verbs: VerbDSCP, DSCP: 12},
		"dscp=cs0":          {Verbs: VerbDSCP},
		"ecn-ce":            {Verbs: VerbCE, DSCP: 12},
		"ecn-ce,dscp=af12":  {Verbs: VerbCE | VerbDSCP, DSCP: 12},
		"mark=5,priority=6": {Verbs: VerbMark | VerbPriority, Mark: 5, Priority: 6},
		"dscp=ef,mark=0":    {Verbs: VerbMark | VerbDSCP, DSCP: 46, Priority: 6},
	} {
		if got := a.String(); got != want {
			t.Errorf("%+v is %s, not %s", a, got, want)
		}
	}
}

// Every set is of one chain position, or reserved.
func TestGeometryPosition(t *testing.T) {
	g, err := NewGeometry(100, [MaxChain]bool{true, false, true}, 2)
	if err != nil {
		t.Fatal(err)
	}
	var sets [MaxChain]uint32
	for set := range g.Sets {
		position := g.Position(set)
		if (position < 0) != (set >= g.Reserved) {
			t.Fatalf("set %d is at position %d", set, position)
		}
		if position >= 0 {
			sets[position]++
		}
	}
	if want := [MaxChain]uint32{32, 16, 32}; sets != want {
		t.Errorf("sets of each position: %v, not %v", sets, want)
	}
}
