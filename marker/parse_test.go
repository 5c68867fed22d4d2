package marker

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// SPEC 4.4 and 4.1: which lengths are believed.
func TestParseLengths(t *testing.T) {
	zeros := func(n int) string { return strings.Repeat("00", n) }
	runParse(t, []parseCase{
		{"IPv4", ethernet("0800", ip4(28, 17), udp), v4(14, 28)},
		{"IPv4 padded to 60", ethernet("0800", ip4(28, 17), udp, zeros(18)), v4(14, 28)},
		{"IPv4 with a trailer of 1000", longer(ethernet("0800", ip4(28, 17), udp), 1042), v4(14, 28)},
		{"IPv4 cut by the snaplen, all headers there", longer(ethernet("0800", ip4(1500, 17), udp), 1514), v4(14, 1500)},
		{"IPv4 length ends at the frame's end", longer(ethernet("0800", ip4(1501, 17), udp), 1515), v4(14, 1501)},
		{"IPv4 length one beyond the frame", longer(ethernet("0800", ip4(1501, 17), udp), 1514), malformed},
		{"IPv4 length one beyond what was captured, of a whole frame", ethernet("0800", ip4(29, 17), udp), malformed},
		{"IPv4 length 0", longer(ethernet("0800", ip4(0, 17), udp), 70_014), v4(14, 70_000)},
		{"IPv4 length 0 in a short frame", ethernet("0800", ip4(0, 17), udp, zeros(2)), v4(14, 30)},
		{"IPv4 length 0, no transport", ethernet("0800", ip4(0, 17)), v4(14, 20, noPorts)},
		{"IPv4 length 19", ethernet("0800", ip4(19, 17), udp), malformed},
		{"IPv4 length 20, padding is no port", ethernet("0800", ip4(20, 17), udp), v4(14, 20, noPorts)},
		{"IPv4 length 23, one byte short of ports", ethernet("0800", ip4(23, 17), udp), v4(14, 23, noPorts)},
		{"IPv4 length 24, ports and no more", ethernet("0800", ip4(24, 17), udp), v4(14, 24)},
		{"IPv4 ports of which 3 bytes were captured", longer(ethernet("0800", ip4(28, 17), "123400"), 42), v4(14, 28, noPorts)},
		{"IPv4 ports of which 4 bytes were captured", longer(ethernet("0800", ip4(28, 17), "12340035"), 42), v4(14, 28)},
		{"IPv6", ethernet("86dd", ip6(8, 17), udp), v6(14, 48)},
		{"IPv6 with a trailer", ethernet("86dd", ip6(8, 17), udp, "ffffffff"), v6(14, 48)},
		{"IPv6 payload one beyond the frame", ethernet("86dd", ip6(9, 17), udp), malformed},
		{"IPv6 cut by the snaplen", longer(ethernet("86dd", ip6(1460, 17), udp), 1514), v6(14, 1500)},
		{"IPv6 payload 0 is 40 bytes, what follows is a trailer", ethernet("86dd", ip6(0, 17), udp), v6(14, 40, noPorts)},
		{"IPv6 payload 0, no next header", ethernet("86dd", ip6(0, 59)), v6(14, 40, noPorts, proto(59))},
		{"IPv6 payload 0, frame of 65,575 bytes of IP", longer(ethernet("86dd", ip6(0, 17), udp), 14+65_575), v6(14, 40, noPorts)},
		{"IPv6 payload 0, frame of 65,576 bytes of IP", longer(ethernet("86dd", ip6(0, 17), udp), 14+65_576), v6(14, 65_576)},
		{"IPv6 payload 0 of a super-packet", super(longer(ethernet("86dd", ip6(0, 17), udp), 3014), 1000, 3), v6(14, 3000)},
		{"IPv6 payload 65,535", longer(ethernet("86dd", ip6(65_535, 17), udp), 14+65_575), v6(14, 65_575)},
		{"IPv6 payload 3: ports are padding", ethernet("86dd", ip6(3, 17), udp), v6(14, 43, noPorts)},
		{"IPv6 payload 4", ethernet("86dd", ip6(4, 17), udp), v6(14, 44)},
	})
}

// SPEC 4.4: a header that contradicts itself.
func TestParseHeaders(t *testing.T) {
	head := func(first string) string { return first + ip4(28, 17)[2:] }
	options := func(ihl, total int) string {
		return fmt.Sprintf("4%x", ihl) + ip4(total, 17)[2:] + strings.Repeat("01", ihl*4-20)
	}
	runParse(t, []parseCase{
		{"IHL 0", ethernet("0800", head("40"), udp), malformed},
		{"IHL 4", ethernet("0800", head("44"), udp), malformed},
		{"IHL 6", ethernet("0800", options(6, 32), udp), v4(14, 32, transportAt(38))},
		{"IHL 15", ethernet("0800", options(15, 68), udp), v4(14, 68, transportAt(74))},
		{"IHL 15, options cut short by the snaplen", longer(ethernet("0800", "4f"+ip4(68, 17)[2:], udp), 82), malformed},
		{"total length below IHL", ethernet("0800", options(6, 23), udp), malformed},
		{"total length is IHL", ethernet("0800", options(6, 24), udp), v4(14, 24, transportAt(38), noPorts)},
		{"EtherType IPv4, version 6", ethernet("0800", ip6(8, 17), udp), malformed},
		{"EtherType IPv6, version 4", ethernet("86dd", ip4(48, 17), udp, ip6(0, 0)), malformed},
		{"EtherType IPv4, version 0", ethernet("0800", head("05"), udp), malformed},
		{"EtherType IPv6, version 15", ethernet("86dd", "fb"+ip6(8, 17)[2:], udp), malformed},
	})
}

// SPEC 4.2: up to four tags, in the data or offloaded; the VLAN is the outermost.
func TestParseTags(t *testing.T) {
	ip := "0800" + ip4(28, 17) + udp
	runParse(t, []parseCase{
		{"none", ethernet(ip), v4(14, 28)},
		{"802.1Q", ethernet("8100 0064", ip), v4(18, 28, vlan(100))},
		{"802.1ad", ethernet("88a8 0064", ip), v4(18, 28, vlan(100))},
		{"priority and DEI bits are no VLAN", ethernet("8100 f064", ip), v4(18, 28, vlan(100))},
		{"VLAN 4095", ethernet("8100 ffff", ip), v4(18, 28, vlan(4095))},
		{"QinQ", ethernet("88a8 0064 8100 00c8", ip), v4(22, 28, vlan(100))},
		{"three", ethernet("8100 0001 8100 0002 88a8 0003", ip), v4(26, 28, vlan(1))},
		{"four", ethernet("88a8 0001 8100 0002 88a8 0003 8100 0004", ip), v4(30, 28, vlan(1))},
		{"five", ethernet("88a8 0001 8100 0002 88a8 0003 8100 0004 8100 0005", ip), notIP},
		{"priority tag outside", ethernet("8100 e000 8100 0064", ip), v4(22, 28)},
		{"0x9100 is no tag", ethernet("9100 0064", ip), notIP},
		{"offloaded", tagged(ethernet(ip), 100), v4(14, 28, vlan(100))},
		{"offloaded with priority", tagged(ethernet(ip), 0xf064), v4(14, 28, vlan(100))},
		{"offloaded VLAN 0", tagged(ethernet(ip), 0), v4(14, 28)},
		{"offloaded outside one in the data", tagged(ethernet("8100 00c8", ip), 100), v4(18, 28, vlan(100))},
		{"offloaded VLAN 0 outside one in the data", tagged(ethernet("8100 00c8", ip), 0), v4(18, 28)},
		{"offloaded and three", tagged(ethernet("8100 0001 8100 0002 88a8 0003", ip), 100), v4(26, 28, vlan(100))},
		{"offloaded and four", tagged(ethernet("8100 0001 8100 0002 88a8 0003 8100 0004", ip), 100), notIP},
		{"tags and IPv6", ethernet("88a8 0064 8100 00c8 86dd", ip6(8, 17), udp), v6(22, 48, vlan(100))},
		{"tags and ARP", ethernet("8100 0064 0806", strings.Repeat("00", 28)), notIP},
	})
}

// SPEC 4.2: a tag that the device took off is the same packet, the same key.
func TestParseOffloadedTagSameKey(t *testing.T) {
	for _, inner := range []string{"", "8100 00c8"} {
		in := look(ethernet("88a8 0064", inner, "0800", ip4(28, 17), udp))
		off := look(tagged(ethernet(inner, "0800", ip4(28, 17), udp), 100))
		in.l3, in.l4 = in.l3-4, in.l4-4
		if diff := cmp.Diff(in, off, cmp.AllowUnexported(seen{})); diff != "" {
			t.Errorf("in the data %+v, offloaded:\n%s", in, diff)
		}
	}
}

// SPEC 4.2: PPPoE sessions, and what is not IP.
func TestParseOtherThanIP(t *testing.T) {
	zeros := strings.Repeat("00", 46)
	runParse(t, []parseCase{
		{"PPPoE, IPv4", ethernet(pppoe, "0021", ip4(28, 17), udp), v4(22, 28)},
		{"PPPoE, IPv6", ethernet(pppoe, "0057", ip6(8, 17), udp), v6(22, 48)},
		{"PPPoE, LCP", ethernet(pppoe, "c021", zeros), notIP},
		{"PPPoE, an EtherType for a protocol", ethernet(pppoe, "0800", ip4(28, 17), udp), notIP},
		{"PPPoE, a tag for a protocol", ethernet(pppoe, "8100", "0064 0800", ip4(28, 17), udp), notIP},
		{"PPPoE, code of discovery", ethernet("8864 1109 0001 0000 0021", ip4(28, 17), udp), notIP},
		{"PPPoE, version 2", ethernet("8864 2100 0001 0000 0021", ip4(28, 17), udp), notIP},
		{"PPPoE discovery", ethernet("8863 1109 0000 0000", zeros), notIP},
		{"PPPoE behind two tags", ethernet("88a8 0064 8100 00c8", pppoe, "0021", ip4(28, 17), udp), v4(30, 28, vlan(100))},
		{"PPPoE behind four tags, IPv6", ethernet("8100 0001 8100 0002 8100 0003 8100 0004", pppoe, "0057", ip6(8, 17), udp), v6(38, 48, vlan(1))},
		{"PPPoE, IPv4, version 6", ethernet(pppoe, "0021", ip6(8, 17), udp), malformed},
		{"MPLS", ethernet("8847 00001140", ip4(28, 17), udp), notIP},
		{"MPLS multicast", ethernet("8848 00001140", ip4(28, 17), udp), notIP},
		{"ARP", ethernet("0806 0001 0800 0604 0001", zeros), notIP},
		{"802.3 length and LLC", ethernet("0026 4242 03", zeros), notIP},
		{"EtherType 0", ethernet("0000", ip4(28, 17), udp), notIP},
		{"LLDP", ethernet("88cc", zeros), notIP},
		{"header alone", ethernet("0806"), notIP},
	})
}

// SPEC 4.3: no fragment has ports, and its protocol is what follows the Fragment header.
func TestParseFragments(t *testing.T) {
	at := func(fragment string) Frame {
		return ethernet("0800", strings.Replace(ip4(28, 17), "0001 0000", "0001 "+fragment, 1), udp)
	}
	f6 := func(next int, offset string) string { return fmt.Sprintf("%02x00 %s 00000001", next, offset) }
	runParse(t, []parseCase{
		{"IPv4, don't fragment", at("4000"), v4(14, 28)},
		{"IPv4, reserved bit", at("8000"), v4(14, 28)},
		{"IPv4, first", at("2000"), v4(14, 28, fragment)},
		{"IPv4, middle", at("2010"), v4(14, 28, fragment)},
		{"IPv4, last", at("0010"), v4(14, 28, fragment)},
		{"IPv4, offset 1", at("0001"), v4(14, 28, fragment)},
		{"IPv4, offset 0x1000", at("1000"), v4(14, 28, fragment)},
		{"IPv6, first", ethernet("86dd", ip6(16, 44), f6(17, "0001"), udp), v6(14, 56, fragment, transportAt(62))},
		{"IPv6, middle", ethernet("86dd", ip6(16, 44), f6(6, "0009"), udp), v6(14, 56, fragment, proto(6), transportAt(62))},
		{"IPv6, last", ethernet("86dd", ip6(16, 44), f6(17, "0008"), udp), v6(14, 56, fragment, transportAt(62))},
		{"IPv6, atomic", ethernet("86dd", ip6(16, 44), f6(17, "0000"), udp), v6(14, 56, fragment, transportAt(62))},
		{"IPv6, the walk stops at the Fragment header", ethernet("86dd", ip6(24, 44), f6(60, "0001"), extension(17, 8), udp), v6(14, 64, fragment, proto(60), transportAt(62))},
		{"IPv6, Fragment header twice", ethernet("86dd", ip6(24, 44), f6(44, "0001"), f6(17, "0001"), udp), v6(14, 64, fragment, proto(44), transportAt(62))},
		{"IPv6, behind hop-by-hop", ethernet("86dd", ip6(24, 0), extension(44, 8), f6(17, "0001"), udp), v6(14, 64, fragment, transportAt(70))},
		{"IPv6, behind 8 extension headers", ethernet("86dd", ip6(80, 60), strings.Repeat(extension(60, 8), 7), extension(44, 8), f6(17, "0001"), udp),
			v6(14, 120, fragment, transportAt(14+40+72))},
		{"IPv6, cut short by the packet's end", ethernet("86dd", ip6(7, 44), f6(17, "0001")), malformed},
		{"IPv6, alone", ethernet("86dd", ip6(8, 44), f6(17, "0001")), v6(14, 48, fragment, transportAt(62))},
	})
}

// SPEC 4.2: IPv6 extension headers.
func TestParseExtensions(t *testing.T) {
	chain := func(n, last int) string { return strings.Repeat(extension(60, 8), n-1) + extension(last, 8) }
	ah := func(next, words int) string {
		return fmt.Sprintf("%02x%02x", next, words-2) + strings.Repeat("00", words*4-2)
	}
	runParse(t, []parseCase{
		{"hop-by-hop", ethernet("86dd", ip6(16, 0), extension(17, 8), udp), v6(14, 56, transportAt(62))},
		{"routing", ethernet("86dd", ip6(32, 43), extension(17, 24), udp), v6(14, 72, transportAt(78))},
		{"destination options of 2048 bytes", longer(ethernet("86dd", ip6(2056, 60), extension(17, 2048), udp), 14+40+2056), v6(14, 2096, transportAt(14+40+2048))},
		{"AH of 12 bytes", ethernet("86dd", ip6(20, 51), ah(17, 3), udp), v6(14, 60, transportAt(66))},
		{"AH of 24 bytes", ethernet("86dd", ip6(32, 51), ah(17, 6), udp), v6(14, 72, transportAt(78))},
		{"AH of 1028 bytes", ethernet("86dd", ip6(1036, 51), ah(17, 257), udp), v6(14, 1076, transportAt(54+1028))},
		{"AH in IPv4 is no extension header", ethernet("0800", ip4(40, 51), ah(17, 3), udp), v4(14, 40, proto(51), noPorts)},
		{"hop-by-hop, routing, destination, AH", ethernet("86dd", ip6(44, 0), extension(43, 8), extension(60, 8), extension(51, 8), ah(6, 3), udp),
			v6(14, 84, proto(6), transportAt(54+36))},
		{"hop-by-hop that is not first", ethernet("86dd", ip6(24, 60), extension(0, 8), extension(17, 8), udp), v6(14, 64, transportAt(70))},
		{"8", ethernet("86dd", ip6(72, 60), chain(8, 17), udp), v6(14, 112, transportAt(54+64))},
		{"9", ethernet("86dd", ip6(80, 60), chain(9, 17), udp), v6(14, 120, proto(60), long, transportAt(54+64))},
		{"8, then AH", ethernet("86dd", ip6(84, 60), chain(8, 51), ah(17, 3), udp), v6(14, 124, proto(51), long, transportAt(54+64))},
		{"ESP", ethernet("86dd", ip6(16, 50), extension(17, 8), udp), v6(14, 56, proto(50), noPorts)},
		{"no next header", ethernet("86dd", ip6(16, 59), extension(17, 8), udp), v6(14, 56, proto(59), noPorts)},
		{"mobility is not walked", ethernet("86dd", ip6(16, 135), extension(17, 8), udp), v6(14, 56, proto(135), noPorts)},
		{"ICMPv6", ethernet("86dd", ip6(8, 58), udp), v6(14, 48, proto(58), noPorts)},
		{"an extension header that ends at the packet's end", ethernet("86dd", ip6(8, 60), extension(17, 8), udp), v6(14, 48, noPorts, transportAt(62))},
		{"beyond the packet's end", ethernet("86dd", ip6(8, 60), extension(17, 16), udp), malformed},
		{"none where the packet says so", ethernet("86dd", ip6(0, 60)), malformed},
	})
}

// SPEC 4.2: the protocols that have ports, and no other.
func TestParsePorts(t *testing.T) {
	have := map[int]bool{6: true, 17: true, 33: true, 132: true, 136: true}
	for n := range 256 {
		want4, want6 := v4(14, 28, proto(n)), v6(14, 48, proto(n))
		if !have[n] {
			noPorts(&want4)
			noPorts(&want6)
		}
		if got := look(ethernet("0800", ip4(28, n), udp)); got != want4 {
			t.Errorf("protocol %d in IPv4: %+v", n, got)
		}
		switch n {
		case 0, 43, 44, 51, 60: // extension headers
			continue
		}
		if got := look(ethernet("86dd", ip6(8, n), udp)); got != want6 {
			t.Errorf("protocol %d in IPv6: %+v", n, got)
		}
	}
}

// SPEC 4.2: devices without a link header.
func TestParseWithoutLinkHeader(t *testing.T) {
	at := func(link Link, parts ...string) Frame { return Frame{Data: unhex(parts...), Link: link} }
	runParse(t, []parseCase{
		{"IPv4", at(LinkIPv4, ip4(28, 17), udp), v4(0, 28)},
		{"IPv6", at(LinkIPv6, ip6(8, 17), udp), v6(0, 48)},
		{"neither", at(LinkOther, ip4(28, 17), udp), notIP},
		{"IPv4, version 6", at(LinkIPv4, ip6(8, 17), udp), malformed},
		{"IPv6, version 4", at(LinkIPv6, ip4(28, 17), udp, ip6(0, 0)), malformed},
		{"IPv4 of 19 bytes", longer(Frame{Data: unhex(ip4(28, 17))[:19:19], Link: LinkIPv4}, 28), malformed},
		{"IPv4, nothing captured", longer(at(LinkIPv4), 28), malformed},
	})
}

// A frame that is cut anywhere in a header is malformed, never not IP; behind the headers it is what it
// was, with ports from the byte on at which both are there.
func TestParseCutAnywhere(t *testing.T) {
	fragment6 := "1100 0001 00000001"
	for _, c := range []struct {
		name    string
		frame   Frame
		headers int // bytes of link, tags, IP and extension headers
		what    string
		ported  bool
	}{
		{"IPv4", ethernet("0800", ip4(28, 17), udp), 34, "IPv4", true},
		{"IPv4 with options", ethernet("0800", "48"+ip4(40, 17)[2:], "010101010101010101010101", udp), 46, "IPv4", true},
		{"IPv4 behind four tags", ethernet("88a8 0001 8100 0002 8100 0003 8100 0004 0800", ip4(40, 6), tcp), 50, "IPv4", true},
		{"IPv4, offloaded tag", tagged(ethernet("8100 0001 0800", ip4(40, 6), tcp), 100), 38, "IPv4", true},
		{"IPv4 in PPPoE", ethernet("8100 0001", pppoe, "0021", ip4(28, 17), udp), 46, "IPv4", true},
		{"IPv4 ICMP", ethernet("0800", ip4(28, 1), udp), 34, "IPv4", false},
		{"IPv4 without link header", Frame{Data: unhex(ip4(28, 17), udp), Link: LinkIPv4}, 20, "IPv4", true},
		{"IPv6", ethernet("86dd", ip6(20, 6), tcp), 54, "IPv6", true},
		{"IPv6 in PPPoE", ethernet(pppoe, "0057", ip6(20, 6), tcp), 62, "IPv6", true},
		{"IPv6 with extension headers", ethernet("86dd", ip6(52, 0), extension(60, 8), extension(43, 16), extension(6, 8), tcp), 86, "IPv6", true},
		{"IPv6 with AH", ethernet("86dd", ip6(44, 51), "06040000"+strings.Repeat("00", 20), tcp), 78, "IPv6", true},
		{"IPv6 fragment", ethernet("86dd", ip6(24, 0), extension(44, 8), fragment6, udp), 70, "IPv6", false},
		{"IPv6 without link header", Frame{Data: unhex(ip6(20, 6), tcp), Link: LinkIPv6}, 40, "IPv6", true},
		{"ARP", ethernet("8100 0001 0806", strings.Repeat("00", 28)), 18, "not IP", false},
		{"MPLS", ethernet("8847 00001140", ip4(28, 17), udp), 14, "not IP", false},
		{"LCP in PPPoE", ethernet(pppoe, "c021", "01010004"), 22, "not IP", false},
		{"five tags", ethernet("88a8 0001 8100 0002 8100 0003 8100 0004 8100 0005 0800", ip4(28, 17), udp), 30, "not IP", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			whole := c.frame
			for n := range len(whole.Data) + 1 {
				f := whole
				f.Data = whole.Data[:n:n] // captured bytes alone are there to be read
				f.Length = uint32(len(whole.Data))
				got := look(f)
				want := c.what
				if n < c.headers {
					want = "malformed"
				}
				if got.what != want {
					t.Errorf("cut to %d of %d bytes: %s, not %s", n, len(whole.Data), got.what, want)
				}
				if got.what == want && n >= c.headers && (got.sport != 0) != (c.ported && n >= c.headers+4) {
					t.Errorf("cut to %d of %d bytes: port %d", n, len(whole.Data), got.sport)
				}
				// The frame itself as short as that: what IP claims is beyond it.
				f.Length = uint32(n)
				if n == 0 {
					continue // look would take it for a whole frame
				}
				if c.what != "not IP" && n < len(whole.Data) {
					want = "malformed"
				}
				if got := look(f); got.what != want {
					t.Errorf("a frame of %d bytes: %s, not %s", n, got.what, want)
				}
			}
		})
	}
}

// The very same packet has the same key however it comes.
func TestParseSameFlow(t *testing.T) {
	want := look(Frame{Data: unhex(ip4(28, 17), udp), Link: LinkIPv4})
	for _, f := range []Frame{
		ethernet("0800", ip4(28, 17), udp), ethernet("8100 0064 0800", ip4(28, 17), udp),
		ethernet(pppoe, "0021", ip4(28, 17), udp), ethernet("0800", "46"+ip4(32, 17)[2:], "01010101", udp),
	} {
		got := look(f)
		got.l3, got.l4, got.vlan, got.length = want.l3, want.l4, want.vlan, want.length
		if got != want {
			t.Errorf("%x: %+v, not %+v", f.Data, got, want)
		}
	}
	if got := look(ethernet("0800", strings.Replace(ip4(28, 17), "0a000001 0a000002", "0a000002 0a000001", 1), udp)); got != v4(14, 28, flow("10.0.0.2", "10.0.0.1")) {
		t.Errorf("the way back: %+v", got)
	}
	if got := look(ethernet("0800", ip4(32, 132), sctp)); got != v4(14, 32, proto(132), ports(0x1234, 53)) {
		t.Errorf("SCTP: %+v", got)
	}
}
