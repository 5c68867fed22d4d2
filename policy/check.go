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

// check returns all that is wrong with the policy.
func (p *Policy) check() (f faults) {
	if _, err := marker.NewGeometry(p.Flows, 0, 0); err != nil {
		f.addAll("", err)
	}
	if p.Malformed != (marker.Action{}) && p.Malformed != (marker.Action{Verbs: marker.VerbDrop}) {
		f.add("", "malformed", fmt.Sprintf("%v is no verb for it: say drop or pass", p.Malformed))
	}
	for i := range p.Profiles {
		profile := &p.Profiles[i]
		if p.profile(profile.Name) != profile {
			f.add("profile "+profile.Name, "", "the name is taken: every profile needs its own")
		}
		profile.check(&f)
	}
	names := map[string]bool{}
	for i := range p.Classes {
		class := &p.Classes[i]
		if names[class.Name] {
			f.add("class "+class.Name, "", "the name is taken: every class needs its own")
		}
		names[class.Name] = true
		p.checkClass(&f, class)
	}
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
	f.addAll("profile "+p.Name, err)
	if p.Packets {
		for _, fault := range (*f)[first:] {
			fault.text = inPackets.Replace(fault.text)
		}
	}
}

func (p *Policy) checkClass(f *faults, c *Class) {
	part := "class " + c.Name
	if c.Count > marker.CountPackets {
		f.add(part, "count", fmt.Sprintf("%v is no unit to count: say l3, l2, l1 or packets", c.Count))
	}
	if c.Overhead < -MaxOverhead || c.Overhead > MaxOverhead {
		f.add(part, "overhead", fmt.Sprintf("%+d is out of range: from -%d to +%d", c.Overhead, MaxOverhead, MaxOverhead))
	}
	for color, action := range c.Actions {
		if action.Verbs&^(marker.VerbDrop|marker.VerbDSCP) != 0 || action.DSCP > 63 {
			f.add(part, marker.Color(color).String(), fmt.Sprintf("verbs %#x with DSCP %d: %s", action.Verbs, action.DSCP, verbHelp))
		}
	}
	for _, m := range c.Meters {
		if err := supported(m.Per); err != nil {
			f.add(part, "per", err.Error())
		}
		for family, n := range m.Prefix {
			if n < 0 || n > addrBits[family] {
				f.add(part, "per", fmt.Sprintf("/%d is no prefix of an IPv%d address: from 0 to %d", n, 4+2*family, addrBits[family]))
			}
		}
		switch profile := p.profile(m.Profile); {
		case profile == nil:
			f.add(part, "profile", fmt.Sprintf("%q is not defined", m.Profile))
		case profile.Packets != (c.Count == marker.CountPackets):
			f.add(part, "count", fmt.Sprintf("%v does not fit profile %s, which is written in %s", c.Count, m.Profile, unitName(profile.Packets)))
		}
	}
}

// unitName is what rates and bursts count.
func unitName(packets bool) string {
	if packets {
		return "packets"
	}
	return "bytes"
}
