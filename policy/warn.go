package policy

import (
	"fmt"
	"slices"

	"github.com/tricolor-policer/tricolor/internal/units"
	"github.com/tricolor-policer/tricolor/marker"
)

// Bytes of a frame around the IP packet on Ethernet, as count: l2 and l1 have them.
const (
	etherHeader = 14
	etherMin    = 60
	etherL1     = 24
)

// Link is what is known of the interface that a policy is for. 0: unknown, or none.
type Link struct {
	MTU     int    // bytes of an IP packet
	Largest int    // IP bytes of a super-packet (GRO, GSO) with every segment's headers
	Speed   uint64 // bytes per second
}

// Warning is what is legal in a policy and yet hardly meant.
type Warning struct {
	Place Place
	Part  string // "class voice", "profile gold"
	Text  string // what happens if it is ignored, and what would be right
}

// String returns `voice.yaml:7:12: class voice: cbs 100 B is below …`.
func (w Warning) String() string {
	s := w.Part + ": " + w.Text
	if place := w.Place.String(); place != "" {
		return place + ": " + s
	}
	return s
}

// Warnings are those of Warn as lines, for a link of which no speed is known.
func (p *Policy) Warnings(mtu, largest int) []string {
	var lines []string
	for _, w := range p.Warn(Link{MTU: mtu, Largest: largest}) {
		lines = append(lines, w.String())
	}
	return lines
}

// Warn says what is legal in the policy and yet hardly meant, on such a link.
func (p *Policy) Warn(link Link) []Warning {
	w := warner{policy: p, link: link}
	used := map[string]bool{}
	for i := range p.Classes {
		c := &p.Classes[i]
		w.class(c)
		for _, name := range c.profileNames() {
			used[name] = true
			if profile := p.profile(name); profile != nil {
				w.profile(c, profile)
			}
		}
	}
	for i := range p.Profiles {
		if profile := &p.Profiles[i]; !used[profile.Name] {
			w.add(profile.part(), "", "no class uses it: it polices nothing; name it in a class's meters, or leave it out")
		}
	}
	w.reach()
	return w.warnings
}

// profileNames returns the profiles that the class uses, each once.
func (c *Class) profileNames() (names []string) {
	for _, m := range c.Meters {
		names = append(names, m.Profile)
	}
	for _, set := range []*Set{c.Match.SrcSet, c.Match.DstSet} {
		lines := set.profiles()
		names = append(names, lines...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// warner collects warnings.
type warner struct {
	policy   *Policy
	link     Link
	warnings []Warning
}

func (w *warner) add(at part, field, format string, args ...any) {
	w.warnings = append(w.warnings, Warning{at.places.of([]string{field}), at.name, fmt.Sprintf(format, args...)})
}

func (w *warner) class(c *Class) {
	if c.Count == marker.CountPackets && c.Overhead < 0 {
		w.add(c.part(), "overhead", "overhead %d takes a packet's whole cost away: nothing is ever spent", c.Overhead)
	}
	if _, given := c.Places["arrival"]; given && !w.policy.aware(c) {
		w.add(c.part(), "arrival", "no meter of the class is aware: the arrival table changes nothing; set color: aware in its profile, or leave the table out")
	}
}

// aware reports whether a meter of the class looks at the arrival colour.
func (p *Policy) aware(c *Class) bool {
	return slices.ContainsFunc(c.profileNames(), func(name string) bool {
		profile := p.profile(name)
		return profile != nil && profile.Aware
	})
}

// profile warns of a profile as a class uses it: at the parameter, where the policy is a file.
func (w *warner) profile(c *Class, p *Profile) {
	at := part{c.part().name, p.Places}
	if p.Meter == marker.RFC4115 && p.CIR == 0 && p.CBS > 0 {
		w.add(at, "cbs", "cir 0 never refills cbs (%s): once spent, no packet of that bucket is green again; set cbs to 0, or give cir a rate",
			p.size(p.CBS))
	}
	for _, rate := range []struct {
		name      string
		perSecond uint64
	}{{"cir", p.CIR}, {"pir", p.PIR}, {"eir", p.EIR}} {
		if !p.Packets && w.link.Speed > 0 && rate.perSecond > w.link.Speed {
			w.add(at, rate.name, "%s %s is over the link's speed, %s: the link never offers as much, so this bucket stops nothing; lower %s",
				rate.name, units.FormatRate(rate.perSecond, false), units.FormatRate(w.link.Speed, false), rate.name)
		}
	}
	cost, super := c.largestCost(w.link.MTU, w.link.MTU), c.largestCost(w.link.MTU, w.link.Largest)
	for _, b := range p.bursts() {
		switch {
		case b.size == 0:
		case b.size < cost:
			w.add(at, b.name, "%s %s is below what the largest packet of the interface costs, %s: such a packet is %s; raise %s",
				b.name, p.size(b.size), p.size(cost), b.consequence, b.name)
		case b.size < super:
			w.add(at, b.name, "%s %s is below what the largest super-packet (GRO, GSO) of the interface costs, %s: such a packet is %s, "+
				"all its segments; raise %s, or turn GRO and GSO off",
				b.name, p.size(b.size), p.size(super), b.consequence, b.name)
		}
	}
}

func (p *Profile) size(n uint64) string {
	return units.Size{Amount: n, Packets: p.Packets}.String()
}

// namedBurst is a burst and what becomes of a packet that costs more than it.
type namedBurst struct {
	name        string
	size        uint64
	consequence string
}

func (p *Profile) bursts() []namedBurst {
	const red = "always red"
	switch p.Meter {
	case marker.Token:
		return []namedBurst{{"cbs", p.CBS, red}}
	case marker.TRTCM:
		return []namedBurst{{"cbs", p.CBS, "never green"}, {"pbs", p.PBS, red}}
	default:
		// What does not fit one bucket may fit the other; what is over the larger fits neither.
		c, e := namedBurst{"cbs", p.CBS, "never green"}, namedBurst{"ebs", p.EBS, "never yellow"}
		if c.size >= e.size {
			c.consequence = red
		}
		if e.size >= c.size {
			e.consequence = red
		}
		return []namedBurst{c, e}
	}
}

// largestCost is what ip bytes cost on an Ethernet, in as many packets as it takes at the MTU.
func (c *Class) largestCost(mtu, ip int) uint64 {
	if ip <= 0 {
		return 0
	}
	bytes, segments := min(int64(ip), marker.CostMax), int64(1)
	if mtu > 0 {
		segments = (bytes + int64(mtu) - 1) / int64(mtu)
	}
	var cost int64
	switch c.Count {
	case marker.CountL2:
		cost = max(bytes+segments*etherHeader, etherMin)
	case marker.CountL1:
		cost = max(bytes+segments*etherHeader, etherMin) + segments*etherL1
	case marker.CountPackets:
		cost = segments
	default:
		cost = bytes
	}
	return uint64(min(max(cost+segments*c.Overhead, 0), marker.CostMax))
}
