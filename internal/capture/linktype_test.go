package capture

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// refusedNames are link types that people meet, by their names in the registry.
var refusedNames = map[LinkType]string{
	105: "IEEE802_11", 119: "IEEE802_11_PRISM", 127: "IEEE802_11_RADIOTAP", 163: "IEEE802_11_AVS",
	6: "IEEE802_5", 8: "SLIP", 10: "FDDI", 51: "PPP_ETHER", 104: "C_HDLC", 107: "FRELAY", 117: "PFLOG", 166: "PPP_PPPD",
	189: "USB_LINUX", 192: "PPI", 195: "IEEE802_15_4_WITHFCS", 227: "CAN_SOCKETCAN", 239: "NFLOG", 253: "NETLINK",
}

// A link type that is not read is refused by its name and number, with those that are; a pcap at once, a
// pcapng at its first packet, and what came before is delivered.
func TestLinkTypesAreRefusedByName(t *testing.T) {
	refused := map[LinkType]string{9999: "9999"}
	for l, name := range linkNames {
		if !l.supported() {
			refused[l] = fmt.Sprintf("%s (%d)", name, l)
		}
	}
	for l, name := range refusedNames {
		if want := fmt.Sprintf("%s (%d)", name, l); refused[l] != want {
			t.Errorf("link type %d is refused as %q, not %q", l, refused[l], want)
		}
	}
	for l, name := range refused {
		_, err := openBytes(pcapBytes(little, 0xa1b2c3d4, uint32(l)))
		const read = "which is not read; those read are EN10MB, RAW, IPV4, IPV6, LINUX_SLL, LINUX_SLL2, NULL, LOOP, PPP, PPP_HDLC"
		if want := "x: the capture has the link type " + name + ", " + read; !errors.Is(err, ErrLinkType) || err.Error() != want {
			t.Errorf("pcap: %v, not\n%s", err, want)
		}
		// An interface of which no packet comes is no fault.
		described := join(ngSection(little), ngIface(little, 1, 0), ngIface(little, uint16(l), 0), ngEnhanced(little, 0, 0, 1, "a"))
		if all, err := allOf(described); err != io.EOF || len(all) != 1 {
			t.Errorf("pcapng, %s without a packet: %d packets, %v", name, len(all), err)
		}
		all, err := allOf(join(described, ngEnhanced(little, 1, 0, 1, "a"), ngEnhanced(little, 0, 0, 1, "a")))
		want := fmt.Sprintf("x: at byte %d: record 2 has the link type %s, %s", len(described), name, read)
		if !errors.Is(err, ErrLinkType) || len(all) != 1 || err.Error() != want {
			t.Errorf("pcapng: after %d packets %v, not\n%s", len(all), err, want)
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("%q is more than a line", err)
		}
	}
}
