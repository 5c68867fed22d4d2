package policy

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/tricolor-policer/tricolor/internal/units"
	"github.com/tricolor-policer/tricolor/marker"
)

// Describe says what a plan does, in lines for people: line i is of class i, and the last of the
// table. Numbers of classes are exact.
func Describe(plan *marker.Plan) []string {
	lines := make([]string, 0, len(plan.Classes)+1)
	for i := range plan.Classes {
		lines = append(lines, fmt.Sprintf("class %s: %s", plan.Classes[i].Name, describeClass(plan, &plan.Classes[i])))
	}
	return append(lines, fmt.Sprintf("table: %s bucket slots, %s; malformed %v",
		units.FormatCount(plan.Geometry.Flows()), units.FormatBytes(plan.Geometry.Bytes()), plan.Malformed))
}

func describeClass(plan *marker.Plan, c *marker.Class) string {
	var b strings.Builder
	for i := range c.Meters {
		if i > 0 {
			b.WriteString(", then ")
		}
		b.WriteString(describeMeter(plan, &c.Meters[i], c.Count == marker.CountPackets))
	}
	fmt.Fprintf(&b, ", count %v", c.Count)
	if c.Overhead != 0 {
		fmt.Fprintf(&b, ", overhead %+d", c.Overhead)
	}
	separator := ";"
	for color, action := range c.Actions {
		fmt.Fprintf(&b, "%s %v %s", separator, marker.Color(color), action)
		separator = ","
	}
	return b.String()
}

func describeMeter(plan *marker.Plan, m *marker.Meter, packets bool) string {
	return describeProfile(plan, m, packets) + ", " + describePer(m)
}

// describeProfile is what a meter does, without who shares its bucket.
func describeProfile(plan *marker.Plan, m *marker.Meter, packets bool) string {
	if int(m.Profile) >= len(plan.Profiles) {
		return fmt.Sprintf("profile %d (unknown)", m.Profile)
	}
	p := &plan.Profiles[m.Profile]
	parts := []string{fmt.Sprintf("%v CIR %s", p.Meter, units.FormatRate(p.CIR, packets)), "CBS " + burst(p.CBS, packets)}
	switch p.Meter {
	case marker.Token:
	case marker.SRTCM:
		parts = append(parts, "EBS "+burst(p.XBS, packets))
	case marker.TRTCM:
		parts = append(parts, "PIR "+units.FormatRate(p.XIR, packets), "PBS "+burst(p.XBS, packets))
	case marker.RFC4115:
		parts = append(parts, "EIR "+units.FormatRate(p.XIR, packets), "EBS "+burst(p.XBS, packets))
	}
	if p.Coupling {
		parts = append(parts, "coupled")
	}
	if p.Aware {
		return strings.Join(append(parts, "aware"), ", ")
	}
	return strings.Join(append(parts, "blind"), ", ")
}

// burst prints a compiled burst, of nanobytes or nanopackets.
func burst(nano uint64, packets bool) string {
	return units.Size{Amount: nano / marker.Nano, Packets: packets}.String()
}

// PerWord returns who shares a meter's buckets as a policy says it: "flow", "src", "src/24,56".
func PerWord(m *marker.Meter) string { return strings.TrimPrefix(describePer(m), "per ") }

// describePer is who shares the bucket, as in a policy.
func describePer(m *marker.Meter) string {
	if m.Per != marker.PerSrc && m.Per != marker.PerDst {
		return "per " + m.Per.String()
	}
	var prefix [2]int
	for family := range m.Mask {
		fields := m.Mask[family].Fields()
		addr := fields.Src
		if m.Per == marker.PerDst {
			addr = fields.Dst
		}
		for _, b := range addr {
			prefix[family] += bits.OnesCount8(b)
		}
	}
	prefix[0] = min(prefix[0], addrBits[0])
	if prefix == wholeAddr {
		return "per " + m.Per.String()
	}
	return fmt.Sprintf("per %v/%d,%d", m.Per, prefix[0], prefix[1])
}
