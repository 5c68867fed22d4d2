package marker

import (
	"net/netip"
	"strings"
	"testing"
)

var (
	arpFrame  = ethernet("0806", strings.Repeat("00", 46))
	udpFrame  = ethernet("0800", ip4(28, 17), udp)
	tcpFrame  = ethernet("0800", ip4(40, 6), tcp)
	icmpFrame = ethernet("0800", ip4(28, 1), "0800 0000 0001 0001")
	udp6Frame = ethernet("86dd", ip6(8, 17), udp)

	firstFragment  = ethernet("0800", strings.Replace(ip4(28, 17), "0001 0000", "0001 2000", 1), udp)
	laterFragment  = ethernet("0800", strings.Replace(ip4(28, 17), "0001 0000", "0001 0001", 1), udp)
	atomicFragment = ethernet("86dd", ip6(16, 44), "1100 0000 00000001", udp)
	dontFragment   = ethernet("0800", strings.Replace(ip4(28, 17), "0001 0000", "0001 4000", 1), udp)
	withoutPorts   = ethernet("0800", ip4(23, 17), udp) // 3 bytes of transport

	vlan100      = ethernet("8100 0064 0800", ip4(28, 17), udp)
	vlan100in200 = ethernet("88a8 00c8 8100 0064 0800", ip4(28, 17), udp)
	priorityTag  = ethernet("8100 e000 0800", ip4(28, 17), udp)
	vlan100ARP   = ethernet("8100 0064 0806", strings.Repeat("00", 42))
)

func only(families uint8) func(*Rule) { return func(r *Rule) { r.Families = families } }
func marked(mark uint32) func(*Rule)  { return func(r *Rule) { r.Mark, r.MarkMask = mark, ^uint32(0) } }
func srcIn(p string) func(*Rule)      { return func(r *Rule) { r.Src = prefixOf(p) } }
func dstIn(p string) func(*Rule)      { return func(r *Rule) { r.Dst = prefixOf(p) } }
func fragmented(f uint8) func(*Rule)  { return func(r *Rule) { r.Fragment = f } }
func vlanIn(from, to uint16) func(*Rule) {
	return func(r *Rule) { r.VLAN = [2]uint16{from, to} }
}
func sportIn(from, to uint16) func(*Rule) {
	return func(r *Rule) { r.Ports, r.Sport = true, [2]uint16{from, to} }
}
func dportIn(from, to uint16) func(*Rule) {
	return func(r *Rule) { r.Ports, r.Dport = true, [2]uint16{from, to} }
}
func protoIs(protos ...uint8) func(*Rule) {
	return func(r *Rule) {
		r.Proto = [4]uint64{}
		for _, p := range protos {
			r.Proto[p/64] |= 1 << (p % 64)
		}
	}
}
func dscpIs(values ...uint8) func(*Rule) {
	return func(r *Rule) {
		r.DSCP = 0
		for _, d := range values {
			r.DSCP |= 1 << d
		}
	}
}
func all(changes ...func(*Rule)) func(*Rule) {
	return func(r *Rule) {
		for _, change := range changes {
			change(r)
		}
	}
}

// SPEC 5: each match key, and what it does not take. SPEC 4.3: fragments never match ports.
func TestRuleMatches(t *testing.T) {
	withMark := udpFrame
	withMark.Mark = 7
	for _, c := range []struct {
		name  string
		rule  func(*Rule)
		takes []Frame
		not   []Frame
	}{
		{"any", all(), []Frame{udpFrame, udp6Frame, icmpFrame, vlan100, firstFragment, withMark, withoutPorts}, []Frame{arpFrame, vlan100ARP}},
		{"ip 4", only(FamilyIPv4), []Frame{udpFrame, laterFragment}, []Frame{udp6Frame, arpFrame}},
		{"ip 6", only(FamilyIPv6), []Frame{udp6Frame, atomicFragment}, []Frame{udpFrame, arpFrame}},
		{"ip none", only(FamilyNone), []Frame{arpFrame, vlan100ARP}, []Frame{udpFrame, udp6Frame}},
		{"ip none of a VLAN", all(only(FamilyNone), vlanIn(100, 100)), []Frame{vlan100ARP, tagged(arpFrame, 100)}, []Frame{arpFrame, vlan100}},
		{"ip none, keys of IP are not looked at", all(only(FamilyNone), protoIs(), dscpIs()), []Frame{arpFrame}, nil},
		{"src /32", srcIn("10.0.0.1/32"), []Frame{udpFrame, laterFragment}, []Frame{udp6Frame}},
		{"src another /32", srcIn("10.0.0.3/32"), nil, []Frame{udpFrame}},
		{"src /31 that ends before", srcIn("10.0.0.2/31"), nil, []Frame{udpFrame}},
		{"src /31 that ends with it", srcIn("10.0.0.0/31"), []Frame{udpFrame}, nil},
		{"src /0", srcIn("0.0.0.0/0"), []Frame{udpFrame}, nil},
		{"src is not dst", srcIn("10.0.0.2/32"), nil, []Frame{udpFrame}},
		{"dst /30", dstIn("10.0.0.0/30"), []Frame{udpFrame}, nil},
		{"dst /32", dstIn("10.0.0.2/32"), []Frame{udpFrame}, nil},
		{"dst is not src", dstIn("10.0.0.1/32"), nil, []Frame{udpFrame}},
		{"src IPv6 /128", all(only(FamilyIPv6), srcIn("2001:db8::1/128")), []Frame{udp6Frame}, []Frame{udpFrame}},
		{"src IPv6 /127", all(only(FamilyIPv6), srcIn("2001:db8::2/127")), nil, []Frame{udp6Frame}},
		{"dst IPv6 /65", all(only(FamilyIPv6), dstIn("2001:db8::/65")), []Frame{udp6Frame}, nil},
		{"dst IPv6 another /33", all(only(FamilyIPv6), dstIn("2001:db8:8000::/33")), nil, []Frame{udp6Frame}},
		{"sport", sportIn(4660, 4660), []Frame{udpFrame, tcpFrame, udp6Frame, dontFragment}, []Frame{icmpFrame, firstFragment, laterFragment, atomicFragment, withoutPorts}},
		{"sport range that ends before", sportIn(0, 4659), nil, []Frame{udpFrame}},
		{"sport range that begins after", sportIn(4661, 65535), nil, []Frame{udpFrame}},
		{"dport range", dportIn(50, 53), []Frame{udpFrame}, []Frame{icmpFrame}},
		{"dport is not sport", dportIn(4660, 4660), nil, []Frame{udpFrame}},
		{"port 0 is not no port", dportIn(0, 0), nil, []Frame{udpFrame, icmpFrame, firstFragment, laterFragment, withoutPorts}},
		{"all ports", dportIn(0, 65535), []Frame{udpFrame}, []Frame{icmpFrame, firstFragment, laterFragment, atomicFragment, withoutPorts}},
		{"both ports", all(sportIn(4660, 4660), dportIn(53, 53)), []Frame{udpFrame}, nil},
		{"one port of two", all(sportIn(4660, 4660), dportIn(54, 54)), nil, []Frame{udpFrame}},
		{"proto", protoIs(17), []Frame{udpFrame, udp6Frame, laterFragment, atomicFragment}, []Frame{tcpFrame, icmpFrame}},
		{"proto list", protoIs(1, 6), []Frame{tcpFrame, icmpFrame}, []Frame{udpFrame}},
		{"proto above 127", protoIs(132), []Frame{ethernet("0800", ip4(32, 132), sctp)}, []Frame{udpFrame, ethernet("0800", ip4(32, 4), sctp)}},
		{"dscp", dscpIs(46), []Frame{udpFrame, udp6Frame}, nil},
		{"dscp list", dscpIs(0, 45, 47), nil, []Frame{udpFrame, udp6Frame}},
		{"vlan, untagged is 0", vlanIn(0, 0), []Frame{udpFrame, priorityTag, tagged(udpFrame, 0)}, []Frame{vlan100, tagged(udpFrame, 100)}},
		{"vlan in the data or offloaded", vlanIn(100, 100), []Frame{vlan100, tagged(udpFrame, 100), tagged(udpFrame, 0xe064)}, []Frame{udpFrame, vlan100in200}},
		{"vlan is the outer one", vlanIn(200, 200), []Frame{vlan100in200, tagged(vlan100, 200)}, []Frame{vlan100}},
		{"vlan range", vlanIn(99, 100), []Frame{vlan100}, []Frame{udpFrame, vlan100in200}},
		{"mark", marked(7), []Frame{withMark}, []Frame{udpFrame}},
		{"mark 0", marked(0), []Frame{udpFrame}, []Frame{withMark}},
		{"fragment true", fragmented(FragmentYes), []Frame{firstFragment, laterFragment, atomicFragment}, []Frame{udpFrame, dontFragment, udp6Frame}},
		{"fragment false", fragmented(FragmentNo), []Frame{udpFrame, dontFragment, udp6Frame}, []Frame{firstFragment, laterFragment, atomicFragment}},
		{"all given must hold", all(protoIs(17), dscpIs(46), vlanIn(100, 100), srcIn("10.0.0.0/8"), dportIn(53, 53)), []Frame{vlan100}, []Frame{udpFrame}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := mirrorOf(t, planOf(t, testClass{name: "a", rules: []func(*Rule){c.rule}, meters: []testMeter{{per: PerClass, params: token(1e6)}}}))
			for want, frames := range map[uint16][]Frame{0: c.takes, NoClass: c.not} {
				for i, f := range frames {
					f = whole(f)
					if out := m.Packet(&f, 0); out.Class != want {
						t.Errorf("frame %d, %x: class %d, not %d", i+1, f.Data, out.Class, want)
					}
				}
			}
		})
	}
}

// SPEC 5: the first class that matches takes the packet; a list is "any of".
func TestRulesFirstMatch(t *testing.T) {
	bucket := func(number uint32) []testMeter {
		return []testMeter{{number: number, per: PerClass, params: token(1e6)}}
	}
	m := mirrorOf(t, planOf(t,
		testClass{name: "a", meters: bucket(0), rules: []func(*Rule){all(protoIs(17), vlanIn(100, 100)), all(protoIs(17), vlanIn(200, 200)), marked(9)}},
		testClass{name: "b", meters: bucket(1), rules: []func(*Rule){protoIs(17)}},
		testClass{name: "hidden", meters: bucket(2), rules: []func(*Rule){dportIn(53, 53), all(only(FamilyNone), vlanIn(0, 0))}},
	))
	nine := tcpFrame
	nine.Mark = 9
	for name, c := range map[string]struct {
		frame Frame
		want  uint16
	}{
		"first of a list": {vlan100, 0}, "second of a list": {vlan100in200, 0}, "third of a list": {nine, 0},
		"not in the list": {udpFrame, 1}, "hidden by b": {udp6Frame, 1}, "not hidden": {tcpFrame, 2},
		"not IP": {arpFrame, 2}, "not IP, of no class": {vlan100ARP, NoClass}, "IP, of no class": {icmpFrame, NoClass},
	} {
		f := whole(c.frame)
		if out := m.Packet(&f, 0); out.Class != c.want {
			t.Errorf("%s: class %d, not %d", name, out.Class, c.want)
		}
	}
	if port := m.Stats().Port; port != (PortStats{Unmatched: 1, NotIP: 1}) {
		t.Errorf("counted %+v", port)
	}
}

func entries(of ...any) (s PrefixSet) {
	for i := 0; i < len(of); i += 2 {
		s.Entries = append(s.Entries, PrefixEntry{netip.MustParsePrefix(of[i].(string)), of[i+1].(uint32)})
	}
	return s
}

// Prefix sets: the longest prefix that holds the address says whether, and by which profile; IPv4 and IPv6
// are apart; the source's profile goes before the destination's.
func TestPrefixSets(t *testing.T) {
	one, two, own := uint32(1), uint32(2), NoProfile
	udp6 := udp6Frame
	for _, c := range []struct {
		name     string
		src, dst PrefixSet
		frame    Frame
		matches  bool
		profile  uint32
	}{
		{"longest", entries("10.0.0.0/8", one, "10.0.0.1/32", two, "0.0.0.0/0", own), PrefixSet{}, udpFrame, true, 2},
		{"longest, whatever the order", entries("0.0.0.0/0", one, "10.0.0.0/31", two, "10.0.0.0/8", own), PrefixSet{}, udpFrame, true, 2},
		{"the longest brings none", entries("10.0.0.0/8", one, "10.0.0.0/24", own), PrefixSet{}, udpFrame, true, 0},
		{"a longer one beside it", entries("10.0.0.0/8", one, "10.0.0.2/31", two), PrefixSet{}, udpFrame, true, 1},
		{"none", entries("10.0.1.0/24", one, "11.0.0.0/8", one), PrefixSet{}, udpFrame, false, 0},
		{"the set of nothing", PrefixSet{Name: "empty"}, PrefixSet{}, udpFrame, false, 0},
		{"IPv6 is not IPv4", entries("::/0", one), PrefixSet{}, udpFrame, false, 0},
		{"IPv4 is not IPv6", entries("0.0.0.0/0", one), PrefixSet{}, udp6, false, 0},
		{"IPv6, the longest", entries("2001:db8::/32", one, "2001:db8::/64", two, "::/0", own, "2001:db8::2/128", one), PrefixSet{}, udp6, true, 2},
		{"IPv6, host", entries("2001:db8::/64", one, "2001:db8::1/128", two), PrefixSet{}, udp6, true, 2},
		{"an IPv4 prefix of an IPv6 address's first bytes", entries("32.1.13.184/32", one), PrefixSet{}, udp6, false, 0},
		{"an IPv6 prefix of an IPv4 address's bytes", entries("0a00:0001::/32", one), PrefixSet{}, udpFrame, false, 0},
		{"dst", PrefixSet{}, entries("10.0.0.2/32", two), udpFrame, true, 2},
		{"dst is not src", PrefixSet{}, entries("10.0.0.1/32", two), udpFrame, false, 0},
		{"both: the source's profile", entries("10.0.0.1/32", one), entries("10.0.0.2/32", two), udpFrame, true, 1},
		{"both: the source brings none", entries("10.0.0.1/32", own), entries("10.0.0.2/32", two), udpFrame, true, 2},
		{"both: the destination brings none", entries("10.0.0.1/32", two), entries("10.0.0.2/32", own), udpFrame, true, 2},
		{"both: the source in none", entries("10.0.0.9/32", one), entries("10.0.0.2/32", two), udpFrame, false, 0},
		{"both: the destination in none", entries("10.0.0.1/32", one), entries("10.0.0.9/32", two), udpFrame, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan := planOf(t, testClass{name: "a", meters: []testMeter{{params: token(100)}}}, testClass{name: "rest", stats: 1, meters: []testMeter{{number: 3, params: token(100)}}})
			plan.setProfile(t, 1, 0, token(1000))
			plan.setProfile(t, 2, 0, token(2000))
			for i, set := range []*PrefixSet{&c.src, &c.dst} {
				if set.Entries == nil && set.Name == "" {
					continue
				}
				plan.Sets = append(plan.Sets, *set)
				*[]*uint32{&plan.Rules[0].SrcSet, &plan.Rules[0].DstSet}[i] = uint32(len(plan.Sets))
			}
			m := mirrorOf(t, plan)
			f := whole(c.frame)
			out := m.Packet(&f, 0)
			if (out.Class == 0) != c.matches {
				t.Fatalf("class %d", out.Class)
			}
			want := []uint64{100, 1000, 2000}[c.profile]
			if !c.matches {
				c.profile, want = 3, 100
			}
			s := bucketOf(m, out, 0)
			if s.Profile != c.profile || s.Bucket.Tc != (want-out.Cost)*Nano {
				t.Errorf("profile %d, %d of %d bytes left", s.Profile, s.Bucket.Tc/Nano, want)
			}
		})
	}
}

// A prefix's profile is the first meter's alone; a rule that comes later is of no prefix again.
func TestPrefixProfileOfTheFirstMeter(t *testing.T) {
	plan := planOf(t,
		testClass{name: "a", meters: []testMeter{{params: token(100)}, {number: 1, per: PerSrc, prefix: [2]int{32, 64}, params: token(500)}}},
		testClass{name: "rest", meters: []testMeter{{number: 3, params: token(50)}}},
	)
	plan.setProfile(t, 2, 0, token(1000))
	plan.Sets = []PrefixSet{entries("10.0.0.0/24", uint32(2)), entries("10.0.0.9/32", NoProfile)}
	plan.Rules[0].SrcSet, plan.Rules[0].DstSet = 1, 2 // the source is found, the destination is not
	rule := plan.Rules[0]
	rule.DstSet = 0
	rule.Src = prefixOf("10.0.0.1/32")
	plan.Rules = []Rule{plan.Rules[0], rule, plan.Rules[1]}
	m := mirrorOf(t, plan)
	wantChain(t, "by the prefix's profile", m, from(1, 300), 0, Green, 700, 0, 200, 0)
	wantChain(t, "the second meter keeps its own", m, from(1, 201), 0, Red, 700, 0, 200, 0)
	wantChain(t, "of another class", m, from(2, 40), 0, Green, 10, 0)
}
