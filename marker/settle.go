package marker

import "fmt"

// A change of policy, bucket by bucket.
//
// Policies are numbered: a bucket knows the generation that counted its tokens. When a newer one touches
// it, it is settled by its old profile up to the moment of the change, clamped to the new bursts, and
// from then on earns by the new profile. Two copies of the policy are there: that of a generation is its
// parity. Past a deadline that nobody confirmed, the copy before is in force again, as a generation of
// its own.

// generations are the two copies.
type generations struct {
	plans    [2]*Plan // by parity
	prefixes [2][]prefixTable
	active   uint32 // parity of the last one applied
	deadline uint64 // ns; 0 none
	changes  uint64 // of what is in force: Apply, Confirm
}

func newer(a, b uint32) uint32 {
	if int32(a-b) > 0 {
		return a
	}
	return b
}

// inForce is the policy in force at now: the active one; past the deadline the other, as the next
// generation.
func (g *generations) inForce(now uint64) (plan *Plan, prefixes []prefixTable, generation uint32) {
	parity := g.active
	generation = g.plans[parity].Generation
	if g.deadline != 0 && now >= g.deadline {
		parity ^= 1
		generation++
	}
	return g.plans[parity], g.prefixes[parity], generation
}

// since is when a generation took over from the one before.
func (g *generations) since(generation uint32) uint64 {
	if p := g.plans[generation&1]; p.Generation == generation {
		return p.Since
	}
	return g.deadline
}

// profile is a profile of a generation's plan.
func (g *generations) profile(profile, generation uint32) *Profile {
	if p := g.plans[generation&1]; p != nil && int(profile) < len(p.Profiles) {
		return &p.Profiles[profile]
	}
	return &goneProfile
}

// goneProfile stands where a plan has no profile.
var goneProfile = Profile{Gone: true}

func clampTo(b *Bucket, p *Profile) {
	b.Tc = min(b.Tc, p.CBS)
	b.Tx = min(b.Tx, p.XBS)
}

// bring brings a bucket from one generation to a later one, at most two on: Apply settles all buckets, so
// none is further behind. A profile keeps its number as long as its buckets live; one that is gone earns
// nothing and leaves them as they were, in case a deadline brings it back.
func (g *generations) bring(b *Bucket, profile, from, to uint32) uint32 {
	for i := 0; i < 2 && int32(to-from) > 0; i, from = i+1, from+1 {
		was, is := g.profile(profile, from), g.profile(profile, from+1)
		if !was.Gone {
			was.Refill(b, g.since(from+1))
		}
		if is.Gone && is.Moved != 0 {
			profile = is.Moved - 1
			is = g.profile(profile, from+1)
		}
		if !is.Gone {
			clampTo(b, is)
		}
	}
	return profile
}

// settle brings a slot to a generation and a profile: a change may give a key another one (its line in a prefix
// file says so), by which it earns since the change. NoProfile: the slot's own. What counts afterwards is the
// slot's profile and generation: they are not the packet's where the slot's generation is newer.
func (g *generations) settle(slot *Slot, profile, generation uint32) {
	if int32(generation-slot.Generation) > 0 {
		slot.Profile = g.bring(&slot.Bucket, slot.Profile, slot.Generation, generation)
		slot.Generation = generation
	}
	generation = slot.Generation
	if profile == NoProfile || slot.Profile == profile {
		return
	}
	is := g.profile(profile, generation)
	if is.Gone {
		return
	}
	clampTo(&slot.Bucket, is)
	slot.Profile = profile
}

// Apply changes the policy at now (ns): plan takes over from the one in force, and every bucket is
// settled. Past deadline (0: none) the one before is in force again, unless Confirm or Apply comes first.
// The plan's Generation and Since are set. Returns an error that wraps ErrPlan where the plan breaks its
// bounds or has another geometry than the table.
func (m *Mirror) Apply(plan *Plan, now, deadline uint64) error {
	if err := plan.Check(); err != nil {
		return err
	}
	if plan.Geometry != m.plan.Geometry {
		return fmt.Errorf("%w: the table has another shape, which cannot change", ErrPlan)
	}
	m.settleAll(now)
	old, _, generation := m.generations.inForce(now)
	m.clearStats(plan, old)
	plan.Generation, plan.Since = generation+1, now
	m.prepareOverflow(old, plan, generation, now)
	parity := plan.Generation & 1
	m.generations.plans[parity], m.generations.prefixes[parity] = plan, newPrefixTables(plan.Sets)
	m.generations.active, m.generations.deadline = parity, deadline
	m.generations.changes++
	m.plan = plan
	m.settleAll(now)
	return nil
}

// prepareOverflow makes the overflow buckets, full by the old plan, of profiles whose bursts change: a new
// key then starts with what it would have if it had been forgotten, full, before the change.
func (m *Mirror) prepareOverflow(old, plan *Plan, generation uint32, now uint64) {
	before, had := old.OverflowIDs()
	after, has := plan.OverflowIDs()
	for i, id := range before {
		if !had[i] || i >= len(after) || !has[i] || after[i] != id {
			continue
		}
		was, is := &old.Profiles[i], &plan.Profiles[i]
		if was.CBS != is.CBS || was.XBS != is.XBS {
			m.table.reserved(was.Overflow*SetSlots, was, id, uint32(i), generation, now)
		}
	}
}

// clearStats sets the counters of classes to 0 that the new plan has and the old one had not.
func (m *Mirror) clearStats(plan, old *Plan) {
	used := map[uint8]bool{}
	for i := range old.Classes {
		used[old.Classes[i].Stats] = true
	}
	for i := range plan.Classes {
		if stats := plan.Classes[i].Stats; !used[stats] {
			m.stats.Classes[stats] = ClassStats{}
		}
	}
}

// Confirm lifts the deadline of the last Apply, and reports whether there was one that had not passed at now
// (ns).
func (m *Mirror) Confirm(now uint64) bool {
	pending := m.generations.deadline > now
	if pending {
		m.generations.deadline = 0
		m.generations.changes++
	}
	return pending
}

// settleAll settles all buckets to the policy in force at now.
func (m *Mirror) settleAll(now uint64) {
	_, _, generation := m.generations.inForce(now)
	for i := range m.table.sets {
		s := &m.table.sets[i]
		for at := range s {
			if s.Tag(at) != 0 {
				m.generations.settle(&s[at], NoProfile, generation)
			}
		}
	}
}
