package pcaptest

import (
	"slices"

	"github.com/tricolor-policer/tricolor/marker"
)

// Headers: options and extension headers stand between the addresses and the ports; a header that
// contradicts itself is malformed.

var ipv4HeaderPackets = []packetCase{
	{name: "IHL 5", frame: ether("0800", ip4{proto: 17, body: udp(0)}.bytes()), want: ip(udp4, 28, 60)},
	{name: "IHL 6", frame: ether("0800", ip4{proto: 17, options: 4, body: udp(0)}.bytes()), want: ip(udp4, 32, 60), like: "IHL 5"},
	{name: "IHL 15", frame: ether("0800", ip4{proto: 17, options: 40, body: udp(0)}.bytes()), want: ip(udp4, 68, 82), like: "IHL 5"},
	{name: "IHL 15, TCP with 40 bytes of options", frame: ether("0800", ip4{proto: 6, options: 40, body: tcp(40, 0)}.bytes()), want: ip(tcp4, 120, 134)},
	{name: "IHL 15 on tun", frame: frameFrom(marker.LinkIPv4, ip4{proto: 17, options: 40, body: udp(0)}.bytes()), want: ip(udp4, 68, 68), like: "IHL 5"},
	{name: "IHL 0", frame: ether("0800", ip4{proto: 17, first: 0x40, body: udp(0)}.bytes()), want: malformed},
	{name: "IHL 1", frame: ether("0800", ip4{proto: 17, first: 0x41, body: udp(0)}.bytes()), want: malformed},
	{name: "IHL 4", frame: ether("0800", ip4{proto: 17, first: 0x44, body: udp(0)}.bytes()), want: malformed},
	{name: "IHL 15 in 28 bytes", frame: ether("0800", ip4{proto: 17, first: 0x4f, body: udp(0)}.bytes()), want: malformed},
	{name: "IHL 15 in 28 bytes, padding is no options", frame: behind(ether("0800", ip4{proto: 17, first: 0x4f, body: udp(0)}.bytes()), zeros(60)), want: malformed},
	{name: "total length 1", frame: ether("0800", ip4{proto: 17, total: 1, body: udp(0)}.bytes()), want: malformed},
	{name: "total length 19", frame: ether("0800", ip4{proto: 17, total: 19, body: udp(0)}.bytes()), want: malformed},
	{name: "total length 20", frame: ether("0800", ip4{proto: 17, total: 20, body: udp(0)}.bytes()), want: ip(of4("udp"), 20, 60)},
	{name: "total length one below IHL", frame: ether("0800", ip4{proto: 17, options: 8, total: 27, body: udp(0)}.bytes()), want: malformed},
	{name: "total length is IHL", frame: ether("0800", ip4{proto: 17, options: 8, total: 28, body: udp(0)}.bytes()), want: ip(of4("udp"), 28, 60), like: "total length 20"},
	{name: "total length at the frame's end", frame: captured(ether("0800", ip4{proto: 17, body: udp(1000)}.bytes()), 60), want: ip(udp4, 1028, 1042), like: "IHL 5"},
	{name: "total length one beyond the frame", frame: ether("0800", ip4{proto: 17, total: 1029, body: udp(1000)}.bytes()), want: malformed},
	{name: "total length one beyond the frame, cut by the snaplen", frame: captured(ether("0800", ip4{proto: 17, total: 1029, body: udp(1000)}.bytes()), 60), want: malformed},
	{name: "total length 65,535 in 60 bytes", frame: behind(ether("0800", ip4{proto: 17, total: 65_535, body: udp(0)}.bytes()), zeros(18)), want: malformed},
	{name: "total length one beyond, on tun", frame: frameFrom(marker.LinkIPv4, ip4{proto: 17, total: 29, body: udp(0)}.bytes()), want: malformed},
	{name: "total length one beyond, of a super-packet", frame: super(ether("0800", ip4{proto: 6, total: 14_641, body: tcp(0, 14_600)}.bytes()), 1460, 10), want: malformed},
	{name: "version 6 behind 0800", frame: ether("0800", ip6{next: 17, body: udp(0)}.bytes()), want: malformed},
	{name: "version 0", frame: ether("0800", ip4{proto: 17, first: 0x05, body: udp(0)}.bytes()), want: malformed},
	{name: "version 5", frame: ether("0800", ip4{proto: 17, first: 0x55, body: udp(0)}.bytes()), want: malformed},
	{name: "version 6 on a device of IPv4", frame: frameFrom(marker.LinkIPv4, ip6{next: 17, body: udp(0)}.bytes()), want: malformed},
	{name: "0800 and nothing behind it", frame: ether("0800"), want: malformed},
	{name: "19 bytes of IPv4", frame: ether("0800", ip4{proto: 17}.bytes()[:19]), want: malformed},
}

var ipv6HeaderPackets = []packetCase{
	{name: "no extension header", frame: ether("86dd", ip6{next: 17, body: udp(92)}.bytes()), want: ip(udp6, 140, 154)},
	{name: "hop-by-hop", frame: ether("86dd", ip6{next: 0, body: extension(17, 8, udp(92))}.bytes()), want: ip(udp6, 148, 162), like: "no extension header"},
	{name: "routing of 24 bytes", frame: ether("86dd", ip6{next: 43, body: extension(17, 24, udp(92))}.bytes()), want: ip(udp6, 164, 178), like: "no extension header"},
	{name: "segment routing, three segments", frame: ether("86dd", ip6{next: 43, body: extension(17, 56, udp(92))}.bytes()), want: ip(udp6, 196, 210), like: "no extension header"},
	{name: "destination options", frame: ether("86dd", ip6{next: 60, body: extension(17, 16, udp(92))}.bytes()), want: ip(udp6, 156, 170), like: "no extension header"},
	{name: "destination options of 2,048 bytes", frame: ether("86dd", ip6{next: 60, body: extension(17, 2048, udp(92))}.bytes()), want: ip(udp6, 2188, 2202), like: "no extension header"},
	{name: "AH of 12 bytes: (1 + 2) × 4", frame: ether("86dd", ip6{next: 51, body: authentication(17, 12, udp(92))}.bytes()), want: ip(udp6, 152, 166), like: "no extension header"},
	{name: "AH of 24 bytes: (4 + 2) × 4", frame: ether("86dd", ip6{next: 51, body: authentication(17, 24, udp(92))}.bytes()), want: ip(udp6, 164, 178), like: "no extension header"},
	{name: "AH of 28 bytes, no multiple of 8", frame: ether("86dd", ip6{next: 51, body: authentication(17, 28, udp(92))}.bytes()), want: ip(udp6, 168, 182), like: "no extension header"},
	{name: "hop-by-hop, routing, destination options and AH", frame: ether("86dd", ip6{next: 0, body: extension(43, 8, extension(60, 24, extension(51, 8, authentication(17, 24, udp(92)))))}.bytes()), want: ip(udp6, 204, 218), like: "no extension header"},
	{name: "extension headers on tun", frame: frameFrom(marker.LinkIPv6, ip6{next: 0, body: extension(60, 8, extension(17, 8, udp(92)))}.bytes()), want: ip(udp6, 156, 156), like: "no extension header"},
	{name: "hop-by-hop and TCP", frame: ether("86dd", ip6{next: 0, body: extension(6, 8, tcp(12, 0))}.bytes()), want: ip(tcp6, 80, 94)},

	// Where the walk ends: the protocol is kept, the payload is not read as ports.
	{name: "ESP", frame: ether("86dd", ip6{next: 50, body: udp(92)}.bytes()), want: ip(of6("esp"), 140, 154)},
	{name: "ESP behind destination options", frame: ether("86dd", ip6{next: 60, body: extension(50, 8, zeros(100))}.bytes()), want: ip(of6("esp"), 148, 162), like: "ESP"},
	{name: "ESP whose payload imitates a header", frame: ether("86dd", ip6{next: 50, body: extension(17, 8, udp(92))}.bytes()), want: ip(of6("esp"), 148, 162), like: "ESP"},
	{name: "no next header", frame: ether("86dd", ip6{next: 59}.bytes()), want: ip(of6("proto59"), 40, 60)},
	{name: "no next header, bytes behind it", frame: ether("86dd", ip6{next: 59, body: udp(92)}.bytes()), want: ip(of6("proto59"), 140, 154), like: "no next header"},
	{name: "no next header behind hop-by-hop", frame: ether("86dd", ip6{next: 0, body: extension(59, 8, extension(17, 8, udp(0)))}.bytes()), want: ip(of6("proto59"), 64, 78), like: "no next header"},
	{name: "unknown next header 253", frame: ether("86dd", ip6{next: 253, body: extension(17, 8, udp(92))}.bytes()), want: ip(of6("proto253"), 148, 162)},
	{name: "unknown next header behind routing", frame: ether("86dd", ip6{next: 43, body: extension(253, 8, zeros(50))}.bytes()), want: ip(of6("proto253"), 98, 112), like: "unknown next header 253"},
	{name: "Mobility header is not walked", frame: ether("86dd", ip6{next: 135, body: extension(17, 8, udp(92))}.bytes()), want: ip(of6("proto135"), 148, 162)},
	{name: "HIP is not walked", frame: ether("86dd", ip6{next: 139, body: extension(17, 8, udp(92))}.bytes()), want: ip(of6("proto139"), 148, 162)},
	{name: "Shim6 is not walked", frame: ether("86dd", ip6{next: 140, body: extension(17, 8, udp(92))}.bytes()), want: ip(of6("proto140"), 148, 162)},

	// The bound.
	{name: "8 extension headers", frame: ether("86dd", ip6{next: 60, body: chain(8, 17, udp(92))}.bytes()), want: ip(udp6, 204, 218), like: "no extension header"},
	{name: "9 extension headers", frame: ether("86dd", ip6{next: 60, body: chain(9, 17, udp(92))}.bytes()), want: ip(of6("proto60"), 212, 226).longChain(), unlike: "no extension header"},
	{name: "9 extension headers, other ports behind", frame: ether("86dd", ip6{next: 60, body: chain(9, 6, tcp(0, 80))}.bytes()), want: ip(of6("proto60"), 212, 226).longChain(), like: "9 extension headers"},
	{name: "8 extension headers and AH", frame: ether("86dd", ip6{next: 60, body: chain(8, 51, authentication(17, 12, udp(92)))}.bytes()), want: ip(of6("ah"), 216, 230).longChain()},
	{name: "100 extension headers", frame: ether("86dd", ip6{next: 60, body: chain(100, 17, udp(92))}.bytes()), want: ip(of6("proto60"), 940, 954).longChain(), like: "9 extension headers"},
	{name: "the ninth is cut by the snaplen", frame: captured(ether("86dd", ip6{next: 60, body: chain(9, 17, udp(92))}.bytes()), 14+40+64), want: ip(of6("proto60"), 212, 226).longChain(), like: "9 extension headers"},

	// Cut short, or contradicting.
	{name: "extension header beyond the packet", frame: ether("86dd", ip6{next: 0, payload: 7, body: extension(17, 8, udp(0))}.bytes()), want: malformed},
	{name: "extension header that says more than the packet has", frame: ether("86dd", ip6{next: 0, body: slices.Concat([]byte{17, 9}, zeros(30))}.bytes()), want: malformed},
	{name: "payload length 0 and an extension header behind", frame: ether("86dd", ip6{next: 0, zero: true, body: extension(17, 8, udp(0))}.bytes()), want: malformed},
	{name: "payload at the frame's end", frame: captured(ether("86dd", ip6{next: 17, body: udp(1000)}.bytes()), 80), want: ip(udp6, 1048, 1062), like: "no extension header"},
	{name: "payload one beyond the frame", frame: ether("86dd", ip6{next: 17, payload: 1009, body: udp(1000)}.bytes()), want: malformed},
	{name: "payload one beyond, cut by the snaplen", frame: captured(ether("86dd", ip6{next: 17, payload: 1009, body: udp(1000)}.bytes()), 80), want: malformed},
	{name: "payload one beyond, on tun", frame: frameFrom(marker.LinkIPv6, ip6{next: 17, payload: 9, body: udp(0)}.bytes()), want: malformed},
	{name: "3 bytes of UDP, a trailer is no ports", frame: behind(ether("86dd", ip6{next: 17, body: octets("123400")}.bytes()), octets("35000800")), want: ip(of6("udp"), 43, 61), unlike: "no extension header"},
	{name: "version 4 behind 86dd", frame: ether("86dd", ip4{proto: 17, body: udp(100)}.bytes()), want: malformed},
	{name: "version 7", frame: ether("86dd", ip6{next: 17, first: 0x70, body: udp(0)}.bytes()), want: malformed},
	{name: "version 4 on a device of IPv6", frame: frameFrom(marker.LinkIPv6, ip4{proto: 17, body: udp(100)}.bytes()), want: malformed},
	{name: "39 bytes of IPv6", frame: ether("86dd", ip6{next: 17}.bytes()[:39]), want: malformed},
}
