package pcaptest

import "slices"

// What IP carries: ports where the protocol has them, none where it has not; a tunnel is a flow between its
// ends, whatever is in it.

// dataOffset is TCP with another data offset, in words.
func dataOffset(words byte) []byte {
	b := tcp(0, 20)
	b[12] = words << 4
	return b
}

var transportPackets = []packetCase{
	{name: "TCP", frame: ether("0800", ip4{proto: 6, body: tcp(0, 20)}.bytes()), want: ip(tcp4, 60, 74)},
	{name: "TCP, 12 bytes of options", frame: ether("0800", ip4{proto: 6, body: tcp(12, 8)}.bytes()), want: ip(tcp4, 60, 74), like: "TCP"},
	{name: "TCP, 40 bytes of options", frame: ether("0800", ip4{proto: 6, body: tcp(40, 0)}.bytes()), want: ip(tcp4, 80, 94), like: "TCP"},
	{name: "TCP, data offset 0", frame: ether("0800", ip4{proto: 6, body: dataOffset(0)}.bytes()), want: ip(tcp4, 60, 74), like: "TCP"},
	{name: "TCP, data offset beyond the packet", frame: ether("0800", ip4{proto: 6, body: dataOffset(15)}.bytes()), want: ip(tcp4, 60, 74), like: "TCP"},
	{name: "TCP, IPv6, 12 bytes of options", frame: ether("86dd", ip6{next: 6, body: tcp(12, 8)}.bytes()), want: ip(tcp6, 80, 94)},
	{name: "UDP", frame: ether("0800", ip4{proto: 17, body: udp(32)}.bytes()), want: ip(udp4, 60, 74), unlike: "TCP"},
	{name: "UDP-Lite", frame: ether("0800", ip4{proto: 136, body: udp(32)}.bytes()), want: ip("udplite 192.0.2.1:4660 > 198.51.100.7:53", 60, 74), unlike: "UDP"},
	{name: "UDP-Lite, IPv6", frame: ether("86dd", ip6{next: 136, body: udp(32)}.bytes()), want: ip("udplite [2001:db8::1]:4660 > [2001:db8::2]:53", 80, 94)},
	{name: "SCTP", frame: ether("0800", ip4{proto: 132, body: sctp(28)}.bytes()), want: ip("sctp 192.0.2.1:4660 > 198.51.100.7:53", 60, 74), unlike: "UDP"},
	{name: "SCTP, IPv6", frame: ether("86dd", ip6{next: 132, body: sctp(28)}.bytes()), want: ip("sctp [2001:db8::1]:4660 > [2001:db8::2]:53", 80, 94)},
	{name: "DCCP", frame: ether("0800", ip4{proto: 33, body: udp(32)}.bytes()), want: ip("dccp 192.0.2.1:4660 > 198.51.100.7:53", 60, 74), unlike: "UDP"},
	{name: "ICMP echo", frame: ether("0800", ip4{proto: 1, body: octets("0800 0000 1234 0001", "6162636465666768")}.bytes()), want: ip(of4("icmp"), 36, 60)},
	{name: "ICMP echo, another identifier", frame: ether("0800", ip4{proto: 1, body: octets("0800 0000 9999 0002", "6162636465666768")}.bytes()), want: ip(of4("icmp"), 36, 60), like: "ICMP echo"},
	{name: "ICMP error, with the packet it is about", frame: ether("0800", ip4{proto: 1, body: slices.Concat(octets("0301 0000 00000000"), inner(0)[:28])}.bytes()), want: ip(of4("icmp"), 56, 70), like: "ICMP echo"},
	{name: "ICMPv6 neighbour solicitation", frame: ether("86dd", ip6{next: 58, body: slices.Concat(octets("8700 0000 00000000"), zeros(24))}.bytes()), want: ip(of6("icmpv6"), 72, 86)},
	{name: "MLD, behind hop-by-hop with router alert", frame: ether("86dd", ip6{next: 0, body: slices.Concat(octets("3a00 0502 0000 0100"), octets("8f00 0000 00000001"), zeros(20))}.bytes()), want: ip(of6("icmpv6"), 76, 90), like: "ICMPv6 neighbour solicitation"},
	{name: "IGMP, with router alert", frame: ether("0800", ip4{proto: 2, options: 4, body: octets("1600 0000 e00000fb")}.bytes()), want: ip(of4("igmp"), 32, 60)},
	{name: "OSPF", frame: ether("0800", ip4{proto: 89, body: zeros(44)}.bytes()), want: ip(of4("ospf"), 64, 78)},
	{name: "protocol 253", frame: ether("0800", ip4{proto: 253, body: udp(32)}.bytes()), want: ip(of4("proto253"), 60, 74)},
	{name: "protocol 0 in IPv4 is no hop-by-hop", frame: ether("0800", ip4{proto: 0, body: extension(17, 8, udp(32))}.bytes()), want: ip(of4("proto0"), 68, 82)},
	{name: "protocol 44 in IPv4 is no fragment", frame: ether("0800", ip4{proto: 44, body: piece6(17, 1, udp(32))}.bytes()), want: ip(of4("proto44"), 68, 82)},
	{name: "ESP in IPv4", frame: ether("0800", ip4{proto: 50, body: udp(32)}.bytes()), want: ip(of4("esp"), 60, 74), unlike: "UDP"},
	{name: "AH in IPv4 is not walked", frame: ether("0800", ip4{proto: 51, body: authentication(17, 24, udp(32))}.bytes()), want: ip(of4("ah"), 84, 98), unlike: "UDP"},
}

var tunnelPackets = []packetCase{
	{name: "GRE", frame: ether("0800", ip4{proto: 47, body: slices.Concat(octets("0000 0800"), inner(0))}.bytes()), want: ip(of4("gre"), 64, 78)},
	{name: "GRE with key and sequence, another packet inside", frame: ether("0800", ip4{proto: 47, body: slices.Concat(octets("3000 86dd 12340035 00000001"), ip6{next: 17, body: udp(0)}.bytes())}.bytes()), want: ip(of4("gre"), 80, 94), like: "GRE"},
	{name: "GRE in IPv6", frame: ether("86dd", ip6{next: 47, body: slices.Concat(octets("0000 0800"), inner(0))}.bytes()), want: ip(of6("gre"), 84, 98), unlike: "GRE"},
	{name: "IP in IP", frame: ether("0800", ip4{proto: 4, body: inner(0)}.bytes()), want: ip(of4("ipip"), 60, 74)},
	{name: "IP in IP, another flow inside", frame: ether("0800", ip4{proto: 4, body: ip4{proto: 17, src: 77, body: udp(0)}.bytes()}.bytes()), want: ip(of4("ipip"), 48, 62), like: "IP in IP"},
	{name: "IP in IP, a fragment inside is none outside", frame: ether("0800", ip4{proto: 4, body: piece(moreFragments, udp(0))}.bytes()), want: ip(of4("ipip"), 48, 62), like: "IP in IP"},
	{name: "IPv6 in IPv4", frame: ether("0800", ip4{proto: 41, body: ip6{next: 17, body: udp(0)}.bytes()}.bytes()), want: ip(of4("ipv6"), 68, 82)},
	{name: "IPv4 in IPv6", frame: ether("86dd", ip6{next: 4, body: inner(0)}.bytes()), want: ip(of6("ipip"), 80, 94)},
	{name: "IPv6 in IPv6, tunnel option", frame: ether("86dd", ip6{next: 60, body: extension(41, 8, ip6{next: 17, body: udp(0)}.bytes())}.bytes()), want: ip(of6("ipv6"), 96, 110)},
	{name: "VXLAN is a flow of UDP", frame: ether("0800", ip4{proto: 17, body: slices.Concat(udp(0), vxlan(0))}.bytes()), want: ip(udp4, 90, 104)},
	{name: "ESP in UDP is a flow of UDP", frame: ether("0800", ip4{proto: 17, body: udp(72)}.bytes()), want: ip(udp4, 100, 114), like: "VXLAN is a flow of UDP"},
}
