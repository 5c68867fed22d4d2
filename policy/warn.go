package policy

import (
	"fmt"

	"github.com/tricolor-policer/tricolor/internal/units"
	"github.com/tricolor-policer/tricolor/marker"
)

// Bytes of a frame around the IP packet on Ethernet, as count: l2 and l1 have them.
const (
	etherHeader = 14
	etherMin    = 60
	etherL1     = 24
)

// Warnings says what is legal in the policy and yet hardly meant, a line each, given the largest
// packets of the interface: mtu, bytes of an IP packet; largest, IP bytes of a super-packet (GRO, GSO)
// with every segment's headers. 0: unknown, or none.
func (p *Policy) Warnings(mtu, largest int) []string {
	var lines []string
	for i := range p.Classes {
		c := &p.Classes[i]
		warn := func(format string, args ...any) {
			lines = append(lines, "class "+c.Name+": "+fmt.Sprintf(format, args...))
		}
		if c.Count == marker.CountPackets && c.Overhead < 0 {
			warn("overhead %d takes a packet's whole cost away: nothing is ever spent", c.Overhead)
		}
		for _, m := range c.Meters {
			if profile := p.profile(m.Profile); profile != nil {
				profile.warn(c, mtu, largest, warn)
			}
		}
	}
	return lines
}

func (p *Profile) warn(c *Class, mtu, largest int, warn func(string, ...any)) {
	if p.Meter == marker.RFC4115 && p.CIR == 0 && p.CBS > 0 {
		warn("cir 0 never refills cbs (%s): once spent, no packet of that bucket is green again; set cbs to 0, or give cir a rate",
			p.size(p.CBS))
	}
	cost, super := c.largestCost(mtu, mtu), c.largestCost(mtu, largest)
	for _, b := range p.bursts() {
		switch {
		case b.size == 0:
		case b.size < cost:
			warn("%s %s is below what the largest packet of the interface costs, %s: such a packet is %s; raise %s",
				b.name, p.size(b.size), p.size(cost), b.consequence, b.name)
		case b.size < super:
			warn("%s %s is below what the largest super-packet (GRO, GSO) of the interface costs, %s: such a packet is %s, "+
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
