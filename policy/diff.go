package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/tricolor-policer/tricolor/marker"
)

// ChangeKind is what becomes of a part of a policy.
type ChangeKind uint8

// What becomes of a part of a policy.
const (
	Kept    ChangeKind = iota
	Changed            // goes on with its buckets and counters, but otherwise
	New                // its buckets start full
	Gone
)

var changeNames = []string{"kept", "changed", "new", "gone"}

// String returns the kind's name.
func (k ChangeKind) String() string {
	if int(k) < len(changeNames) {
		return changeNames[k]
	}
	return fmt.Sprintf("change(%d)", uint8(k))
}

// Change is what becomes of a class, of a meter of its chain, or of the whole.
type Change struct {
	Part string // "class voice", "class voice, meter 1 (per flow)", "malformed", "order of classes"
	Kind ChangeKind
	Text string // what is changed, and what becomes of buckets and counters; empty where Kept
	What string // the part of Text that is of the policy itself, and not of buckets and counters
}

// String returns the change in a line: `class voice: changed: green pass → dscp=af11`.
func (c Change) String() string {
	s := c.Part + ": " + c.Kind.String()
	if c.Text != "" {
		s += ": " + c.Text
	}
	return s
}

// Unchanged reports whether nothing changes.
func Unchanged(changes []Change) bool {
	return !slices.ContainsFunc(changes, func(c Change) bool { return c.Kind != Kept })
}

// Diff says what becomes of each class and meter where next takes over from prev, and of its buckets:
// next is a plan that was compiled after prev. Classes come in the order of next, then those that are
// gone.
func Diff(prev, next *marker.Plan) []Change {
	d := differ{prev: prev, next: next}
	if prev.Malformed != next.Malformed {
		d.add("malformed", Changed, fmt.Sprintf("%v → %v", prev.Malformed, next.Malformed), "")
	}
	if a, b := common(prev, next), common(next, prev); !slices.Equal(a, b) {
		d.add("order of classes", Changed, fmt.Sprintf("%s → %s: the first that matches takes a packet",
			strings.Join(a, ", "), strings.Join(b, ", ")), "")
	}
	for i := range next.Classes {
		d.class(&next.Classes[i])
	}
	for i := range prev.Classes {
		if c := &prev.Classes[i]; classOf(next, c.Name) == nil {
			d.add("class "+c.Name, Gone, "its packets go to a later class that matches, else pass unmetered", "its buckets and counters are lost")
		}
	}
	return d.changes
}

// classOf returns the class of a name, or nil.
func classOf(plan *marker.Plan, name string) *marker.Class {
	for i := range plan.Classes {
		if plan.Classes[i].Name == name {
			return &plan.Classes[i]
		}
	}
	return nil
}

// common returns the names of the plan's classes that the other has too.
func common(plan, other *marker.Plan) (names []string) {
	for i := range plan.Classes {
		if name := plan.Classes[i].Name; classOf(other, name) != nil {
			names = append(names, name)
		}
	}
	return names
}

type differ struct {
	prev, next *marker.Plan
	changes    []Change
}

// add adds a change: what the policy changes, and what becomes of buckets and counters.
func (d *differ) add(part string, kind ChangeKind, what, fate string) {
	text := what
	switch {
	case what == "":
		text = fate
	case kind == New:
		text = fate + ": " + what
	case kind == Gone && fate != "":
		text = fate + "; " + what
	case fate != "":
		text = what + "; " + fate
	}
	d.changes = append(d.changes, Change{part, kind, text, what})
}

func (d *differ) class(next *marker.Class) {
	part := "class " + next.Name
	prev := classOf(d.prev, next.Name)
	if prev == nil {
		d.add(part, New, "", "its counters start at 0")
	} else if what := d.classChanges(prev, next); len(what) > 0 {
		d.add(part, Changed, strings.Join(what, "; "), "")
	} else {
		d.add(part, Kept, "", "")
	}
	for position := range next.Meters {
		d.meter(part, prev, next, position)
	}
	if prev == nil {
		return
	}
	for position := range prev.Meters {
		id, name := bucketOfPlan(d.prev, prev, position), meterName(part, position, &prev.Meters[position])
		switch {
		case meterOf(d.next, next, id) != nil:
		case find(d.next, id) != nil:
			d.add(name, Gone, "the class leaves it; other classes still share the bucket", "")
		default:
			d.add(name, Gone, "", "its buckets are lost")
		}
	}
}

// classChanges says in what two classes of a name differ, but for their meters.
func (d *differ) classChanges(prev, next *marker.Class) (what []string) {
	differs := func(field, a, b string) {
		if a != b {
			what = append(what, fmt.Sprintf("%s %s → %s", field, a, b))
		}
	}
	before, after := classRules(d.prev, prev), classRules(d.next, next)
	if !slices.EqualFunc(before, after, d.sameRule) {
		what = append(what, "it matches other packets")
	} else if lines := d.movedLines(before, after); lines > 0 {
		what = append(what, fmt.Sprintf("%d of its lines have another profile", lines))
	}
	differs("count", prev.Count.String(), next.Count.String())
	differs("overhead", fmt.Sprintf("%+d", prev.Overhead), fmt.Sprintf("%+d", next.Overhead))
	if prev.Arrival != next.Arrival {
		what = append(what, "other DSCPs arrive yellow or red")
	}
	for color := range prev.Actions {
		differs(marker.Color(color).String(), prev.Actions[color].String(), next.Actions[color].String())
	}
	return what
}

// classRules returns a class's rules.
func classRules(plan *marker.Plan, c *marker.Class) (rules []marker.Rule) {
	for _, r := range plan.Rules {
		if int(r.Class) < len(plan.Classes) && &plan.Classes[r.Class] == c {
			rules = append(rules, r)
		}
	}
	return rules
}

// sameRule reports whether a rule of prev and one of next match the same packets of the same class.
func (d *differ) sameRule(a, b marker.Rule) bool {
	same := d.sameSet(a.SrcSet, b.SrcSet) && d.sameSet(a.DstSet, b.DstSet)
	a.Class, a.SrcSet, a.DstSet = b.Class, b.SrcSet, b.DstSet
	return same && a == b
}

func (d *differ) sameSet(a, b uint32) bool {
	if a == 0 || b == 0 || int(a) > len(d.prev.Sets) || int(b) > len(d.next.Sets) {
		return a == b
	}
	x, y := linesOf(&d.prev.Sets[a-1]), linesOf(&d.next.Sets[b-1])
	for prefix := range x {
		if _, ok := y[prefix]; !ok {
			return false
		}
	}
	return len(x) == len(y)
}

// movedLines counts the lines of files that stay and give another profile than before. The rules match the same
// packets.
func (d *differ) movedLines(before, after []marker.Rule) (n int) {
	counted := map[uint32]bool{0: true}
	for i := range before {
		for _, sets := range [][2]uint32{{before[i].SrcSet, after[i].SrcSet}, {before[i].DstSet, after[i].DstSet}} {
			if counted[sets[0]] {
				continue
			}
			counted[sets[0]] = true
			y := linesOf(&d.next.Sets[sets[1]-1])
			for prefix, profile := range linesOf(&d.prev.Sets[sets[0]-1]) {
				if profile != y[prefix] {
					n++
				}
			}
		}
	}
	return n
}

// linesOf returns a set's profiles by prefix, in whatever order they stand.
func linesOf(s *marker.PrefixSet) map[netip.Prefix]uint32 {
	lines := make(map[netip.Prefix]uint32, len(s.Entries))
	for _, e := range s.Entries {
		lines[e.Prefix] = e.Profile
	}
	return lines
}

// find returns the meter of the plan whose buckets these are, or nil.
func find(plan *marker.Plan, id bucketID) *marker.Meter {
	for i := range plan.Classes {
		if m := meterOf(plan, &plan.Classes[i], id); m != nil {
			return m
		}
	}
	return nil
}

// meterOf returns the meter of the class whose buckets these are, or nil.
func meterOf(plan *marker.Plan, c *marker.Class, id bucketID) *marker.Meter {
	for position := range c.Meters {
		if bucketOfPlan(plan, c, position) == id {
			return &c.Meters[position]
		}
	}
	return nil
}

func meterName(part string, position int, m *marker.Meter) string {
	return fmt.Sprintf("%s, meter %d (%s)", part, position+1, describePer(m))
}

func (d *differ) meter(part string, prevClass, nextClass *marker.Class, position int) {
	next := &nextClass.Meters[position]
	name := meterName(part, position, next)
	id := bucketOfPlan(d.next, nextClass, position)
	prev := find(d.prev, id)
	if prev == nil {
		var why string
		if prevClass != nil && position < len(prevClass.Meters) {
			why = d.whyNew(prevClass, nextClass, position)
		}
		d.add(name, New, why, "its buckets start full")
		return
	}
	var what []string
	packets := nextClass.Count == marker.CountPackets
	if a, b := describeProfile(d.prev, prev, packets), describeProfile(d.next, next, packets); a != b {
		what = append(what, a+" → "+b)
	}
	if position == 0 && prevClass != nil {
		what = append(what, d.lineChanges(prevClass, nextClass, packets)...)
	}
	if prevClass == nil || meterOf(d.prev, prevClass, id) == nil {
		what = append(what, "the class joins the bucket of others")
	}
	if len(what) > 0 {
		d.add(name, Changed, strings.Join(what, "; "), "its buckets keep their tokens, up to the new bursts")
		return
	}
	d.add(name, Kept, "", "")
}

// whyNew says why a meter is not the one that stood at its place.
func (d *differ) whyNew(prevClass, nextClass *marker.Class, position int) string {
	a, b := &prevClass.Meters[position], &nextClass.Meters[position]
	switch {
	case prevClass.Count != nextClass.Count:
		return fmt.Sprintf("count %v → %v", prevClass.Count, nextClass.Count)
	case describePer(a) != describePer(b):
		return fmt.Sprintf("%s → %s", describePer(a), describePer(b))
	default:
		return "the interface's bucket is that of another profile"
	}
}

// lineChanges says how the profiles of a class's files of prefixes differ.
func (d *differ) lineChanges(prevClass, nextClass *marker.Class, packets bool) (what []string) {
	prev, next := d.lines(d.prev, prevClass), d.lines(d.next, nextClass)
	names := make([]string, 0, len(next))
	for name := range next {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		old, had := prev[name]
		if !had {
			continue // the class matches otherwise, which is told
		}
		a := describeProfile(d.prev, &marker.Meter{Profile: old}, packets)
		if b := describeProfile(d.next, &marker.Meter{Profile: next[name]}, packets); a != b {
			what = append(what, fmt.Sprintf("%s: %s → %s", name, a, b))
		}
	}
	return what
}

func (d *differ) lines(plan *marker.Plan, c *marker.Class) map[string]uint32 {
	for i := range plan.Classes {
		if &plan.Classes[i] == c {
			return lineProfiles(plan, uint16(i))
		}
	}
	return nil
}
