package pcaptest

import (
	"slices"

	"github.com/tricolor-policer/tricolor/marker"
)

// Super-packets (GSO, GRO): each segment is an IP packet with headers of its own. Columns: packets; bytes in
// l3, l2, l1.

// ten is 10 segments of 1,460 bytes: 10 × 1,500 bytes of IP.
var ten = ip4{proto: 6, body: tcp(0, 14_600)}.bytes()

var superPackets = []packetCase{
	{name: "one such segment", frame: ether("0800", ip4{proto: 6, body: tcp(0, 1460)}.bytes()), want: ip(tcp4, 1500, 1514)},
	{name: "10 × 1460", frame: super(ether("0800", ten), 1460, 10), want: cutInto(10, tcp4, 15_000, 15_140, 15_380), like: "one such segment"},
	{name: "10 × 1460, gso_segs 0", frame: super(ether("0800", ten), 1460, 0), want: cutInto(10, tcp4, 15_000, 15_140, 15_380), like: "one such segment"},
	{name: "10 × 1460, IPv4 length 0", frame: super(ether("0800", ip4{proto: 6, zero: true, body: tcp(0, 14_600)}.bytes()), 1460, 10), want: cutInto(10, tcp4, 15_000, 15_140, 15_380)},
	{name: "10 × 1460, IPv4 length 0, gso_segs 0", frame: super(ether("0800", ip4{proto: 6, zero: true, body: tcp(0, 14_600)}.bytes()), 1460, 0), want: cutInto(10, tcp4, 15_000, 15_140, 15_380)},
	{name: "10 × 1448 with time stamps", frame: super(ether("0800", ip4{proto: 6, body: tcp(12, 14_480)}.bytes()), 1448, 10), want: cutInto(10, tcp4, 15_000, 15_140, 15_380)},
	{name: "10 × 1420 with 40 bytes of options", frame: super(ether("0800", ip4{proto: 6, body: tcp(40, 14_200)}.bytes()), 1420, 0), want: cutInto(10, tcp4, 15_000, 15_140, 15_380)},
	{name: "10 × 1456 with IPv4 options", frame: super(ether("0800", ip4{proto: 6, options: 4, body: tcp(0, 14_560)}.bytes()), 1456, 10), want: cutInto(10, tcp4, 15_000, 15_140, 15_380)},
	{name: "10 × 1440, IPv6", frame: super(ether("86dd", ip6{next: 6, body: tcp(0, 14_400)}.bytes()), 1440, 10), want: cutInto(10, tcp6, 15_000, 15_140, 15_380)},
	{name: "10 × 1440, IPv6, gso_segs 0", frame: super(ether("86dd", ip6{next: 6, body: tcp(0, 14_400)}.bytes()), 1440, 0), want: cutInto(10, tcp6, 15_000, 15_140, 15_380)},
	{name: "10 × 1440, IPv6, payload length 0", frame: super(ether("86dd", ip6{next: 6, zero: true, body: tcp(0, 14_400)}.bytes()), 1440, 10), want: cutInto(10, tcp6, 15_000, 15_140, 15_380)},
	{name: "10 × 1432, IPv6 with hop-by-hop", frame: super(ether("86dd", ip6{next: 0, body: extension(6, 8, tcp(0, 14_320))}.bytes()), 1432, 10), want: cutInto(10, tcp6, 15_000, 15_140, 15_380)},

	// The last segment is what is left, and a frame of its own.
	{name: "9 × 1460 and 1", frame: super(ether("0800", ip4{proto: 6, body: tcp(0, 13_141)}.bytes()), 1460, 10), want: cutInto(10, tcp4, 13_541, 9*1514+60, 9*1538+84)},
	{name: "9 × 1460 and 1, gso_segs 0", frame: super(ether("0800", ip4{proto: 6, body: tcp(0, 13_141)}.bytes()), 1460, 0), want: cutInto(10, tcp4, 13_541, 9*1514+60, 9*1538+84)},
	{name: "3 × 2 and 1, each padded", frame: super(ether("0800", ip4{proto: 6, body: tcp(0, 7)}.bytes()), 2, 4), want: cutInto(4, tcp4, 167, 240, 336)},
	{name: "one segment", frame: super(ether("0800", ip4{proto: 6, body: tcp(0, 1460)}.bytes()), 1460, 1), want: cutInto(1, tcp4, 1500, 1514, 1538)},
	{name: "one segment, gso_segs 0", frame: super(ether("0800", ip4{proto: 6, body: tcp(0, 1460)}.bytes()), 1460, 0), want: cutInto(1, tcp4, 1500, 1514, 1538)},
	{name: "single packet with gso_segs 1, gso_size 0", frame: super(ether("0800", ip4{proto: 6, body: tcp(0, 1460)}.bytes()), 0, 1), want: cutInto(1, tcp4, 1500, 1514, 1538)},
	{name: "more segments than the payload fills", frame: super(ether("0800", ip4{proto: 6, body: tcp(0, 1461)}.bytes()), 1460, 4), want: cutInto(4, tcp4, 1461+4*40, 1514+3*60, 1538+3*84)},

	// Tags, and no link header at all.
	{name: "10 × 1460 behind a tag", frame: super(ether("8100 0064 0800", ten), 1460, 10), want: cutInto(10, tcp4, 15_000, 15_180, 15_420).in(100), like: "10 × 1460"},
	{name: "10 × 1460 behind an offloaded tag", frame: super(offloaded(ether("0800", ten), 100), 1460, 10), want: cutInto(10, tcp4, 15_000, 15_180, 15_420).in(100), like: "10 × 1460"},
	{name: "10 × 1460 in QinQ, one tag offloaded", frame: super(offloaded(ether("8100 00c8 0800", ten), 100), 1460, 0), want: cutInto(10, tcp4, 15_000, 15_220, 15_460).in(100), like: "10 × 1460"},
	{name: "10 × 1460 on tun", frame: super(frameFrom(marker.LinkIPv4, ten), 1460, 10), want: cutInto(10, tcp4, 15_000, 15_000, 15_240), like: "10 × 1460"},
	{name: "10 × 1440 on tun, IPv6", frame: super(frameFrom(marker.LinkIPv6, ip6{next: 6, body: tcp(0, 14_400)}.bytes()), 1440, 0), want: cutInto(10, tcp6, 15_000, 15_000, 15_240), like: "10 × 1440, IPv6"},

	// BIG TCP: 137 segments. The jumbo header is not on the wire.
	{name: "BIG TCP, IPv4", frame: super(ether("0800", ip4{proto: 6, body: tcp(0, 137*1460)}.bytes()), 1460, 137), want: cutInto(137, tcp4, 205_500, 207_418, 210_706), like: "10 × 1460"},
	{name: "BIG TCP, IPv4, gso_segs 0", frame: super(ether("0800", ip4{proto: 6, body: tcp(0, 137*1460)}.bytes()), 1460, 0), want: cutInto(137, tcp4, 205_500, 207_418, 210_706)},
	{name: "BIG TCP, IPv6 with a jumbo header", frame: super(ether("86dd", ip6{next: 0, zero: true, body: jumbo(tcp(0, 137*1440))}.bytes()), 1440, 137), want: cutInto(137, tcp6, 205_500, 207_418, 210_706), like: "10 × 1440, IPv6"},
	{name: "BIG TCP, IPv6 with a jumbo header, gso_segs 0", frame: super(ether("86dd", ip6{next: 0, zero: true, body: jumbo(tcp(0, 137*1440))}.bytes()), 1440, 0), want: cutInto(137, tcp6, 205_500, 207_418, 210_706)},
	{name: "BIG TCP, IPv6 without a jumbo header", frame: super(ether("86dd", ip6{next: 6, body: tcp(0, 137*1440)}.bytes()), 1440, 137), want: cutInto(137, tcp6, 205_500, 207_418, 210_706), like: "10 × 1440, IPv6"},

	// UDP (QUIC): each segment is a datagram.
	{name: "one such datagram", frame: ether("0800", ip4{proto: 17, body: udp(1200)}.bytes()), want: ip(udp4, 1228, 1242)},
	{name: "UDP, 10 × 1200", frame: super(ether("0800", ip4{proto: 17, body: udp(12_000)}.bytes()), 1200, 10), want: cutInto(10, udp4, 12_280, 12_420, 12_660), like: "one such datagram"},
	{name: "UDP, 10 × 1200, gso_segs 0", frame: super(ether("0800", ip4{proto: 17, body: udp(12_000)}.bytes()), 1200, 0), want: cutInto(10, udp4, 12_280, 12_420, 12_660), like: "one such datagram"},
	{name: "UDP, 10 × 1200, IPv6", frame: super(ether("86dd", ip6{next: 17, body: udp(12_000)}.bytes()), 1200, 10), want: cutInto(10, udp6, 12_480, 12_620, 12_860)},
	{name: "UDP, 10 × 1200, IPv6, gso_segs 0", frame: super(ether("86dd", ip6{next: 17, body: udp(12_000)}.bytes()), 1200, 0), want: cutInto(10, udp6, 12_480, 12_620, 12_860)},
	{name: "UDP, 9 × 1200 and 333", frame: super(ether("0800", ip4{proto: 17, body: udp(11_133)}.bytes()), 1200, 0), want: cutInto(10, udp4, 11_413, 11_553, 11_793)},
	{name: "UDP, 3 × 7 and 1, each padded", frame: super(ether("0800", ip4{proto: 17, body: udp(22)}.bytes()), 7, 4), want: cutInto(4, udp4, 134, 240, 336)},

	// SCTP: segments of any size (gso_size 65,535), whose number and sum are known.
	{name: "SCTP, 1440 + 1440 + 500", frame: super(ether("0800", ip4{proto: 132, body: sctp(3380)}.bytes()), 0xffff, 3), want: cutInto(3, "sctp 192.0.2.1:4660 > 198.51.100.7:53", 3476, 3518, 3590)},
	{name: "SCTP, IPv6, 1440 + 20", frame: super(ether("86dd", ip6{next: 132, body: sctp(1460)}.bytes()), 0xffff, 2), want: cutInto(2, "sctp [2001:db8::1]:4660 > [2001:db8::2]:53", 1564, 1592, 1640)},
	{name: "SCTP, 44 × 1452", frame: super(ether("0800", ip4{proto: 132, body: sctp(44 * 1452)}.bytes()), 0xffff, 44), want: cutInto(44, "sctp 192.0.2.1:4660 > 198.51.100.7:53", 44*1484, 44*1498, 44*1522)},
	{name: "SCTP, gso_segs 0", frame: super(ether("0800", ip4{proto: 132, body: sctp(3380)}.bytes()), 0xffff, 0), want: cutInto(1, "sctp 192.0.2.1:4660 > 198.51.100.7:53", 3412, 3426, 3450)},

	// Tunnels: ten packets of 1,400 bytes of inner TCP payload. Each repeats the outer headers; the inner ones
	// are charged once, not ten times (docs/deviations.md). No byte of payload goes free.
	{name: "GRE, super-packet inside", frame: super(ether("0800", ip4{proto: 47, body: slices.Concat(octets("0000 0800"), inner(14_000))}.bytes()), 1400, 10), want: cutInto(10, of4("gre"), 10*20+4+40+14_000, 14_384, 14_624)},
	{name: "IP in IP, super-packet inside", frame: super(ether("0800", ip4{proto: 4, body: inner(14_000)}.bytes()), 1400, 10), want: cutInto(10, of4("ipip"), 10*20+40+14_000, 14_380, 14_620)},
	{name: "IPv4 in IPv6, super-packet inside", frame: super(ether("86dd", ip6{next: 4, body: inner(14_000)}.bytes()), 1400, 10), want: cutInto(10, of6("ipip"), 10*40+40+14_000, 14_580, 14_820)},
	{name: "VXLAN, super-packet inside", frame: super(ether("0800", ip4{proto: 17, body: slices.Concat(udp(0), vxlan(14_000))}.bytes()), 1400, 10), want: cutInto(10, udp4, 10*28+8+14+40+14_000, 14_482, 14_722)},
	{name: "VXLAN, super-packet inside, gso_segs 0 counts one too many", frame: super(ether("0800", ip4{proto: 17, body: slices.Concat(udp(0), vxlan(14_000))}.bytes()), 1400, 0), want: cutInto(11, udp4, 11*28+8+14+40+14_000, 14_524, 14_788)},

	// More extension headers than are walked: those behind, and TCP's, are charged once.
	{name: "9 extension headers, super-packet", frame: super(ether("86dd", ip6{next: 60, body: chain(9, 6, tcp(0, 14_000))}.bytes()), 1400, 10), want: cutInto(10, of6("proto60"), 10*104+8+20+14_000, 15_208, 15_448).longChain()},
}

// inner is an IPv4 packet of TCP, 10.0.0.1 to 10.0.0.2, in a tunnel.
func inner(payload int) []byte {
	return slices.Concat(octets("4500 0000 0001 0000 4006 0000 0a000001 0a000002"), tcp(0, payload))
}

// vxlan is that behind VXLAN's and an Ethernet header.
func vxlan(payload int) []byte {
	return slices.Concat(octets("08000000 00002a00 020000000003 020000000004 0800"), inner(payload))
}
