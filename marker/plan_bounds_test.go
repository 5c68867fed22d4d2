package marker

import (
	"errors"
	"testing"
)

// What either side would take in, and then do wrong.
func TestPlanCheckBounds(t *testing.T) {
	for name, change := range map[string]func(*Plan){
		"DSCP 64: overwrites the version in IPv6":              func(p *Plan) { p.Classes[0].Actions[Green] = Action{Verbs: VerbDSCP, DSCP: 64} },
		"a stage of one set: its other candidate is beyond it": func(p *Plan) { p.Geometry.Stages[0].Mask = 0 },
		"a stage's mask with holes":                            func(p *Plan) { p.Geometry.Stages[0].Mask = 0xa },
		"overhead over 65,535":                                 func(p *Plan) { p.Classes[0].Overhead = 65_536 },
		"a profile's bucket and its overflow in one set": func(p *Plan) {
			p.Classes[0].Meters[0] = NewMeter(0, 0, PerClass, [2]int{})
			p.Classes[0].Meters[0].Reserved = p.Profiles[0].Overflow
		},
	} {
		p := *tiny(t, slow, MinFlows, 1).Plan()
		p.Classes = append([]Class(nil), p.Classes...)
		p.Classes[0].Meters = append([]Meter(nil), p.Classes[0].Meters...)
		change(&p)
		if err := p.Check(); !errors.Is(err, ErrPlan) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
