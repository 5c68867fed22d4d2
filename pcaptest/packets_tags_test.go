package pcaptest

import "github.com/tricolor-policer/tricolor/marker"

// Tags: one packet has one key, one colour and one cost, however many tags it has, and wherever they are. Each
// is 4 bytes of the frame.

var tagPackets = []packetCase{
	{name: "untagged", frame: ether("0800", datagram), want: ip(udp4, 1000, 1014)},
	{name: "802.1Q", frame: ether("8100 0064 0800", datagram), want: ip(udp4, 1000, 1018).in(100), like: "untagged"},
	{name: "802.1Q offloaded", frame: offloaded(ether("0800", datagram), 100), want: ip(udp4, 1000, 1018).in(100), like: "untagged"},
	{name: "802.1Q, priority 7 and drop eligible", frame: ether("8100 f064 0800", datagram), want: ip(udp4, 1000, 1018).in(100), like: "untagged"},
	{name: "802.1Q offloaded, priority 7 and drop eligible", frame: offloaded(ether("0800", datagram), 0xf064), want: ip(udp4, 1000, 1018).in(100), like: "untagged"},
	{name: "802.1Q, another VLAN", frame: ether("8100 0fff 0800", datagram), want: ip(udp4, 1000, 1018).in(4095), like: "untagged"},
	{name: "802.1ad", frame: ether("88a8 0064 0800", datagram), want: ip(udp4, 1000, 1018).in(100), like: "untagged"},
	{name: "priority tag", frame: ether("8100 e000 0800", datagram), want: ip(udp4, 1000, 1018).in(0), like: "untagged"},
	{name: "priority tag offloaded", frame: offloaded(ether("0800", datagram), 0xe000), want: ip(udp4, 1000, 1018).in(0), like: "untagged"},
	{name: "priority tag offloaded, TCI 0", frame: offloaded(ether("0800", datagram), 0), want: ip(udp4, 1000, 1018).in(0), like: "untagged"},
	{name: "QinQ, 88a8 and 8100", frame: ether("88a8 0064 8100 00c8 0800", datagram), want: ip(udp4, 1000, 1022).in(100), like: "untagged"},
	{name: "QinQ, 8100 and 8100", frame: ether("8100 0064 8100 00c8 0800", datagram), want: ip(udp4, 1000, 1022).in(100), like: "untagged"},
	{name: "QinQ, 88a8 and 88a8", frame: ether("88a8 0064 88a8 00c8 0800", datagram), want: ip(udp4, 1000, 1022).in(100), like: "untagged"},
	{name: "QinQ, the outer offloaded, 8100 within", frame: offloaded(ether("8100 00c8 0800", datagram), 100), want: ip(udp4, 1000, 1022).in(100), like: "untagged"},
	{name: "QinQ, the outer offloaded, 88a8 within", frame: offloaded(ether("88a8 00c8 0800", datagram), 100), want: ip(udp4, 1000, 1022).in(100), like: "untagged"},
	{name: "QinQ, the outer a priority tag", frame: ether("88a8 e000 8100 00c8 0800", datagram), want: ip(udp4, 1000, 1022).in(0), like: "untagged"},
	{name: "three tags", frame: ether("88a8 0001 8100 0002 8100 0003 0800", datagram), want: ip(udp4, 1000, 1026).in(1), like: "untagged"},
	{name: "four tags", frame: ether("88a8 0001 8100 0002 88a8 0003 8100 0004 0800", datagram), want: ip(udp4, 1000, 1030).in(1), like: "untagged"},
	{name: "four tags, one offloaded", frame: offloaded(ether("8100 0002 88a8 0003 8100 0004 0800", datagram), 1), want: ip(udp4, 1000, 1030).in(1), like: "untagged"},
	{name: "IPv6, untagged", frame: ether("86dd", six), want: ip(udp6, 1000, 1014)},
	{name: "IPv6, 802.1Q", frame: ether("8100 0064 86dd", six), want: ip(udp6, 1000, 1018).in(100), like: "IPv6, untagged"},
	{name: "IPv6, QinQ", frame: ether("88a8 0064 8100 00c8 86dd", six), want: ip(udp6, 1000, 1022).in(100), like: "IPv6, untagged"},
	{name: "IPv6, QinQ, the outer offloaded", frame: offloaded(ether("8100 00c8 86dd", six), 100), want: ip(udp6, 1000, 1022).in(100), like: "IPv6, untagged"},
	{name: "IPv6, priority tag offloaded", frame: offloaded(ether("86dd", six), 0), want: ip(udp6, 1000, 1018).in(0), like: "IPv6, untagged"},
	{name: "802.1Q, IPv4 with options", frame: ether("8100 0064 0800", ip4{proto: 17, options: 40, body: udp(0)}.bytes()), want: ip(udp4, 68, 86).in(100), like: "untagged"},

	// PPPoE sessions: 8 bytes.
	{name: "PPPoE, IPv4", frame: ether("8864 1100 0001 03ea 0021", datagram), want: ip(udp4, 1000, 1022), like: "untagged"},
	{name: "PPPoE, IPv4, another session", frame: ether("8864 1100 ffff 03ea 0021", datagram), want: ip(udp4, 1000, 1022), like: "untagged"},
	{name: "PPPoE, ACK padded to 60", frame: ether("8864 1100 0001 002a 0021", ack), want: ip(tcp4, 40, 62)},
	{name: "PPPoE, IPv6", frame: ether("8864 1100 0001 03ea 0057", six), want: ip(udp6, 1000, 1022), like: "IPv6, untagged"},
	{name: "PPPoE in a VLAN", frame: ether("8100 0064 8864 1100 0001 03ea 0021", datagram), want: ip(udp4, 1000, 1026).in(100), like: "untagged"},
	{name: "PPPoE in an offloaded VLAN", frame: offloaded(ether("8864 1100 0001 03ea 0021", datagram), 100), want: ip(udp4, 1000, 1026).in(100), like: "untagged"},
	{name: "PPPoE in QinQ, IPv6", frame: ether("88a8 0064 8100 00c8 8864 1100 0001 03ea 0057", six), want: ip(udp6, 1000, 1030).in(100), like: "IPv6, untagged"},
	{name: "PPPoE, version 6 as IPv4", frame: ether("8864 1100 0001 03ea 0021", six), want: malformed},
	{name: "PPPoE, cut by the snaplen", frame: captured(ether("8864 1100 0001 03ea 0021", datagram), 21), want: malformed},
}

// What is not IP is counted, and let through untouched; a class of its own may police it.
var notIPPackets = []packetCase{
	{name: "ARP", frame: ether("0806", octets("0001 0800 0604 0001 020000000002 c0000201 000000000000 c6336407")), want: notIP(60)},
	{name: "ARP in a VLAN, padded", frame: behind(ether("8100 0064 0806", octets("0001 0800 0604 0001 020000000002 c0000201 000000000000 c6336407")), zeros(18)), want: notIP(64).in(100)},
	{name: "MPLS, IPv4 inside", frame: ether("8847 00064140", datagram), want: notIP(1018)},
	{name: "MPLS, two labels, IPv6 inside", frame: ether("8847 00064040 00065140", six), want: notIP(1022)},
	{name: "MPLS multicast", frame: ether("8848 00064140", datagram), want: notIP(1018)},
	{name: "MPLS in a VLAN", frame: ether("8100 0064 8847 00064140", datagram), want: notIP(1022).in(100)},
	{name: "MPLS behind an offloaded tag", frame: offloaded(ether("8847 00064140", datagram), 100), want: notIP(1022).in(100)},
	{name: "MPLS, super-packet inside: one packet", frame: super(ether("8847 00064140", ten), 1460, 10), want: notIP(14_658)},
	{name: "PPPoE discovery", frame: ether("8863 1109 0000 0004 01010000", zeros(40)), want: notIP(64)},
	{name: "PPPoE, LCP echo", frame: ether("8864 1100 0001 000a c021 0901 0008 00000000", zeros(30)), want: notIP(60)},
	{name: "PPPoE, an EtherType for PPP's number", frame: ether("8864 1100 0001 03ea 0800", datagram), want: notIP(1022)},
	{name: "PPPoE, version 2", frame: ether("8864 2100 0001 03ea 0021", datagram), want: notIP(1022)},
	{name: "five tags", frame: ether("8100 0001 8100 0002 8100 0003 8100 0004 8100 0005 0800", datagram), want: notIP(1034).in(1)},
	{name: "five tags, one offloaded", frame: offloaded(ether("8100 0002 8100 0003 8100 0004 8100 0005 0800", datagram), 1), want: notIP(1034).in(1)},
	{name: "9100 is no tag", frame: ether("9100 0064 0800", datagram), want: notIP(1018)},
	{name: "802.3 with LLC (STP)", frame: ether("0026 424203 0000000000", zeros(40)), want: notIP(62)},
	{name: "LLDP", frame: ether("88cc 0207 04020000000002", zeros(60)), want: notIP(83)},
	{name: "EtherType 0", frame: ether("0000", datagram), want: notIP(1014)},
	{name: "Ethernet's header alone", frame: ether("0806"), want: notIP(60)},
	{name: "neither IPv4 nor IPv6 on tun", frame: frameFrom(marker.LinkOther, zeros(100)), want: notIP(100)},
}
