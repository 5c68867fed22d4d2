package policy

import (
	"fmt"

	"github.com/tricolor-policer/tricolor/marker"
)

// A change of policy keeps the buckets of every meter that stays what it was, so numbers that stand in
// a bucket's key, or in the bucket, go with what they number from plan to plan, and a new meter takes
// numbers that the plan before does not use.

// bucketID is what a meter's buckets are of: the same in two plans, they are the same buckets.
type bucketID struct {
	class     string // empty: the interface's
	interfaze string // the interface's: name of the profile
	position  int
	per       marker.Per
	prefix    [2]uint8
	count     marker.Count
}

// profileID is what a compiled profile is of.
type profileID struct {
	bucketID
	line string // the profile that a line of a file of prefixes gives; empty: the meter's own
}

// bucketOf returns what a meter's buckets are of.
func bucketOf(class string, count marker.Count, position int, per marker.Per, prefix [2]uint8, profile string) bucketID {
	if per == marker.PerInterface {
		return bucketID{interfaze: profile, per: per, count: count}
	}
	return bucketID{class: class, position: position, per: per, prefix: prefix, count: count}
}

// pool gives out numbers from 0 up to room: the same for the same thing, and to a new thing one that
// nothing old has.
type pool[K comparable] struct {
	old   map[K]uint32
	used  map[uint32]bool
	given map[K]uint32
	room  uint32
	next  uint32
}

func newPool[K comparable](room uint32) *pool[K] {
	return &pool[K]{old: map[K]uint32{}, used: map[uint32]bool{}, given: map[K]uint32{}, room: room}
}

// keep says that a number was a thing's in the plan before.
func (p *pool[K]) keep(thing K, number uint32) {
	p.old[thing] = number
	p.used[number] = true
}

// take returns the thing's number, or false where none is left.
func (p *pool[K]) take(thing K) (uint32, bool) {
	if n, ok := p.given[thing]; ok {
		return n, true
	}
	n, ok := p.old[thing]
	if !ok {
		for p.used[p.next] {
			p.next++
		}
		if n = p.next; n >= p.room {
			return 0, false
		}
		p.used[n] = true
	}
	p.given[thing] = n
	return n, true
}

// Room for changes of policy: as many classes, meters and reserved buckets as there may be, twice, since
// none of a change's new numbers is an old one.
const (
	minProfiles = 2 * marker.MaxClasses * marker.MaxChain
)

// numbers are all that a plan gives out. The sets of a table's reserved region go by the profiles' numbers.
type numbers struct {
	profiles *pool[profileID]
	stats    *pool[string]
	families map[bucketID]uint16
	family   uint32 // the next
}

// newNumbers returns the numbers of a plan that follows prev, which may be nil.
func newNumbers(g marker.Geometry, prev *marker.Plan) *numbers {
	n := &numbers{
		profiles: newPool[profileID](g.Profiles),
		stats:    newPool[string](marker.MaxStats),
		families: map[bucketID]uint16{},
	}
	if prev == nil {
		return n
	}
	n.family = uint32(prev.NextFamily)
	for i := range prev.Classes {
		c := &prev.Classes[i]
		n.stats.keep(c.Name, uint32(c.Stats))
		for position := range c.Meters {
			m := &c.Meters[position]
			id := bucketOfPlan(prev, c, position)
			n.families[id] = m.Family
			n.profiles.keep(profileID{bucketID: id}, m.Profile)
		}
		if len(c.Meters) == 0 {
			continue
		}
		id := bucketOfPlan(prev, c, 0)
		for name, number := range lineProfiles(prev, uint16(i)) {
			n.profiles.keep(profileID{id, name}, number)
		}
	}
	return n
}

// bucketOfPlan returns what the buckets of a compiled meter are of.
func bucketOfPlan(plan *marker.Plan, c *marker.Class, position int) bucketID {
	m := &c.Meters[position]
	return bucketOf(c.Name, c.Count, position, m.Per, m.Prefix, profileName(plan, m.Profile))
}

// profileName returns the name of a compiled profile; of one that is not there, none.
func profileName(plan *marker.Plan, number uint32) string {
	if int(number) >= len(plan.Profiles) {
		return ""
	}
	return plan.Profiles[number].Name
}

// lineProfiles returns the profiles that the lines of a class's files of prefixes give, by name.
func lineProfiles(plan *marker.Plan, class uint16) map[string]uint32 {
	numbers := map[string]uint32{}
	seen := map[uint32]bool{0: true}
	for i := range plan.Rules {
		r := &plan.Rules[i]
		if r.Class != class {
			continue
		}
		for _, set := range []uint32{r.SrcSet, r.DstSet} {
			if seen[set] || int(set) > len(plan.Sets) {
				continue
			}
			seen[set] = true
			for _, e := range plan.Sets[set-1].Entries {
				if e.Profile != marker.NoProfile {
					numbers[profileName(plan, e.Profile)] = e.Profile
				}
			}
		}
	}
	return numbers
}

// familyOf returns the number in the keys of a meter's buckets.
func (n *numbers) familyOf(id bucketID) (uint16, error) {
	family, ok := n.families[id]
	if ok {
		return family, nil
	}
	if n.family > 0xfffe {
		return 0, fmt.Errorf("the table has seen %d kinds of bucket and can number no more: detach and attach again", n.family)
	}
	family = uint16(n.family)
	n.family++
	n.families[id] = family
	return family, nil
}
