package loader

import (
	"fmt"
	"strings"

	"github.com/tricolor-policer/tricolor/marker"
	"github.com/tricolor-policer/tricolor/record"
)

// KeyName is what a person calls the bucket of a key, which a packet of a class asked its meter m for; overflow is 1 +
// the profile of the overflow bucket, or 0.
func KeyName(plan *marker.Plan, class int, m *marker.Meter, key marker.Key, overflow uint32) string {
	fields := key.Fields()
	what := fields.String()
	bits := m.Prefix[0]
	if fields.IPv6() {
		bits = m.Prefix[1]
	}
	switch {
	case overflow > 0:
		what = "overflow"
		if p := int(overflow - 1); p < len(plan.Profiles) && plan.Profiles[p].Name != "" {
			what += " of " + plan.Profiles[p].Name
		}
	case m.Per == marker.PerSrc, m.Per == marker.PerDst:
		what = fmt.Sprintf("%v %s/%d", m.Per, what, bits)
	case m.Per == marker.PerInterface:
		return strings.TrimSpace("interface " + plan.Profiles[m.Profile].Name)
	}
	name := plan.Classes[class].Name
	if len(plan.Classes[class].Meters) > 1 {
		name += fmt.Sprintf(", meter %d", fields.Position()+1)
	}
	return name + ": " + what
}

// RecordPolicy is a plan as a record has it.
func RecordPolicy(plan *marker.Plan) *record.Policy {
	p := &record.Policy{Generation: plan.Generation, Since: plan.Since}
	for i := range plan.Classes {
		c := &plan.Classes[i]
		class := record.Class{Name: c.Name, Count: c.Count.String()}
		for _, m := range c.Meters {
			class.Meters = append(class.Meters, m.Per.String())
		}
		p.Classes = append(p.Classes, class)
	}
	for i := range plan.Profiles {
		q := &plan.Profiles[i]
		p.Profiles = append(p.Profiles, record.Profile{
			Name: q.Name, Meter: q.Meter.String(), Aware: q.Aware, Coupling: q.Coupling,
			CIR: q.CIR, XIR: q.XIR, CBS: q.CBS, XBS: q.XBS,
		})
	}
	return p
}
