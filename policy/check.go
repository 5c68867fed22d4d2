package policy

import (
	"fmt"
	"strings"

	"github.com/tricolor-policer/tricolor/marker"
)

// MaxOverhead bounds Class.Overhead, either way.
const MaxOverhead = 65535

// addrBits are the lengths of an IPv4 and an IPv6 address.
var addrBits = [2]int{32, 128}

// part returns where the profile is written.
func (p *Profile) part() part { return part{"profile " + p.Name, p.Places} }

// part returns where the class is written.
func (c *Class) part() part { return part{"class " + c.Name, c.Places} }

// meterPart returns where a meter of the class is written.
func (c *Class) meterPart(position int) part {
	at := c.part()
	if len(c.Meters) > 1 {
		at.name += fmt.Sprintf(", meter %d", position+1)
	}
	if c.Meters[position].Places != nil {
		at.places = c.Meters[position].Places
	}
	return at
}

// check returns all that is wrong with the policy.
func (p *Policy) check() (f faults) {
	whole := part{"", p.Places}
	if _, err := marker.NewGeometry(p.Flows, [marker.MaxChain]bool{true}, 0); err != nil {
		f.addAll(whole, err)
	}
	if p.Malformed != (marker.Action{}) && p.Malformed != (marker.Action{Verbs: marker.VerbDrop}) {
		f.add(whole, "malformed", fmt.Sprintf("%v is no verb for it: say drop or pass", p.Malformed))
	}
	taken := map[string]bool{}
	for i := range p.Profiles {
		profile := &p.Profiles[i]
		if taken[profile.Name] {
			f.add(profile.part(), "", "the name is taken: every profile needs its own")
		}
		taken[profile.Name] = true
		profile.check(&f)
	}
	for i := range p.Classes {
		class := &p.Classes[i]
		if p.class(class.Name) != class {
			f.add(class.part(), "name", "the name is taken: every class needs its own")
		}
		if i == marker.MaxClasses {
			f.add(class.part(), "name", fmt.Sprintf("this is a class too many: a policy has at most %d", marker.MaxClasses))
		}
		p.checkClass(&f, class)
	}
	p.checkInterface(&f)
	p.checkRules(&f)
	return f
}

// inPackets gives a meter's refusals, which speak of bytes, the unit of a profile that counts packets.
var inPackets = strings.NewReplacer(" B/s", " pps", " B ", " pkt ")

func (p *Profile) check(f *faults) {
	_, err := p.Compile()
	if err == nil {
		return
	}
	first := len(*f)
	f.addAll(p.part(), err)
	if p.Packets {
		for _, fault := range (*f)[first:] {
			fault.Text = inPackets.Replace(fault.Text)
		}
	}
}

func (p *Policy) checkClass(f *faults, c *Class) {
	at := c.part()
	if c.Count > marker.CountPackets {
		f.add(at, "count", fmt.Sprintf("%v is no unit to count: say l3, l2, l1 or packets", c.Count))
	}
	if c.Overhead < -MaxOverhead || c.Overhead > MaxOverhead {
		f.add(at, "overhead", fmt.Sprintf("%+d is out of range: from -%d to +%d", c.Overhead, MaxOverhead, MaxOverhead))
	}
	for color, action := range c.Actions {
		if action.Verbs >= marker.VerbPriority<<1 || action.DSCP > 63 {
			f.add(at, marker.Color(color).String(), fmt.Sprintf("verbs %#x with DSCP %d: %s", action.Verbs, action.DSCP, verbHelp))
		}
	}
	c.Match.check(f, c)
	switch n := len(c.Meters); {
	case n == 0:
		f.add(at, "meters", "a class needs a meter: name a profile, and per whom it has a bucket")
	case n > marker.MaxChain:
		f.add(at, "meters", fmt.Sprintf("too many: a chain has at most %d, narrow to wide", marker.MaxChain))
	}
	for i := range c.Meters {
		p.checkMeter(f, c, i)
	}
	c.checkSets(f, p)
}

func (p *Policy) checkMeter(f *faults, c *Class, position int) {
	m, at := &c.Meters[position], c.meterPart(position)
	if m.Per > marker.PerInterface {
		f.add(at, "per", fmt.Sprintf("%v shares no bucket: %s", m.Per, perHelp))
	}
	for family, n := range m.Prefix {
		if n < 0 || n > addrBits[family] {
			f.add(at, "per", fmt.Sprintf("/%d is no prefix of an IPv%d address: from 0 to %d", n, 4+2*family, addrBits[family]))
		}
	}
	if c.Match.Families&marker.FamilyNone != 0 && m.Per != marker.PerVLAN && m.Per < marker.PerClass {
		f.add(at, "per", fmt.Sprintf("%v needs an address, and what ip: none matches has none: say vlan, class or interface", m.Per))
	}
	switch profile := p.profile(m.Profile); {
	case profile == nil:
		f.add(at, "profile", fmt.Sprintf("%q is not defined%s", m.Profile, p.suggestProfile(m.Profile)))
	case profile.Packets != (c.Count == marker.CountPackets):
		where := at
		if _, written := c.Places["count"]; written {
			where = c.part()
		}
		f.add(where, "count", misfitText(c.Count, profile))
		(*f)[len(*f)-1].unit = profile.Name
	}
}

// misfitText refuses a profile in another unit than its class counts.
func misfitText(count marker.Count, profile *Profile) string {
	return fmt.Sprintf("%v does not fit profile %s, which is written in %s", count, profile.Name, unitName(profile.Packets))
}

// checkInterface holds the buckets of the whole interface to one unit each, and to one place in a chain.
func (p *Policy) checkInterface(f *faults) {
	first := map[string]*Class{}
	for i := range p.Classes {
		c, here := &p.Classes[i], map[string]bool{}
		for position := range c.Meters {
			m := &c.Meters[position]
			if m.Per != marker.PerInterface {
				continue
			}
			at := c.meterPart(position)
			if here[m.Profile] {
				f.add(at, "per", fmt.Sprintf("the interface's bucket of profile %s stands twice in the chain: a packet spends from it once; leave one out", m.Profile))
			}
			here[m.Profile] = true
			if other := first[m.Profile]; other == nil {
				first[m.Profile] = c
			} else if other.Count != c.Count {
				f.add(at, "per", fmt.Sprintf("class %s shares the interface's bucket of profile %s and counts %v, this one %v: count the same, or give this class a profile of its own",
					other.Name, m.Profile, other.Count, c.Count))
			}
		}
	}
}

// suggestProfile names the profile that was probably meant.
func (p *Policy) suggestProfile(name string) string {
	names := make([]string, len(p.Profiles))
	for i := range p.Profiles {
		names[i] = p.Profiles[i].Name
	}
	if len(names) == 0 {
		return ": define it under profiles"
	}
	return suggest(name, names)
}
