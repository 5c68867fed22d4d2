package policy

import "github.com/tricolor-policer/tricolor/marker"

// Compile checks the policy and compiles it. The same policy always gives the same plan: profiles and
// reserved sets are numbered in the order of classes and their chains.
//
// Its error wraps ErrPolicy and joins every fault, one a line, each naming the profile or class, and
// the field.
func (p *Policy) Compile() (*marker.Plan, error) {
	if err := p.check().err(); err != nil {
		return nil, err
	}
	profiles, reserved := p.room()
	geometry, err := marker.NewGeometry(p.Flows, reserved, profiles)
	if err != nil {
		return nil, &fault{text: err.Error()}
	}
	plan := &marker.Plan{Generation: 1, Geometry: geometry, Malformed: p.Malformed}
	set := geometry.Reserved
	reserve := func() uint32 { set++; return set - 1 }
	for i := range p.Classes {
		c := &p.Classes[i]
		class := marker.Class{
			Name: c.Name, Actions: c.Actions, Arrival: c.Arrival, Overhead: c.Overhead, Count: c.Count,
		}
		for position, m := range c.Meters {
			profile, err := p.profile(m.Profile).Compile()
			if err != nil {
				return nil, &fault{text: err.Error()}
			}
			profile.Overflow = reserve()
			meter := marker.NewMeter(uint16(i), position, m.Per, m.Prefix)
			meter.Profile = uint32(len(plan.Profiles))
			if m.Per >= marker.PerClass {
				meter.Reserved = reserve()
			}
			plan.Profiles = append(plan.Profiles, profile)
			class.Meters = append(class.Meters, meter)
		}
		plan.Classes = append(plan.Classes, class)
	}
	if err := plan.Check(); err != nil {
		return nil, &fault{text: err.Error()}
	}
	return plan, nil
}

// room counts what the plan takes: a compiled profile for each class, chain position and profile, each
// with an overflow set; and a set for each bucket that has no hash.
func (p *Policy) room() (profiles, reserved int) {
	for _, c := range p.Classes {
		for _, m := range c.Meters {
			profiles++
			reserved++
			if m.Per >= marker.PerClass {
				reserved++
			}
		}
	}
	return profiles, reserved
}
