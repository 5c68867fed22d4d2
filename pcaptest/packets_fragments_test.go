package pcaptest

import "slices"

// Fragments: all those between two hosts, of a protocol, share one bucket: only the first has ports, and it
// need not come first.

const (
	moreFragments = 0x2000
	dontFragment  = 0x4000
)

// piece is an IPv4 fragment of 1,000 bytes with 980 bytes of UDP's first bytes, or of others.
func piece(offset uint16, body []byte) []byte {
	return ip4{proto: 17, offset: offset, body: body}.bytes()
}

// piece6 is a Fragment header and what follows it.
func piece6(next byte, offset uint16, body []byte) []byte {
	return slices.Concat([]byte{next, 0, byte(offset >> 8), byte(offset), 0, 0, 0, 1}, body)
}

var (
	text    = zeros(980)
	imitate = udp(972)                              // ports 4660 and 53
	others  = slices.Concat([]byte{0xff}, udp(971)) // ports 65298 and 13312
)

var fragmentPackets = []packetCase{
	{name: "whole datagram", frame: ether("0800", ip4{proto: 17, body: imitate}.bytes()), want: ip(udp4, 1000, 1014)},
	{name: "don't fragment is no fragment", frame: ether("0800", piece(dontFragment, imitate)), want: ip(udp4, 1000, 1014), like: "whole datagram"},
	{name: "the evil bit is no fragment", frame: ether("0800", piece(0x8000, imitate)), want: ip(udp4, 1000, 1014), like: "whole datagram"},

	// In any order.
	{name: "the last, before all others", frame: ether("0800", piece(244, text)), want: fragment(of4("udp"), 1000, 1014), unlike: "whole datagram"},
	{name: "the first", frame: ether("0800", piece(moreFragments, imitate)), want: fragment(of4("udp"), 1000, 1014), like: "the last, before all others"},
	{name: "one between", frame: ether("0800", piece(moreFragments|122, text)), want: fragment(of4("udp"), 1000, 1014), like: "the last, before all others"},
	{name: "the first, with other ports", frame: ether("0800", piece(moreFragments, others)), want: fragment(of4("udp"), 1000, 1014), like: "the last, before all others"},

	// Payload that imitates ports.
	{name: "one that imitates the ports of the whole", frame: ether("0800", piece(moreFragments|122, imitate)), want: fragment(of4("udp"), 1000, 1014), like: "the first", unlike: "whole datagram"},
	{name: "one that imitates other ports", frame: ether("0800", piece(moreFragments|122, others)), want: fragment(of4("udp"), 1000, 1014), like: "the first"},
	{name: "the last, that imitates ports", frame: ether("0800", piece(244, imitate)), want: fragment(of4("udp"), 1000, 1014), like: "the first"},
	{name: "at offset 8, behind a tiny first one", frame: ether("0800", piece(moreFragments|1, imitate)), want: fragment(of4("udp"), 1000, 1014), like: "the first"},
	{name: "at the highest offset", frame: ether("0800", piece(0x1fff, text[:8])), want: fragment(of4("udp"), 28, 60), like: "the first"},
	{name: "the first, of 8 bytes", frame: ether("0800", piece(moreFragments, udp(0))), want: fragment(of4("udp"), 28, 60), like: "the first"},
	{name: "more fragments and don't fragment", frame: ether("0800", piece(moreFragments|dontFragment, imitate)), want: fragment(of4("udp"), 1000, 1014), like: "the first"},
	{name: "the first, with options", frame: ether("0800", ip4{proto: 17, options: 12, offset: moreFragments, body: imitate}.bytes()), want: fragment(of4("udp"), 1012, 1026), like: "the first"},
	{name: "the first, in QinQ", frame: ether("88a8 0064 8100 00c8 0800", piece(moreFragments, imitate)), want: fragment(of4("udp"), 1000, 1022).in(100), like: "the first"},
	{name: "the first, cut by the snaplen", frame: captured(ether("0800", piece(moreFragments, imitate)), 40), want: fragment(of4("udp"), 1000, 1014), like: "the first"},
	{name: "the last, padded", frame: behind(ether("0800", piece(244, zeros(1))), slices.Concat(udp(0), zeros(17))), want: fragment(of4("udp"), 21, 60), like: "the first"},

	// Another bucket: another protocol, another host.
	{name: "the first, of TCP", frame: ether("0800", ip4{proto: 6, offset: moreFragments, body: tcp(0, 960)}.bytes()), want: fragment(of4("tcp"), 1000, 1014), unlike: "the first"},
	{name: "one of ICMP", frame: ether("0800", ip4{proto: 1, offset: 185, body: text}.bytes()), want: fragment(of4("icmp"), 1000, 1014), unlike: "the first"},
	{name: "from another host", frame: ether("0800", ip4{proto: 17, offset: moreFragments, src: 9, body: imitate}.bytes()), want: fragment("udp 192.0.2.9 > 198.51.100.7", 1000, 1014), unlike: "the first"},

	// IPv6.
	{name: "IPv6, whole datagram", frame: ether("86dd", ip6{next: 17, body: udp(972)}.bytes()), want: ip(udp6, 1020, 1034)},
	{name: "IPv6, the last, before all others", frame: ether("86dd", ip6{next: 44, body: piece6(17, 1960, text)}.bytes()), want: fragment(of6("udp"), 1028, 1042), unlike: "IPv6, whole datagram"},
	{name: "IPv6, the first", frame: ether("86dd", ip6{next: 44, body: piece6(17, 1, imitate)}.bytes()), want: fragment(of6("udp"), 1028, 1042), like: "IPv6, the last, before all others"},
	{name: "IPv6, one between", frame: ether("86dd", ip6{next: 44, body: piece6(17, 976|1, text)}.bytes()), want: fragment(of6("udp"), 1028, 1042), like: "IPv6, the first"},
	{name: "IPv6, atomic", frame: ether("86dd", ip6{next: 44, body: piece6(17, 0, imitate)}.bytes()), want: fragment(of6("udp"), 1028, 1042), like: "IPv6, the first", unlike: "IPv6, whole datagram"},
	{name: "IPv6, one that imitates the ports of the whole", frame: ether("86dd", ip6{next: 44, body: piece6(17, 976|1, imitate)}.bytes()), want: fragment(of6("udp"), 1028, 1042), like: "IPv6, the first"},
	{name: "IPv6, one that imitates other ports", frame: ether("86dd", ip6{next: 44, body: piece6(17, 976|1, others)}.bytes()), want: fragment(of6("udp"), 1028, 1042), like: "IPv6, the first"},
	{name: "IPv6, behind hop-by-hop", frame: ether("86dd", ip6{next: 0, body: extension(44, 8, piece6(17, 1, imitate))}.bytes()), want: fragment(of6("udp"), 1036, 1050), like: "IPv6, the first"},
	{name: "IPv6, behind routing and destination options", frame: ether("86dd", ip6{next: 43, body: extension(60, 24, extension(44, 8, piece6(17, 1, imitate)))}.bytes()), want: fragment(of6("udp"), 1060, 1074), like: "IPv6, the first"},
	{name: "IPv6, behind 8 extension headers", frame: ether("86dd", ip6{next: 60, body: chain(8, 44, piece6(17, 1, imitate))}.bytes()), want: fragment(of6("udp"), 1092, 1106), like: "IPv6, the first"},
	{name: "IPv6, behind an offloaded tag", frame: offloaded(ether("86dd", ip6{next: 44, body: piece6(17, 1, imitate)}.bytes()), 100), want: fragment(of6("udp"), 1028, 1046).in(100), like: "IPv6, the first"},
	{name: "IPv6, of destination options: the walk ends", frame: ether("86dd", ip6{next: 44, body: piece6(60, 1, extension(17, 8, imitate))}.bytes()), want: fragment(of6("proto60"), 1036, 1050), unlike: "IPv6, the first"},
	{name: "IPv6, one between that imitates destination options", frame: ether("86dd", ip6{next: 44, body: piece6(60, 976, extension(17, 8, imitate))}.bytes()), want: fragment(of6("proto60"), 1036, 1050), like: "IPv6, of destination options: the walk ends"},
	{name: "IPv6, of ESP", frame: ether("86dd", ip6{next: 44, body: piece6(50, 1, imitate)}.bytes()), want: fragment(of6("esp"), 1028, 1042), unlike: "IPv6, the first"},
	{name: "IPv6, a fragment of a fragment", frame: ether("86dd", ip6{next: 44, body: piece6(44, 1, piece6(17, 1, imitate))}.bytes()), want: fragment(of6("proto44"), 1036, 1050)},
	{name: "IPv6, TCP", frame: ether("86dd", ip6{next: 44, body: piece6(6, 1, tcp(0, 960))}.bytes()), want: fragment(of6("tcp"), 1028, 1042), unlike: "IPv6, the first"},
	{name: "IPv6, from another host", frame: ether("86dd", ip6{next: 44, src: 9, body: piece6(17, 1, imitate)}.bytes()), want: fragment("udp 2001:db8::9 > 2001:db8::2", 1028, 1042), unlike: "IPv6, the first"},
	{name: "IPv6, Fragment header alone", frame: ether("86dd", ip6{next: 44, body: piece6(17, 1, nil)}.bytes()), want: fragment(of6("udp"), 48, 62), like: "IPv6, the first"},
	{name: "IPv6, Fragment header beyond the packet", frame: ether("86dd", ip6{next: 44, payload: 7, body: piece6(17, 1, imitate)}.bytes()), want: malformed},
}
