package marker

import (
	"errors"
	"fmt"
)

// A table that was saved and is to be policed with again. It comes from a file: nothing in it is trusted.

// ErrSaved is what every refusal of a saved plan or table wraps.
var ErrSaved = errors.New("saved state that no policer wrote")

// CheckSaved holds a plan that was saved to all that Check does, and to what compiling a policy gives.
// Returns an error that wraps ErrSaved or ErrPlan.
func (p *Plan) CheckSaved() error {
	g := p.Geometry
	for _, s := range g.Stages {
		if uint64(s.Mask) >= MaxFlows/SetSlots {
			return fmt.Errorf("%w: a table of more than %d slots", ErrSaved, MaxFlows)
		}
	}
	if err := p.Check(); err != nil {
		return err
	}
	if p.Malformed.Verbs&^VerbDrop != 0 {
		return fmt.Errorf("%w: malformed packets: verbs %#x", ErrSaved, p.Malformed.Verbs)
	}
	for i := range p.Profiles {
		if err := p.Profiles[i].checkSaved(len(p.Profiles)); err != nil {
			return fmt.Errorf("%w: profile %d: %w", ErrSaved, i, err)
		}
	}
	if len(p.Sets) > 2*MaxRules {
		return fmt.Errorf("%w: %d prefix sets", ErrSaved, len(p.Sets))
	}
	for _, s := range p.Sets {
		for _, e := range s.Entries {
			if !e.Prefix.IsValid() || e.Prefix != e.Prefix.Masked() {
				return fmt.Errorf("%w: set %q: %v is no prefix", ErrSaved, s.Name, e.Prefix)
			}
		}
	}
	for i := range p.Classes {
		if err := p.Classes[i].checkSaved(); err != nil {
			return fmt.Errorf("%w: class %q: %w", ErrSaved, p.Classes[i].Name, err)
		}
	}
	return nil
}

// checkSaved compares a profile with what compiling its parameters gives.
func (p *Profile) checkSaved(profiles int) error {
	if int64(p.Moved) > int64(profiles) {
		return fmt.Errorf("its buckets go on with profile %d of %d", p.Moved-1, profiles)
	}
	if p.Gone {
		return nil // nothing earns by it
	}
	params := Params{Meter: p.Meter, Aware: p.Aware, Coupling: p.Coupling, CIR: p.CIR, CBS: p.CBS / Nano}
	switch p.Meter {
	case SRTCM:
		params.EBS = p.XBS / Nano
	case TRTCM:
		params.PIR, params.PBS = p.XIR, p.XBS/Nano
	case RFC4115:
		params.EIR, params.EBS = p.XIR, p.XBS/Nano
	}
	want, err := params.Compile()
	if err != nil {
		return err
	}
	want.Overflow, want.Moved, want.Name = p.Overflow, p.Moved, p.Name
	if *p != want {
		return errors.New("it is not what its parameters give")
	}
	return nil
}

// checkSaved compares a class's meters with what compiling them gives.
func (c *Class) checkSaved() error {
	const verbs = VerbDrop | VerbDSCP | VerbCE | VerbMark | VerbPriority
	if c.Count > CountPackets {
		return fmt.Errorf("it counts %v", c.Count)
	}
	for color, a := range c.Actions {
		if a.Verbs&^verbs != 0 {
			return fmt.Errorf("%v: verbs %#x", Color(color), a.Verbs)
		}
	}
	for i, m := range c.Meters {
		if m.Per > PerInterface || m.Prefix[0] > 32 || m.Prefix[1] > 128 {
			return fmt.Errorf("meter %d: per %v, prefixes %v", i+1, m.Per, m.Prefix)
		}
		want := NewMeter(m.Family, i, m.Per, [2]int{int(m.Prefix[0]), int(m.Prefix[1])})
		want.Profile, want.Reserved = m.Profile, m.Reserved
		if m != want {
			return fmt.Errorf("meter %d: its key is not that of per %v", i+1, m.Per)
		}
	}
	return nil
}

// CheckSet holds set i of a whole table that was saved at now (ns) to what the policer keeps: each key in one
// slot, where its hash has it, and no time to come. Tokens beyond a burst are cut off. Returns an error
// that wraps ErrSaved. The plan must have passed CheckSaved, and have the geometry of sets.
func (p *Plan) CheckSet(seeds *Seeds, sets []Set, i uint32, now uint64) error {
	s := &sets[i]
	if *s.forgot() > now {
		return fmt.Errorf("%w: set %d forgot a bucket at %d ns, after it was saved", ErrSaved, i, *s.forgot())
	}
	position := p.Geometry.Position(i)
	for at := range s {
		tag := s.Tag(at)
		if tag == 0 {
			continue
		}
		slot := &s[at]
		if slot.Profile >= p.Geometry.Profiles || slot.Generation != p.Generation || slot.Bucket.Last > now {
			return fmt.Errorf("%w: set %d, slot %d: profile %d, generation %d, last %d ns", ErrSaved, i, at, slot.Profile, slot.Generation, slot.Bucket.Last)
		}
		if int(slot.Profile) < len(p.Profiles) && !p.Profiles[slot.Profile].Gone {
			clampTo(&slot.Bucket, &p.Profiles[slot.Profile])
		}
		if position < 0 {
			if at != 0 || tag != 1 || slot.Key != (Key{4: slot.Key[4]}) {
				return fmt.Errorf("%w: set %d, slot %d: no key of a reserved set", ErrSaved, i, at)
			}
			continue
		}
		fields := slot.Key.Fields()
		hash := seeds.Hash(&slot.Key)
		stage := p.Geometry.Stages[position]
		left, right := stage.Base+hashLeft(hash, stage.Mask), stage.Base+hashRight(hash, stage.Mask)
		if fields.Per() >= PerClass || fields.Position() != position || hashTag(hash) != tag || i != left && i != right {
			return fmt.Errorf("%w: set %d, slot %d: its key belongs elsewhere", ErrSaved, i, at)
		}
		if s.find(&slot.Key, tag) != at || i == left && sets[right].find(&slot.Key, tag) >= 0 {
			return fmt.Errorf("%w: set %d, slot %d: its key has another slot", ErrSaved, i, at)
		}
	}
	return nil
}

// RebaseSet moves a set to another clock, of which nothing is known but that it is now (ns): every bucket earns
// up to then (ns by the old clock), when it was saved, and from now on; nothing between.
func (p *Plan) RebaseSet(s *Set, then, now uint64) {
	for at := range s {
		if s.Tag(at) == 0 {
			continue
		}
		slot := &s[at]
		if int(slot.Profile) < len(p.Profiles) && !p.Profiles[slot.Profile].Gone {
			p.Profiles[slot.Profile].Refill(&slot.Bucket, then)
		}
		slot.Bucket.Last = now
	}
	*s.forgot() = now
}

// Drain has every bucket that the plan will make start without a token at since (ns): new keys start with
// what their overflow bucket holds, and that begins empty. The table must be empty.
func (p *Plan) Drain(sets []Set, since uint64) {
	drain := func(set uint32, id uint64, profile uint32) {
		slot := &sets[set][0]
		slot.init(&Key{4: id}, profile, p.Generation)
		slot.Bucket = Bucket{Last: since}
		slot.Tags = 1
	}
	ids, keyed := p.OverflowIDs()
	for i := range p.Profiles {
		if keyed[i] {
			drain(p.Profiles[i].Overflow, ids[i], uint32(i))
		}
	}
	for _, c := range p.Classes {
		for _, m := range c.Meters {
			if m.Per >= PerClass {
				drain(m.Reserved, m.ID[0], m.Profile)
			}
		}
	}
}
