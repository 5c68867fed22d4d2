package policy

import (
	"fmt"

	"github.com/tricolor-policer/tricolor/marker"
)

// Which packets reach which class, by the rules alone. A rule is said to be taken by another only where
// that one alone takes all of it, so what is warned of is always true, but not all that is true is
// warned of.

// reach warns of classes that earlier ones hide, and of fragments that reach no class.
func (w *warner) reach() {
	rules := w.policy.splitRules()
	for i := range w.policy.Classes {
		c := &w.policy.Classes[i]
		if by, hidden := hiddenBy(rules, i); hidden {
			w.add(c.part(), "match", "%s: no packet reaches this one; put it first, or match less before it", w.hiders(by))
			continue
		}
		if fragmentsLost(rules, i) {
			w.add(c.part(), "match", "its packets' fragments have no ports, so they do not match it, and no other class takes all of them: "+
				"they pass unmetered; add a class with fragment: true behind it")
		}
	}
}

// hiders names the class, or the classes, that take everything before.
func (w *warner) hiders(by map[int]bool) string {
	for i := range by {
		if len(by) == 1 {
			return fmt.Sprintf("class %s takes all that it matches", w.policy.Classes[i].Name)
		}
	}
	return "earlier classes take all that it matches"
}

// splitRules returns each class's rules, each for one family.
func (p *Policy) splitRules() [][]marker.Rule {
	numbers := map[*Set]uint32{nil: 0}
	number := func(set *Set) uint32 {
		if _, known := numbers[set]; !known {
			numbers[set] = uint32(len(numbers))
		}
		return numbers[set]
	}
	all := make([][]marker.Rule, len(p.Classes))
	for i := range p.Classes {
		m := &p.Classes[i].Match
		for _, rule := range m.rules(uint16(i), number(m.SrcSet), number(m.DstSet)) {
			families := rule.Families
			for _, family := range []uint8{marker.FamilyIPv4, marker.FamilyIPv6, marker.FamilyNone} {
				if rule.Families = families & family; rule.Families != 0 {
					all[i] = append(all[i], rule)
				}
			}
		}
	}
	return all
}

// hiddenBy returns the earlier classes that take all that a class's rules match.
func hiddenBy(rules [][]marker.Rule, class int) (by map[int]bool, hidden bool) {
	by = map[int]bool{}
	for i := range rules[class] {
		taken := false
		for earlier := 0; earlier < class && !taken; earlier++ {
			if taken = takenBy(rules[earlier], &rules[class][i]); taken {
				by[earlier] = true
			}
		}
		if !taken {
			return nil, false
		}
	}
	return by, len(rules[class]) > 0
}

// fragmentsLost reports whether the fragments of a class that matches ports reach no class.
func fragmentsLost(rules [][]marker.Rule, class int) bool {
	for _, rule := range rules[class] {
		if !rule.Ports {
			continue
		}
		fragment := rule
		fragment.Ports, fragment.Fragment = false, marker.FragmentYes
		fragment.Sport, fragment.Dport = [2]uint16{0, 0xffff}, [2]uint16{0, 0xffff}
		fragment.Proto = protosOf(&rule)
		taken := false
		for other := range rules {
			taken = taken || takenBy(rules[other], &fragment)
		}
		if !taken {
			return true
		}
	}
	return false
}

// takenBy reports whether one of the rules takes all that a rule matches.
func takenBy(rules []marker.Rule, rule *marker.Rule) bool {
	for i := range rules {
		if takes(&rules[i], rule) {
			return true
		}
	}
	return false
}

// takes reports whether a takes all that b matches.
func takes(a, b *marker.Rule) bool {
	within := func(a, b [2]uint16) bool { return a[0] <= b[0] && b[1] <= a[1] }
	ip := b.Families&marker.FamilyIP != 0
	return b.Families&^a.Families == 0 &&
		b.Fragment&^a.Fragment == 0 &&
		holds(a.Src, b.Src) && holds(a.Dst, b.Dst) &&
		(a.SrcSet == 0 || a.SrcSet == b.SrcSet) && (a.DstSet == 0 || a.DstSet == b.DstSet) &&
		within(a.Sport, b.Sport) && within(a.Dport, b.Dport) && (b.Ports || !a.Ports) &&
		within(a.VLAN, b.VLAN) &&
		(a.MarkMask == 0 || a.MarkMask == b.MarkMask && a.Mark == b.Mark) &&
		(!ip || b.DSCP&^a.DSCP == 0 && protosWithin(protosOf(a), protosOf(b)))
}

// holds reports whether every address of b is one of a.
func holds(a, b marker.AddressMatch) bool {
	for i := range a.Mask {
		if a.Mask[i]&^b.Mask[i] != 0 || b.Want[i]&a.Mask[i] != a.Want[i] {
			return false
		}
	}
	return true
}

// protosOf are the protocols that a rule can match: with ports, those that have some.
func protosOf(r *marker.Rule) [4]uint64 {
	protos := r.Proto
	if r.Ports {
		for n := range 256 {
			if !hasPorts(uint8(n)) {
				protos[n/64] &^= 1 << (n % 64)
			}
		}
	}
	return protos
}

func protosWithin(a, b [4]uint64) bool {
	for i := range a {
		if b[i]&^a[i] != 0 {
			return false
		}
	}
	return true
}
