package capture

import (
	"strings"
	"testing"
)

func TestNetwork(t *testing.T) {
	sll := func(protocol string) string { return strings.Repeat("\x00", 14) + protocol }
	sll2 := func(protocol string) string { return protocol + strings.Repeat("\x00", 18) }
	const cut = -1
	for _, c := range []struct {
		name   string
		link   LinkType
		header string
		family int // or cut
	}{
		{"Ethernet is not looked into", LinkEthernet, "", 0},
		{"IPv4", LinkIPv4, "", 4},
		{"IPv6", LinkIPv6, "", 6},
		{"NULL little-endian IPv4", LinkNull, "\x02\x00\x00\x00", 4},
		{"NULL big-endian IPv4", LinkNull, "\x00\x00\x00\x02", 4},
		{"NULL Linux IPv6", LinkNull, "\x0a\x00\x00\x00", 6},
		{"NULL NetBSD IPv6", LinkNull, "\x00\x00\x00\x18", 6},
		{"NULL FreeBSD IPv6", LinkNull, "\x1c\x00\x00\x00", 6},
		{"NULL macOS IPv6", LinkNull, "\x1e\x00\x00\x00", 6},
		{"NULL AF_UNIX", LinkNull, "\x01\x00\x00\x00", 0},
		{"NULL cut", LinkNull, "\x02\x00\x00", cut},
		{"LOOP IPv4", LinkLoop, "\x00\x00\x00\x02", 4},
		{"LOOP IPv6", LinkLoop, "\x00\x00\x00\x18", 6},
		{"LOOP little-endian is none", LinkLoop, "\x02\x00\x00\x00", 0},
		{"LOOP cut", LinkLoop, "", cut},
		{"SLL IPv4", LinkSLL, sll("\x08\x00"), 4},
		{"SLL IPv6", LinkSLL, sll("\x86\xdd"), 6},
		{"SLL ARP", LinkSLL, sll("\x08\x06"), 0},
		{"SLL cut", LinkSLL, sll("\x08"), cut},
		{"SLL2 IPv4", LinkSLL2, sll2("\x08\x00"), 4},
		{"SLL2 IPv6", LinkSLL2, sll2("\x86\xdd"), 6},
		{"SLL2 ARP", LinkSLL2, sll2("\x08\x06"), 0},
		{"SLL2 cut", LinkSLL2, sll2("\x08\x00")[:19], cut},
		{"PPP IPv4", LinkPPP, "\x00\x21", 4},
		{"PPP IPv6", LinkPPP, "\x00\x57", 6},
		{"PPP IPv4 compressed", LinkPPP, "\x21", 4},
		{"PPP IPv6 compressed", LinkPPP, "\x57", 6},
		{"PPP IPv4 with address and control", LinkPPP, "\xff\x03\x00\x21", 4},
		{"PPP IPv6 with address and control", LinkPPP, "\xff\x03\x00\x57", 6},
		{"PPP IPv4 compressed behind address and control", LinkPPPSerial, "\xff\x03\x21", 4},
		{"PPP LCP", LinkPPP, "\xff\x03\xc0\x21", 0},
		{"Cisco HDLC", LinkPPPSerial, "\x0f", 0},
		{"PPP cut at 0", LinkPPP, "", cut},
		{"PPP cut at 1", LinkPPP, "\xff", cut},
		{"PPP cut at 2", LinkPPP, "\xff\x03", cut},
		{"PPP cut at 3", LinkPPP, "\xff\x03\x00", cut},
		{"PPP cut in the protocol", LinkPPP, "\x00", cut},
		{"RAW cut", LinkRaw, "", cut},
		{"unknown link", 105, "", 0},
	} {
		payload := "payload"
		if c.family == cut {
			payload = ""
		}
		p := Packet{Data: []byte(c.header + payload), Length: len(c.header) + 99, Link: c.link}
		family, ip, length := p.Network()
		switch {
		case c.family == cut && (family != 4 || len(ip) != 0 || length != 0):
			t.Errorf("%s: family %d, %q of %d bytes; want family 4 without bytes", c.name, family, ip, length)
		case c.family != cut && (family != c.family || string(ip) != payload || length != 99):
			t.Errorf("%s: family %d, %q of %d bytes; want family %d, %q of 99", c.name, family, ip, length, c.family, payload)
		}
	}
	for first, want := range map[byte]int{0x45: 4, 0x4f: 4, 0x60: 6, 0x6b: 6, 0x50: 0, 0x00: 0} {
		p := Packet{Data: []byte{first}, Length: 40, Link: LinkRaw}
		if family, ip, length := p.Network(); family != want || len(ip) != 1 || length != 40 {
			t.Errorf("RAW %#x: family %d, %d of %d bytes; want family %d, 1 of 40", first, family, len(ip), length, want)
		}
	}
}
