package pcaptest

import "github.com/tricolor-policer/tricolor/marker"

// Length: what is charged is the IP packet, or the frame, as it was on the wire; not what was padded, what a
// length field has no room for, nor what a capture kept.

var (
	datagram = ip4{proto: 17, body: udp(972)}.bytes() // 1,000 bytes
	ack      = ip4{proto: 6, body: tcp(0, 0)}.bytes() // 40 bytes
	six      = ip6{next: 17, body: udp(952)}.bytes()  // 1,000 bytes
)

var lengthPackets = []packetCase{
	{name: "IPv4, 1,000 bytes", frame: ether("0800", datagram), want: ip(udp4, 1000, 1014)},
	{name: "IPv6, 1,000 bytes", frame: ether("86dd", six), want: ip(udp6, 1000, 1014)},
	{name: "IPv4, full frame", frame: ether("0800", ip4{proto: 17, body: udp(1472)}.bytes()), want: ip(udp4, 1500, 1514)},
	{name: "IPv6, full frame", frame: ether("86dd", ip6{next: 17, body: udp(1452)}.bytes()), want: ip(udp6, 1500, 1514)},
	{name: "jumbo frame of 9,000 bytes", frame: ether("0800", ip4{proto: 17, body: udp(8972)}.bytes()), want: ip(udp4, 9000, 9014)},
	{name: "IPv4, the longest", frame: ether("0800", ip4{proto: 17, body: udp(65_507)}.bytes()), want: ip(udp4, 65_535, 65_549)},
	{name: "IPv6, the longest", frame: ether("86dd", ip6{next: 17, body: udp(65_527)}.bytes()), want: ip(udp6, 65_575, 65_589)},

	// Ethernet padding.
	{name: "ACK, before it is padded", frame: ether("0800", ack), want: ip(tcp4, 40, 60)},
	{name: "ACK, padded to 60", frame: behind(ether("0800", ack), zeros(6)), want: ip(tcp4, 40, 60), like: "ACK, before it is padded"},
	{name: "ACK, padded with what was in memory", frame: behind(ether("0800", ack), octets("4500dead1234")), want: ip(tcp4, 40, 60), like: "ACK, before it is padded"},
	{name: "ACK, padded to 64 by a tag's device", frame: behind(ether("0800", ack), zeros(10)), want: ip(tcp4, 40, 64), like: "ACK, before it is padded"},
	{name: "IPv4 header alone, padding is no ports", frame: behind(ether("0800", ip4{proto: 17}.bytes()), octets("12340035 0008 0000", "000000000000000000000000000000000000")), want: ip(of4("udp"), 20, 60)},
	{name: "3 bytes of UDP, padding is no ports", frame: behind(ether("0800", ip4{proto: 17, body: octets("123400")}.bytes()), octets("35 0008 0000", "00000000000000000000000000000000")), want: ip(of4("udp"), 23, 60), like: "IPv4 header alone, padding is no ports"},
	{name: "4 bytes of UDP are ports", frame: behind(ether("0800", ip4{proto: 17, body: octets("12340035")}.bytes()), zeros(22)), want: ip(udp4, 24, 60), like: "IPv4, 1,000 bytes"},
	{name: "IPv6 header alone, padded to 60", frame: behind(ether("86dd", ip6{next: 59}.bytes()), zeros(6)), want: ip(of6("proto59"), 40, 60)},
	{name: "IPv6 payload 0, padding is no ports", frame: behind(ether("86dd", ip6{next: 17}.bytes()), octets("12340035 0008 0000")), want: ip(of6("udp"), 40, 62)},

	// Trailers, and an FCS.
	{name: "trailer of 2 bytes", frame: behind(ether("0800", datagram), zeros(2)), want: ip(udp4, 1000, 1016), like: "IPv4, 1,000 bytes"},
	{name: "trailer of 36 bytes (DSA, PRP)", frame: behind(ether("86dd", six), zeros(36)), want: ip(udp6, 1000, 1050), like: "IPv6, 1,000 bytes"},
	{name: "FCS that nobody announced", frame: behind(ether("0800", datagram), octets("c704dd7b")), want: ip(udp4, 1000, 1018), like: "IPv4, 1,000 bytes"},
	{name: "ACK, padded, and an FCS", frame: behind(ether("0800", ack), zeros(10)), want: ip(tcp4, 40, 64), like: "ACK, before it is padded"},

	// Tags.
	{name: "tag, 1,000 bytes", frame: ether("8100 0064 0800", datagram), want: ip(udp4, 1000, 1018).in(100), like: "IPv4, 1,000 bytes"},
	{name: "tag offloaded, 1,000 bytes", frame: offloaded(ether("0800", datagram), 100), want: ip(udp4, 1000, 1018).in(100), like: "IPv4, 1,000 bytes"},
	{name: "tag, ACK of 58 bytes", frame: ether("8100 0064 0800", ack), want: ip(tcp4, 40, 60).in(100)},
	{name: "tag offloaded, ACK of 54 bytes", frame: offloaded(ether("0800", ack), 100), want: ip(tcp4, 40, 60).in(100)},
	{name: "tag offloaded, ACK padded to 60", frame: offloaded(behind(ether("0800", ack), zeros(6)), 100), want: ip(tcp4, 40, 64).in(100)},

	// Captures cut by the snaplen.
	{name: "snaplen 96", frame: captured(ether("0800", datagram), 96), want: ip(udp4, 1000, 1014), like: "IPv4, 1,000 bytes"},
	{name: "snaplen behind the ports", frame: captured(ether("0800", datagram), 38), want: ip(udp4, 1000, 1014), like: "IPv4, 1,000 bytes"},
	{name: "snaplen within the ports", frame: captured(ether("0800", datagram), 37), want: ip(of4("udp"), 1000, 1014)},
	{name: "snaplen behind the IPv4 header", frame: captured(ether("0800", datagram), 34), want: ip(of4("udp"), 1000, 1014)},
	{name: "snaplen within the IPv4 header", frame: captured(ether("0800", datagram), 33), want: malformed},
	{name: "snaplen within the IPv4 options", frame: captured(ether("0800", ip4{proto: 17, options: 8, body: udp(100)}.bytes()), 41), want: malformed},
	{name: "snaplen behind the IPv6 ports", frame: captured(ether("86dd", six), 58), want: ip(udp6, 1000, 1014), like: "IPv6, 1,000 bytes"},
	{name: "snaplen within the IPv6 header", frame: captured(ether("86dd", six), 53), want: malformed},
	{name: "snaplen within an extension header", frame: captured(ether("86dd", ip6{next: 60, body: extension(17, 24, udp(10))}.bytes()), 70), want: malformed},
	{name: "snaplen within a tag", frame: captured(ether("8100 0064 0800", datagram), 17), want: malformed},
	{name: "snaplen within Ethernet's header", frame: captured(ether("0800", datagram), 13), want: malformed},
	{name: "snaplen 0", frame: captured(ether("0800", datagram), 0), want: malformed},
	{name: "snaplen 64 of 9,000 bytes", frame: captured(ether("0800", ip4{proto: 17, body: udp(8972)}.bytes()), 64), want: ip(udp4, 9000, 9014)},

	// Captures of super-packets: nothing says into how many segments they were cut.
	{name: "TSO capture, total length right", frame: ether("0800", ip4{proto: 6, body: tcp(0, 14_600)}.bytes()), want: ip(tcp4, 14_640, 14_654)},
	{name: "TSO capture, IPv4 length 0", frame: ether("0800", ip4{proto: 6, zero: true, body: tcp(0, 14_600)}.bytes()), want: ip(tcp4, 14_640, 14_654), like: "TSO capture, total length right"},
	{name: "TSO capture, IPv4 length 0, snaplen 96", frame: captured(ether("0800", ip4{proto: 6, zero: true, body: tcp(0, 14_600)}.bytes()), 96), want: ip(tcp4, 14_640, 14_654), like: "TSO capture, total length right"},
	{name: "TSO capture in a VLAN, IPv4 length 0", frame: ether("8100 0064 0800", ip4{proto: 6, zero: true, body: tcp(0, 14_600)}.bytes()), want: ip(tcp4, 14_640, 14_658).in(100), like: "TSO capture, total length right"},
	{name: "BIG TCP capture, IPv4 length 0", frame: ether("0800", ip4{proto: 6, body: tcp(12, 185_344)}.bytes()), want: ip(tcp4, 185_396, 185_410), like: "TSO capture, total length right"},
	{name: "BIG TCP capture, IPv6 with a jumbo header", frame: ether("86dd", ip6{next: 0, zero: true, body: jumbo(tcp(12, 185_344))}.bytes()), want: ip(tcp6, 185_424, 185_438)},
	{name: "BIG TCP capture, IPv6 without a jumbo header", frame: ether("86dd", ip6{next: 6, body: tcp(12, 185_344)}.bytes()), want: ip(tcp6, 185_416, 185_430), like: "BIG TCP capture, IPv6 with a jumbo header"},
	{name: "IPv6 payload 0 in 65,575 bytes of IP is 0", frame: ether("86dd", ip6{next: 6, zero: true, body: tcp(0, 65_515)}.bytes()), want: ip(of6("tcp"), 40, 65_589)},
	{name: "IPv6 payload 0 in 65,576 bytes of IP is a super-packet", frame: ether("86dd", ip6{next: 6, zero: true, body: tcp(0, 65_516)}.bytes()), want: ip(tcp6, 65_576, 65_590)},
	{name: "IPv4 length 0 of a short frame counts its padding", frame: behind(ether("0800", ip4{proto: 6, zero: true, body: tcp(0, 0)}.bytes()), zeros(6)), want: ip(tcp4, 46, 60), like: "ACK, before it is padded"},

	// Devices without a link header.
	{name: "tun, IPv4", frame: frameFrom(marker.LinkIPv4, datagram), want: ip(udp4, 1000, 1000), like: "IPv4, 1,000 bytes"},
	{name: "tun, IPv6", frame: frameFrom(marker.LinkIPv6, six), want: ip(udp6, 1000, 1000), like: "IPv6, 1,000 bytes"},
	{name: "tun, ACK is not padded", frame: frameFrom(marker.LinkIPv4, ack), want: ip(tcp4, 40, 40), like: "ACK, before it is padded"},
	{name: "tun, trailer", frame: behind(frameFrom(marker.LinkIPv4, ack), zeros(9)), want: ip(tcp4, 40, 40), like: "ACK, before it is padded"},
}
