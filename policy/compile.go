package policy

import (
	"fmt"

	"github.com/tricolor-policer/tricolor/marker"
)

// Compile checks the policy and compiles it for a new table. The same policy always gives the same plan.
//
// Its error wraps ErrPolicy and joins every fault, one a line, each naming the profile or class, and
// the field.
func (p *Policy) Compile() (*marker.Plan, error) { return p.CompileAfter(nil) }

// CompileAfter compiles a policy that takes over from prev in a table that is in use. Everything that is
// carried over keeps its numbers, so that it finds its buckets and counters again: see Diff. The plan's
// Generation is the next; its Since is for the loader to set. A nil prev is Compile.
//
// Its error is that of Compile; also where the table is not what the policy asks for (flows differ), or
// has no room for as much change at once.
func (p *Policy) CompileAfter(prev *marker.Plan) (*marker.Plan, error) {
	if err := p.check().err(); err != nil {
		return nil, err
	}
	c := compiler{policy: p, compiled: map[string]marker.Profile{}, sets: map[*Set]uint32{}}
	if err := c.compile(prev); err != nil {
		return nil, err
	}
	if err := c.plan.Check(); err != nil {
		return nil, &Fault{Text: err.Error()}
	}
	return c.plan, nil
}

// compiler makes a plan of a policy that was checked.
type compiler struct {
	policy   *Policy
	plan     *marker.Plan
	numbers  *numbers
	compiled map[string]marker.Profile // by name
	sets     map[*Set]uint32           // those that give no profiles, and so are the same for every class
}

func (c *compiler) compile(prev *marker.Plan) error {
	for i := range c.policy.Profiles {
		p := &c.policy.Profiles[i]
		profile, err := p.Compile()
		if err != nil {
			return &Fault{Text: err.Error()}
		}
		profile.Name = p.Name
		c.compiled[p.Name] = profile
	}
	geometry, err := c.policy.geometry(prev)
	if err != nil {
		return err
	}
	c.plan = &marker.Plan{Generation: 1, Geometry: geometry, Malformed: c.policy.Malformed}
	if prev != nil {
		c.plan.Generation = prev.Generation + 1
	}
	c.numbers = newNumbers(geometry, prev)
	for i := range c.policy.Classes {
		if err := c.class(i); err != nil {
			return err
		}
	}
	c.keepLines(prev)
	c.plan.NextFamily = uint16(c.numbers.family)
	return nil
}

// geometry is the table's shape: the one in use, else one with room for changes of policy.
func (p *Policy) geometry(prev *marker.Plan) (marker.Geometry, error) {
	keyed := [marker.MaxChain]bool{true} // the first may come to be
	for i := range p.Classes {
		for position, m := range p.Classes[i].Meters {
			keyed[position] = keyed[position] || m.Per < marker.PerClass
		}
	}
	g, err := marker.NewGeometry(p.Flows, keyed, max(minProfiles, 2*p.profileCount()))
	if err != nil || prev == nil {
		return g, err
	}
	if g.Flows() != prev.Geometry.Flows() {
		return g, &Fault{Place: p.Places.of([]string{"flows"}), Field: "flows", Text: fmt.Sprintf(
			"%d bucket slots are asked for, and the table has %d: changing flows needs detach; its buckets are then lost", g.Flows(), prev.Geometry.Flows())}
	}
	for position, stage := range g.Stages {
		if stage.Mask > prev.Geometry.Stages[position].Mask {
			return g, p.lacksRoom(position)
		}
	}
	return prev.Geometry, nil
}

// lacksRoom refuses a chain that needs buckets at a position at which the table in use has none to speak
// of.
func (p *Policy) lacksRoom(position int) error {
	for i := range p.Classes {
		c := &p.Classes[i]
		if position < len(c.Meters) && c.Meters[position].Per < marker.PerClass {
			at := c.meterPart(position)
			return &Fault{Place: at.places.of([]string{"per"}), Part: at.name, Field: "per", Text: fmt.Sprintf(
				"the table was made for a policy without meters per %v at this place of a chain, and has no slots for them: detach and attach again; its buckets are then lost",
				c.Meters[position].Per)}
		}
	}
	return nil
}

// profileCount is how many compiled profiles the policy takes, at most: one for each meter of each class,
// and one for each other profile that its files give.
func (p *Policy) profileCount() (n int) {
	for i := range p.Classes {
		c := &p.Classes[i]
		n += len(c.Meters)
		for _, set := range []*Set{c.Match.SrcSet, c.Match.DstSet} {
			names := set.profiles()
			n += len(names)
		}
	}
	return n
}

func (c *compiler) class(i int) error {
	from := &c.policy.Classes[i]
	stats, ok := c.numbers.stats.take(from.Name)
	if !ok {
		return c.full(from.part())
	}
	class := marker.Class{
		Name: from.Name, Actions: from.Actions, Arrival: from.Arrival, Overhead: from.Overhead, Count: from.Count,
		Stats: uint8(stats),
	}
	for position := range from.Meters {
		meter, err := c.meter(from, position)
		if err != nil {
			return err
		}
		class.Meters = append(class.Meters, meter)
	}
	src, err := c.set(from, from.Match.SrcSet)
	if err != nil {
		return err
	}
	dst, err := c.set(from, from.Match.DstSet)
	if err != nil {
		return err
	}
	c.plan.Classes = append(c.plan.Classes, class)
	c.plan.Rules = append(c.plan.Rules, from.Match.rules(uint16(i), src, dst)...)
	return nil
}

// id is what a meter's buckets are of.
func (m *Meter) id(c *Class, position int) bucketID {
	return bucketOf(c.Name, c.Count, position, m.Per, [2]uint8{uint8(m.Prefix[0]), uint8(m.Prefix[1])}, m.Profile)
}

func (c *compiler) meter(class *Class, position int) (meter marker.Meter, err error) {
	m := &class.Meters[position]
	id := m.id(class, position)
	family, err := c.numbers.familyOf(id)
	if err != nil {
		return meter, &Fault{Place: class.Places[""], Part: class.part().name, Text: err.Error()}
	}
	meter = marker.NewMeter(family, id.position, m.Per, m.Prefix)
	if meter.Profile, err = c.profile(class.meterPart(position), profileID{bucketID: id}, m.Profile); err != nil {
		return meter, err
	}
	if m.Per >= marker.PerClass {
		meter.Reserved = c.plan.Geometry.ReservedSet(meter.Profile)
	}
	return meter, nil
}

// profile puts a profile into the plan and returns its number.
func (c *compiler) profile(at part, id profileID, name string) (uint32, error) {
	number, ok := c.numbers.profiles.take(id)
	if !ok {
		return 0, c.full(at)
	}
	profile := c.compiled[name]
	profile.Overflow = c.plan.Geometry.OverflowSet(id.position, number)
	c.put(number, profile)
	return number, nil
}

// put puts a profile at its number. What stands at numbers that nothing has is a profile that is gone: a
// bucket that was left with it may be forgotten at once.
func (c *compiler) put(number uint32, profile marker.Profile) {
	for len(c.plan.Profiles) <= int(number) {
		c.plan.Profiles = append(c.plan.Profiles, marker.Profile{
			Gone: true, Overflow: c.plan.Geometry.OverflowSet(0, uint32(len(c.plan.Profiles))),
		})
	}
	c.plan.Profiles[number] = profile
}

// keepLines hands the buckets of profiles that lines of files gave before, and give no more, to the meter's
// own profile, until a packet brings them to the profile they have now.
func (c *compiler) keepLines(prev *marker.Plan) {
	if prev == nil {
		return
	}
	for id, number := range c.numbers.profiles.old {
		if _, taken := c.numbers.profiles.given[id]; taken || id.line == "" {
			continue
		}
		if own, alive := c.numbers.profiles.given[profileID{bucketID: id.bucketID}]; alive {
			c.put(number, marker.Profile{Gone: true, Moved: own + 1, Overflow: prev.Profiles[number].Overflow})
		}
	}
}

// set puts a file of prefixes into the plan and returns its number, from 1; 0 for none.
func (c *compiler) set(class *Class, from *Set) (uint32, error) {
	if from == nil {
		return 0, nil
	}
	if number, known := c.sets[from]; known {
		return number, nil
	}
	numbers := map[string]uint32{"": marker.NoProfile}
	names := from.profiles()
	for _, name := range names {
		id := profileID{class.Meters[0].id(class, 0), name}
		number, err := c.profile(class.meterPart(0), id, name)
		if err != nil {
			return 0, err
		}
		numbers[name] = number
	}
	set := marker.PrefixSet{Name: from.Name, Entries: make([]marker.PrefixEntry, len(from.Entries))}
	for i, e := range from.Entries {
		set.Entries[i] = marker.PrefixEntry{Prefix: e.Prefix, Profile: numbers[e.Profile]}
	}
	c.plan.Sets = append(c.plan.Sets, set)
	if len(names) == 0 {
		c.sets[from] = uint32(len(c.plan.Sets))
	}
	return uint32(len(c.plan.Sets)), nil
}

// full refuses a change for which the table has no numbers left.
func (c *compiler) full(at part) error {
	return &Fault{Place: at.places[""], Part: at.name, Text: fmt.Sprintf(
		"this changes more at once than the table has room for (%d meters and profiles of files): "+
			"detach and attach again, or, where the policy itself is no larger than that, apply it in two steps", c.plan.Geometry.Profiles)}
}
