package policy

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/tricolor-policer/tricolor/marker"
)

// orAny returns what is listed; where nothing is, the one that stands for all.
func orAny[T any](list []T, all T) []T {
	if len(list) == 0 {
		return []T{all}
	}
	return list
}

var (
	anyPort = Range{0, 0xffff}
	anyVLAN = Range{0, 0xfff}
)

// ruleCount is how many combinations the class lists, without those of two address families. It is
// never over a billion.
func (m *Match) ruleCount() int {
	n := 1
	for _, listed := range []int{len(m.Src), len(m.Dst), len(m.Sport), len(m.Dport), len(m.VLAN), len(m.Mark)} {
		n = min(n*max(listed, 1), 1_000_000_000)
	}
	return n
}

// rules returns the rules of the class, one for each combination of what it lists. The sets are numbered
// as given. Only for a class whose ruleCount is bounded.
func (m *Match) rules(class uint16, srcSet, dstSet uint32) (rules []marker.Rule) {
	rule := marker.AnyRule(class)
	rule.SrcSet, rule.DstSet = srcSet, dstSet
	rule.Ports = len(m.Sport)+len(m.Dport) > 0
	if m.Fragment != 0 {
		rule.Fragment = m.Fragment
	}
	if len(m.Proto) > 0 {
		rule.Proto = [4]uint64{}
		for _, p := range m.Proto {
			rule.Proto[p/64] |= 1 << (p % 64)
		}
	}
	if len(m.DSCP) > 0 {
		rule.DSCP = 0
		for _, d := range m.DSCP {
			rule.DSCP |= 1 << d
		}
	}
	for _, src := range orAny(m.Src, netip.Prefix{}) {
		rule.Src = marker.NewAddressMatch(src)
		for _, dst := range orAny(m.Dst, netip.Prefix{}) {
			rule.Dst = marker.NewAddressMatch(dst)
			rule.Families = m.families() & familiesOf(src) & familiesOf(dst)
			if rule.Families == 0 {
				continue
			}
			rules = m.appendLower(rules, rule)
		}
	}
	return rules
}

// appendLower appends the rule with each combination of ports, VLANs and marks.
func (m *Match) appendLower(rules []marker.Rule, rule marker.Rule) []marker.Rule {
	for _, sport := range orAny(m.Sport, anyPort) {
		rule.Sport = [2]uint16{sport.From, sport.To}
		for _, dport := range orAny(m.Dport, anyPort) {
			rule.Dport = [2]uint16{dport.From, dport.To}
			for _, vlan := range orAny(m.VLAN, anyVLAN) {
				rule.VLAN = [2]uint16{vlan.From, vlan.To}
				if len(m.Mark) == 0 {
					rules = append(rules, rule)
				}
				for _, mark := range m.Mark {
					rule.Mark, rule.MarkMask = mark, ^uint32(0)
					rules = append(rules, rule)
				}
			}
		}
	}
	return rules
}

// familiesOf are the families of packets that an address prefix may match.
func familiesOf(p netip.Prefix) uint8 {
	switch {
	case !p.IsValid():
		return marker.FamilyIP | marker.FamilyNone
	case p.Addr().Is4():
		return marker.FamilyIPv4
	default:
		return marker.FamilyIPv6
	}
}

// checkRules refuses classes that match nothing, and more rules than a plan holds.
func (p *Policy) checkRules(f *faults) {
	total, first := 0, -1
	for i := range p.Classes {
		m := &p.Classes[i].Match
		n := m.ruleCount()
		if n <= marker.MaxRules {
			if n = len(m.rules(0, 0, 0)); n == 0 && m.families()&marker.FamilyNone == 0 {
				f.add(m.part(&p.Classes[i]), "src, dst, ip", "no packet can match: the addresses are of different IP versions, or of another than ip says")
			}
		}
		if total += n; total > marker.MaxRules && first < 0 {
			first = i
		}
	}
	if first < 0 {
		return
	}
	c := &p.Classes[first]
	f.add(c.part(), "match", fmt.Sprintf("the policy takes more rules than there are: at most %d; this class takes %s. "+
		"Give it ranges in place of lists, or its prefixes in a file: src: \"@prefixes.csv\"", marker.MaxRules, c.Match.ruleText()))
}

// ruleText says how many rules the class takes, and why.
func (m *Match) ruleText() string {
	var words []string
	for _, list := range []struct {
		field string
		n     int
	}{
		{"src", len(m.Src)}, {"dst", len(m.Dst)}, {"sport", len(m.Sport)},
		{"dport", len(m.Dport)}, {"vlan", len(m.VLAN)}, {"mark", len(m.Mark)},
	} {
		if list.n > 1 {
			words = append(words, fmt.Sprintf("%d %s", list.n, list.field))
		}
	}
	if len(words) < 2 {
		return fmt.Sprint(m.ruleCount())
	}
	return fmt.Sprintf("%d (%s)", m.ruleCount(), strings.Join(words, " × "))
}
