package marker

import (
	"errors"
	"strings"
	"testing"
)

// SPEC 5: flows are rounded up to a power of two, at least 64; a slot is 128 bytes.
func TestGeometry(t *testing.T) {
	for flows, want := range map[uint64]uint64{
		0: 64, 1: 64, 63: 64, 64: 64, 65: 128, 128: 128, 129: 256, 1000: 1024,
		1_000_000: 1 << 20, 1 << 20: 1 << 20, 1<<20 + 1: 1 << 21, MaxFlows: MaxFlows,
	} {
		g, err := NewGeometry(flows, [MaxChain]bool{true}, 2)
		if err != nil {
			t.Errorf("%d: %v", flows, err)
			continue
		}
		if g.Flows() != want {
			t.Errorf("%d flows: %d slots, not %d", flows, g.Flows(), want)
		}
		// 64 slots for each position that is not keyed; a reserved set and three of overflow for each profile.
		if g.Bytes() != (want+2*64+2*4*SetSlots)*SlotBytes {
			t.Errorf("%d flows: %d bytes", flows, g.Bytes())
		}
		sets := uint32(want / SetSlots)
		stages := [MaxChain]Stage{{0, sets - 1}, {sets, 15}, {sets + 16, 15}}
		if g.Stages != stages || g.Reserved != sets+32 || g.Sets != g.Reserved+8 || g.Slots() != want+2*64 {
			t.Errorf("%d flows: %+v", flows, g)
		}
	}
	if _, err := NewGeometry(MaxFlows+1, [MaxChain]bool{}, 0); err == nil || !strings.Contains(err.Error(), "67108865") {
		t.Errorf("too many: %v", err)
	}
}

// What either side could not follow is refused.
func TestPlanCheck(t *testing.T) {
	legal := func() *Plan { return tiny(t, slow, MinFlows, 1).Plan() }
	if err := legal().Check(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*Plan)
		say    string
	}{
		"65 classes":                           {func(p *Plan) { p.Classes = make([]Class, 65) }, "65 classes"},
		"more profiles than room":              {func(p *Plan) { p.Profiles = append(p.Profiles, p.Profiles[0]) }, "2 profiles"},
		"overflow below the reserved":          {func(p *Plan) { p.Profiles[0].Overflow = p.Geometry.Reserved - 1 }, "overflow set"},
		"overflow beyond the table":            {func(p *Plan) { p.Profiles[0].Overflow = p.Geometry.Sets }, "overflow set"},
		"no overflow":                          {func(p *Plan) { p.Profiles[0].Overflow = NoSet }, "overflow set"},
		"stage beyond the reserved":            {func(p *Plan) { p.Geometry.Stages[0].Mask = p.Geometry.Reserved }, "do not fit"},
		"fewer sets than reserved":             {func(p *Plan) { p.Geometry.Sets = p.Geometry.Reserved - 1 }, "do not fit"},
		"a chain of four":                      {func(p *Plan) { m := &p.Classes[0].Meters; *m = append(*m, (*m)[0], (*m)[0], (*m)[0]) }, "4 meters"},
		"a position's overflow is not its own": {func(p *Plan) { m := &p.Classes[0].Meters; *m = append(*m, (*m)[0]) }, "meter 2 is not of its position"},
		"no meter":                             {func(p *Plan) { p.Classes[0].Meters = nil }, "0 meters"},
		"no such profile":                      {func(p *Plan) { p.Classes[0].Meters[0].Profile = 1 }, "no profile 1"},
		"a name too long":                      {func(p *Plan) { p.Classes[0].Name = strings.Repeat("x", 64) }, "too long"},
		"a class's bucket not reserved":        {func(p *Plan) { m := &p.Classes[0].Meters[0]; m.Per, m.Reserved = PerClass, 0 }, "not reserved"},
	} {
		p := legal()
		c.change(p)
		if err := p.Check(); !errors.Is(err, ErrPlan) || !strings.Contains(err.Error(), c.say) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := NewMirror(p, Seeds{}); !errors.Is(err, ErrPlan) {
			t.Errorf("%s: NewMirror: %v", name, err)
		}
	}
}

func TestPlanWords(t *testing.T) {
	for _, c := range []Count{CountL3, CountL2, CountL1, CountPackets} {
		if got, err := ParseCount(c.String()); got != c || err != nil {
			t.Errorf("%v: %v, %v", c, got, err)
		}
	}
	if _, err := ParseCount("l4"); err == nil || !strings.Contains(err.Error(), `"l4"`) {
		t.Errorf("l4: %v", err)
	}
	for want, a := range map[string]Action{
		"pass": {}, "drop": {Verbs: VerbDrop}, "dscp=af11": {Verbs: VerbDSCP, DSCP: 10}, "dscp=3": {Verbs: VerbDSCP, DSCP: 3}, "dscp=cs0": {Verbs: VerbDSCP},
	} {
		if got := a.String(); got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
}
