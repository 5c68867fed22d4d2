package marker

import (
	"bytes"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// cloned is another mirror in the same state.
func cloned(m *Mirror) *Mirror {
	c := *m
	c.table.sets = slices.Clone(m.table.sets)
	c.stats.Classes = slices.Clone(m.stats.Classes)
	c.table.forgetting = nil
	return &c
}

// explainPlan has chains of each kind over few and narrow buckets.
func explainPlan(t fataler, aware bool) *Plan {
	small := Params{Meter: SRTCM, CIR: 1000, CBS: 300, EBS: 200, Aware: aware}
	peak := Params{Meter: TRTCM, CIR: 2000, CBS: 500, PIR: 3000, PBS: 900, Aware: true}
	mef := Params{Meter: RFC4115, CIR: 900, CBS: 400, EIR: 100, EBS: 500, Coupling: true, Aware: !aware}
	return planOf(t,
		testClass{name: "flows", stats: 1, meters: []testMeter{{number: 0, per: PerFlow, params: small}, {number: 1, per: PerSrc, params: peak, prefix: [2]int{26, 64}}},
			rules: []func(*Rule){func(r *Rule) { r.Src = prefixOf("10.0.0.0/24") }}},
		testClass{name: "link", stats: 2, meters: []testMeter{{number: 2, per: PerDst, params: mef, prefix: [2]int{32, 128}}, {number: 3, per: PerClass, params: peak}, {number: 4, per: PerInterface, params: small}},
			rules: []func(*Rule){func(r *Rule) { r.DSCP = 1<<10 | 1<<12 }, func(r *Rule) { r.Src = prefixOf("10.0.1.0/25") }}},
		testClass{name: "rest", stats: 3, meters: []testMeter{{number: 5, per: PerSrc, params: token(700), prefix: [2]int{32, 128}}},
			change: func(c *Class) { c.Actions[Green] = Action{Verbs: VerbDSCP | VerbCE, DSCP: 10} },
			rules:  []func(*Rule){func(r *Rule) { r.Src = prefixOf("10.0.2.0/24") }}})
}

// An explained packet fares as any other, leaves the mirror as any other, and what is told of it is true: the tokens
// before and after, and that it conforms when it is told and 1 ns earlier does not.
func TestExplain(t *testing.T) {
	met := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		d := func(most uint64) uint64 { return rapid.Uint64Range(0, most).Draw(t, "n") }
		m := mirrorOf(t, explainPlan(t, d(1) == 1))
		now, gap := 1+d(1)*1e9, []uint64{1e6, 1e9}[d(1)] // in which nothing is full again, or all
		spread := []uint64{3, 200}[d(1)]                 // few flows, or more than there is room for
		for range 20 + 200*d(1) {
			now += []uint64{0, 1, d(1e6), d(gap)}[d(3)]
			at := now
			if d(15) == 0 {
				at -= d(min(at, 1e8))
			}
			f := from(uint16(d(2)<<8|d(spread)), 40+int(d(400)))
			f.Data[15] = []byte{0, 10 << 2, 12<<2 | 1, 14<<2 | 2, 46 << 2}[d(4)]
			f = whole(f)
			plain, before := cloned(m), cloned(m)
			marked, again := whole(f), whole(f)
			want := plain.Packet(&marked, at)
			e := m.Explain(&f, at)
			if want != e.Outcome {
				t.Fatalf("explained %+v, not %+v", e.Outcome, want)
			}
			if !bytes.Equal(marked.Data, f.Data) || !slices.Equal(plain.table.sets, m.table.sets) ||
				plain.stats.Port != m.stats.Port || !slices.Equal(plain.stats.Classes, m.stats.Classes) {
				t.Fatalf("another frame, table or counters")
			}
			holdsExplanation(t, e, met)
			for color, wait := range e.Waits {
				if e.Outcome.Kind != Metered || slices.ContainsFunc(e.Chain, func(j Judgement) bool { return j.Found == FoundOverflow || j.First }) {
					break // later there may be room, or a new bucket would be made later
				}
				later := func(by uint64) Color {
					f := whole(again)
					return cloned(before).Packet(&f, at+by).Color
				}
				switch {
				case wait.Never:
					met["never"]++
					if c := later(1 << 62); c <= Color(color) {
						t.Fatalf("never %v, but later %v: %+v", Color(color), c, e)
					}
				case wait.NS == 0:
					if e.Outcome.Color > Color(color) {
						t.Fatalf("%v at once, but %v", Color(color), e.Outcome.Color)
					}
				default:
					met["later"]++
					if then, earlier := later(wait.NS), later(wait.NS-1); then > Color(color) || earlier <= Color(color) {
						t.Fatalf("%v after %d ns: it is %v, 1 ns earlier %v: %+v", Color(color), wait.NS, then, earlier, e)
					}
				}
			}
		}
	})
	for _, what := range []string{"there", "new", "reused", "overflow", "never", "later", "unmatched", "marked"} {
		if met[what] == 0 {
			t.Errorf("not met: %s (%v)", what, met)
		}
	}
}

// holdsExplanation holds the parts of an explanation against each other.
func holdsExplanation(t *rapid.T, e *Explanation, met map[string]int) {
	if e.Outcome.Kind != Metered {
		met[e.Outcome.Kind.String()]++
		if len(e.Chain) > 0 || e.Rule >= 0 {
			t.Fatalf("no meter saw it: %+v", e)
		}
		return
	}
	if e.Changed {
		met["marked"]++
	}
	worst := Green
	for i := range e.Chain {
		j := &e.Chain[i]
		met[j.Found.String()]++
		worst = max(worst, j.Color)
		b := j.AtNow
		if e.Outcome.Color != Red {
			j.Profile.Spend(&b, e.Outcome.Cost*Nano, j.Color)
		}
		if b != j.After || j.AtNow.Tc < j.Before.Tc || j.AtNow.Tx < j.Before.Tx || j.AtNow.Last < j.Before.Last {
			t.Fatalf("meter %d: before, at its time, after: %+v", i+1, j)
		}
		b = j.Before
		if j.Profile.Refill(&b, e.Now); j.Found != FoundOverflow && b != j.AtNow {
			t.Fatalf("meter %d: %+v earns to %+v", i+1, j, b)
		}
		if j.First != (j.Packets == [Colors]uint64{}) {
			t.Fatalf("meter %d: %+v: never used, but it had packets, or none at all", i+1, j)
		}
		if c := j.Profile.Color(&j.AtNow, e.Outcome.Cost*Nano, j.Arrival); c != j.Color {
			t.Fatalf("meter %d: %v, not %v", i+1, j.Color, c)
		}
		for want, s := range j.Short {
			if (s.Need == NeedNothing) != (j.Color <= Color(want)) {
				t.Fatalf("meter %d is %v: %+v", i+1, j.Color, j.Short)
			}
		}
	}
	if worst != e.Outcome.Color || e.Charge.Cost != e.Outcome.Cost || int(e.Plan.Rules[e.Rule].Class) != int(e.Outcome.Class) {
		t.Fatalf("%+v", e)
	}
}

// What is said of headers, and of what is wrong with them.
func TestExplainHeaders(t *testing.T) {
	long := make([]byte, 0)
	for range 9 {
		long = append(long, unhex(extension(0, 8))...)
	}
	for _, c := range []struct {
		frame Frame
		want  Headers // of what is compared
	}{
		{ethernet("0806", "0001"), Headers{Reading: ReadNotIP, Why: "the EtherType is ARP (0x0806)", EtherType: 0x0806}},
		{ethernet("8847", "0001"), Headers{Reading: ReadNotIP, Why: "the EtherType is MPLS (0x8847)", EtherType: 0x8847}},
		{ethernet("0026", "4242"), Headers{Reading: ReadNotIP, Why: "the frame is of IEEE 802.3: a length (38) stands for the EtherType", EtherType: 38}},
		{ethernet("8863", "1109"), Headers{Reading: ReadNotIP, Why: "the EtherType is PPPoE discovery (0x8863)", EtherType: 0x8863}},
		{ethernet("8864", "1100 0007 0004 c021 01"), Headers{Reading: ReadNotIP, EtherType: 0x8864, PPPoE: &PPPoE{7, 0xc021},
			Why: "the PPP protocol is 0xc021, neither IPv4 (0x0021) nor IPv6 (0x0057)"}},
		{ethernet("8864", "1109 0007 0004 0021"), Headers{Reading: ReadNotIP, EtherType: 0x8864,
			Why: "the PPPoE header is not that of a session's data (version 1, type 1, code 0)"}},
		{ethernet("8100 0001 8100 0002 8100 0003 8100 0004 8100 0005 0800"), Headers{Reading: ReadNotIP, EtherType: 0x8100, VLAN: 1,
			Tags: []Tag{{0x8100, 1, false}, {0x8100, 2, false}, {0x8100, 3, false}, {0x8100, 4, false}}, Why: "there are more than 4 VLAN tags"}},
		{Frame{Link: LinkOther, Data: []byte{1}}, Headers{Reading: ReadNotIP, Why: "it is announced neither as IPv4 nor as IPv6"}},
		{Frame{Data: unhex(macs, "08")}, Headers{Reading: ReadMalformed, Why: "the Ethernet header is cut short: it has 14 bytes from byte 0 on, and 13 of the frame's were captured"}},
		{ethernet("8100 00"), Headers{Reading: ReadMalformed, EtherType: 0x8100, Why: "a VLAN tag is cut short: it has 4 bytes from byte 14 on, and 15 of the frame's were captured"}},
		{ethernet("8864 1100"), Headers{Reading: ReadMalformed, EtherType: 0x8864, Why: "the PPPoE header is cut short: it has 8 bytes from byte 14 on, and 16 of the frame's were captured"}},
		{ethernet("0800 45"), Headers{Reading: ReadMalformed, EtherType: 0x0800, Why: "the IPv4 header is cut short: it has 20 bytes from byte 14 on, and 15 of the frame's were captured"}},
		{ethernet("0800", "65"+ip4(28, 17)[2:], udp), Headers{Reading: ReadMalformed, EtherType: 0x0800, Why: "the version is 6, where IPv4 was announced"}},
		{ethernet("0800", "44"+ip4(28, 17)[2:], udp), Headers{Reading: ReadMalformed, EtherType: 0x0800, Why: "the header length is 16 bytes (IHL 4): at least 20"}},
		{ethernet("0800", "4f"+ip4(28, 17)[2:], udp), Headers{Reading: ReadMalformed, EtherType: 0x0800,
			Why: "the IPv4 header is cut short: it has 60 bytes from byte 14 on, and 42 of the frame's were captured"}},
		{ethernet("0800", ip4(19, 17), udp), Headers{Reading: ReadMalformed, EtherType: 0x0800, Why: "the total length is 19 bytes, less than the header's 20"}},
		{ethernet("0800", ip4(29, 17), udp), Headers{Reading: ReadMalformed, EtherType: 0x0800,
			Why: "the total length is 29 bytes, and the frame holds 28 from there on"}},
		{ethernet("86dd", ip6(9, 17), udp), Headers{Reading: ReadMalformed, EtherType: 0x86dd,
			Why: "header and payload length are 49 bytes, and the frame holds 48 from there on"}},
		{ethernet("86dd", ip6(8, 0), extension(17, 8)[:8]), Headers{Reading: ReadMalformed, EtherType: 0x86dd,
			Why: "header and payload length are 48 bytes, and the frame holds 44 from there on"}},
		{longer(ethernet("86dd", ip6(8, 0), extension(17, 8)[:8]), 62), Headers{Reading: ReadMalformed, EtherType: 0x86dd,
			Why: "an extension header is cut short, by the captured bytes or the packet's own end"}},

		{ethernet("88a8 2005 8100 0007", pppoe, "0021", ip4(28, 17), udp), Headers{EtherType: 0x8864, VLAN: 5,
			Tags: []Tag{{0x88a8, 0x2005, false}, {0x8100, 7, false}}, PPPoE: &PPPoE{1, 0x21}, Version: 4, At: 30, HeaderLength: 20, IPLength: 28,
			LengthField: true, DSCP: 46, Proto: 17, Ports: true, Sport: 0x1234, Dport: 53}},
		{tagged(ethernet("0800", ip4(28, 1), udp), VLANPresent|0x6003), Headers{EtherType: 0x0800, VLAN: 3, Tags: []Tag{{0, 0x6003, true}},
			Version: 4, At: 14, HeaderLength: 20, IPLength: 28, LengthField: true, DSCP: 46, Proto: 1, NoPorts: "the protocol has none"}},
		{ethernet("0800", ip4(23, 17), udp), Headers{EtherType: 0x0800, Version: 4, At: 14, HeaderLength: 20, IPLength: 23, LengthField: true, DSCP: 46,
			Proto: 17, NoPorts: "the packet ends before them"}},
		{longer(ethernet("0800", ip4(28, 17), "12"), 42), Headers{EtherType: 0x0800, Version: 4, At: 14, HeaderLength: 20, IPLength: 28, LengthField: true,
			DSCP: 46, Proto: 17, NoPorts: "they were not captured"}},
		{ethernet("0800", ip4(0, 17), udp), Headers{EtherType: 0x0800, Version: 4, At: 14, HeaderLength: 20, IPLength: 28, DSCP: 46,
			Proto: 17, Ports: true, Sport: 0x1234, Dport: 53}},
		{ethernet("0800", "45b8 001c 0001 2003 4011 0000 0a000001 0a000002", udp), Headers{EtherType: 0x0800, Version: 4, At: 14, HeaderLength: 20,
			IPLength: 28, LengthField: true, DSCP: 46, Proto: 17, Fragment: true, More: true, Offset: 24, NoPorts: "it is a fragment"}},
		{ethernet("86dd", ip6(24, 60), extension(44, 8), "1100 0029 00000001", udp), Headers{EtherType: 0x86dd, Version: 6, At: 14, HeaderLength: 56,
			IPLength: 64, LengthField: true, DSCP: 46, Extensions: []uint8{60, 44}, Proto: 17, Fragment: true, More: true, Offset: 40, NoPorts: "it is a fragment"}},
		{Frame{Link: LinkIPv6, Data: append(unhex(ip6(72, 0)), long...)}, Headers{Link: LinkIPv6, Version: 6, HeaderLength: 104, IPLength: 112, LengthField: true,
			DSCP: 46, Extensions: []uint8{0, 0, 0, 0, 0, 0, 0, 0}, LongChain: true, NoPorts: "there are more than 8 extension headers"}},
	} {
		f := whole(c.frame)
		var p packet
		got := headersOf(&f, &p, parseFrame(&f, &p))
		c.want.Captured, c.want.Length, c.want.Link = uint32(len(f.Data)), f.Length, f.Link
		ignore := cmpopts.IgnoreFields(Headers{}, "Src", "Dst")
		if diff := cmp.Diff(c.want, got, ignore); diff != "" {
			t.Errorf("%x (-want +got):\n%s", f.Data, diff)
		}
		if got.Reading == ReadIP && (got.Src.String() != "10.0.0.1" && got.Src.String() != "2001:db8::1" || got.Src.Next() != got.Dst) {
			t.Errorf("%x: from %v to %v", f.Data, got.Src, got.Dst)
		}
	}
}

// Of any bytes, cut anywhere, something is said that fits the parser's answer.
func TestExplainAnyHeaders(t *testing.T) {
	frames := []Frame{
		ethernet("88a8 2005 8100 0007", pppoe, "0021", ip4(28, 17), udp),
		ethernet("86dd", ip6(40, 60), extension(0, 16), extension(44, 8), "1100 0029 00000001", udp),
		{Link: LinkIPv4, Data: unhex("46"+ip4(32, 6)[2:], "01010101", tcp)},
		{Link: LinkIPv6, Data: unhex(ip6(32, 51), "0601000000000000 00000000", tcp)},
	}
	for _, whole := range frames {
		for cut := range len(whole.Data) + 1 {
			for flip := -1; flip < cut; flip++ {
				f := whole
				f.Data, f.Length = bytes.Clone(f.Data[:cut]), uint32(len(whole.Data))
				if flip >= 0 {
					f.Data[flip] ^= 0x11
				}
				var p packet
				result := parseFrame(&f, &p)
				h := headersOf(&f, &p, result)
				if (h.Why == "") != (result == parsedIP) || (h.NoPorts == "") != h.Ports && result == parsedIP {
					t.Fatalf("%x of %d bytes: %+v", f.Data, f.Length, h)
				}
			}
		}
	}
}
