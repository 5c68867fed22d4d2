package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tricolor-policer/tricolor/internal/units"
	"github.com/tricolor-policer/tricolor/marker"
)

// Contract says what the policy promises the packets of a class, in eight lines that a customer could
// sign: who shares a bucket, what is counted, the rates, the bursts, what is done to each colour, what a
// sender notices, where the state lives, and by which clock. Nil where there is no such class,
// or a profile of it is not defined.
func Contract(p *Policy, class string) []string {
	c := p.class(class)
	if c == nil {
		return nil
	}
	var principals, rates, bursts []string
	for i := range c.Meters {
		m := &c.Meters[i]
		profile := p.profile(m.Profile)
		if profile == nil {
			return nil
		}
		before := ""
		if len(c.Meters) > 1 {
			before = fmt.Sprintf("(%d) ", i+1)
		}
		principals = append(principals, before+m.principal())
		rates = append(rates, before+profile.rates())
		bursts = append(bursts, before+profile.burstText())
	}
	principal := strings.Join(principals, "; ")
	if len(c.Meters) > 1 {
		principal += "; a packet must please each, and has the worst of their colours"
	}
	return []string{
		"principal: " + principal,
		"unit:      " + c.unitText(),
		"rate:      " + strings.Join(rates, "; ") + c.lineText(),
		"burst:     " + strings.Join(bursts, "; "),
		"verbs:     " + fmt.Sprintf("green %s; yellow %s; red %s",
			c.Actions[marker.Green], c.Actions[marker.Yellow], c.Actions[marker.Red]),
		"signal:    " + p.signal(c),
		"state:     memory of this host's kernel, for each interface and direction its own; lost at detach and at reboot: buckets then start full",
		"clock:     CLOCK_MONOTONIC of this host, in nanoseconds; in a replay the capture's own time stamps",
	}
}

// principal is who shares a bucket.
func (m *Meter) principal() string {
	address := func(word string) string {
		switch m.Prefix {
		case [2]int{32, 128}:
			return "each " + word + " address"
		case wholeAddr:
			return "each " + word + " address (on IPv6 each /64)"
		default:
			return fmt.Sprintf("each %s /%d of IPv4 and /%d of IPv6", word, m.Prefix[0], m.Prefix[1])
		}
	}
	switch m.Per {
	case marker.PerFlow:
		return "each flow (addresses, protocol, ports) has a bucket of its own"
	case marker.PerSrc:
		return address("source") + " has a bucket of its own"
	case marker.PerDst:
		return address("destination") + " has a bucket of its own"
	case marker.PerVLAN:
		return "each VLAN has a bucket of its own"
	case marker.PerDSCP:
		return "each DSCP has a bucket of its own"
	case marker.PerClass:
		return "all packets of the class share one bucket"
	default:
		return fmt.Sprintf("all classes of the interface that name profile %s so share one bucket", m.Profile)
	}
}

// unitText is what is counted.
func (c *Class) unitText() string {
	text := map[marker.Count]string{
		marker.CountL3:      "bytes of the IP packet, its header included, the link's excluded (l3)",
		marker.CountL2:      "bytes of the frame without FCS, at least 60 on Ethernet (l2)",
		marker.CountL1:      "bytes of the frame, at least 60, and 24 more for FCS, preamble and gap (l1)",
		marker.CountPackets: "packets, each of a super-packet's segments one",
	}[c.Count]
	if c.Overhead != 0 {
		text += fmt.Sprintf(", %+d for each packet", c.Overhead)
	}
	return text
}

// rates are the profile's rates, and how it judges.
func (p *Profile) rates() string {
	parts := []string{"CIR " + units.FormatRate(p.CIR, p.Packets)}
	switch p.Meter {
	case marker.TRTCM:
		parts = append(parts, "PIR "+units.FormatRate(p.PIR, p.Packets))
	case marker.RFC4115:
		parts = append(parts, "EIR "+units.FormatRate(p.EIR, p.Packets))
	}
	source := map[marker.MeterType]string{
		marker.Token: "one token bucket", marker.SRTCM: "RFC 2697", marker.TRTCM: "RFC 2698", marker.RFC4115: "RFC 4115",
	}[p.Meter]
	if p.Coupling {
		source += ", coupled"
	}
	if p.Aware {
		source += ", by the colour that the DSCP says on arrival"
	}
	return strings.Join(parts, ", ") + " (" + source + ")"
}

// burstText is the profile's bursts.
func (p *Profile) burstText() string {
	parts := []string{"CBS " + p.size(p.CBS)}
	switch p.Meter {
	case marker.SRTCM, marker.RFC4115:
		parts = append(parts, "EBS "+p.size(p.EBS))
	case marker.TRTCM:
		parts = append(parts, "PBS "+p.size(p.PBS))
	}
	return strings.Join(parts, ", ")
}

// lineText says that lines of a file have profiles of their own.
func (c *Class) lineText() string {
	for _, set := range []*Set{c.Match.SrcSet, c.Match.DstSet} {
		if names := set.profiles(); len(names) > 0 {
			return fmt.Sprintf("; where the line of %s names a profile, that one for the first", set.Name)
		}
	}
	return ""
}

// yellow reports whether a meter of the class calls packets yellow.
func (p *Policy) yellow(c *Class) bool {
	return slices.ContainsFunc(c.profileNames(), func(name string) bool {
		profile := p.profile(name)
		return profile != nil && profile.Meter != marker.Token
	})
}

// signal is what a sender notices once it sends too much.
func (p *Policy) signal(c *Class) string {
	var signals []string
	for color, action := range c.Actions {
		name := marker.Color(color).String()
		switch {
		case color == int(marker.Yellow) && !p.yellow(c):
			continue
		case action.Verbs&marker.VerbDrop != 0:
			signals = append(signals, name+" is lost: TCP and QUIC send again, slower; other senders must notice themselves")
		case action.Verbs&marker.VerbCE != 0:
			signals = append(signals, name+" has ECN's CE where the sender knows ECN: it slows down without a loss")
		}
		if action.Verbs&marker.VerbDSCP != 0 && color != int(marker.Green) {
			signals = append(signals, fmt.Sprintf("%s has DSCP %s, which the receiver sees and the sender does not", name, marker.DSCPName(action.DSCP)))
		}
	}
	if len(signals) == 0 {
		return "none: no packet is dropped, nor marked with more than green"
	}
	return strings.Join(signals, "; ")
}
