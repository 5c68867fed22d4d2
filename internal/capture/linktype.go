package capture

import (
	"fmt"
	"strings"
)

// LinkType says what a packet begins with: a LINKTYPE_ value of the registry
// at tcpdump.org.
type LinkType uint32

// The link types that are read. RAW is also written as 12 or 14 (a BSD's own
// number); such packets are delivered as LinkRaw. PPPSerial is PPP in HDLC-like
// framing, which is what LinkPPP holds too where its packets begin with ff 03.
const (
	LinkNull      LinkType = 0   // BSD loopback: address family, either byte order
	LinkEthernet  LinkType = 1   // EN10MB
	LinkPPP       LinkType = 9   // with or without address and control
	LinkPPPSerial LinkType = 50  // PPP_HDLC
	LinkRaw       LinkType = 101 // IPv4 or IPv6, by the version nibble
	LinkLoop      LinkType = 108 // OpenBSD loopback: address family, big-endian
	LinkSLL       LinkType = 113 // Linux cooked, "any" device
	LinkIPv4      LinkType = 228
	LinkIPv6      LinkType = 229
	LinkSLL2      LinkType = 276 // Linux cooked, version 2
)

// readLinks are the link types read, in the order errors name them.
var readLinks = []LinkType{
	LinkEthernet, LinkRaw, LinkIPv4, LinkIPv6, LinkSLL, LinkSLL2, LinkNull, LinkLoop, LinkPPP, LinkPPPSerial,
}

var linkNames = map[LinkType]string{
	LinkNull: "NULL", LinkEthernet: "EN10MB", LinkPPP: "PPP", LinkPPPSerial: "PPP_HDLC", LinkRaw: "RAW",
	LinkLoop: "LOOP", LinkSLL: "LINUX_SLL", LinkIPv4: "IPV4", LinkIPv6: "IPV6", LinkSLL2: "LINUX_SLL2",
	3: "AX25", 6: "IEEE802_5", 7: "ARCNET_BSD", 8: "SLIP", 10: "FDDI", 51: "PPP_ETHER", 100: "ATM_RFC1483",
	104: "C_HDLC", 105: "IEEE802_11", 107: "FRELAY", 117: "PFLOG", 119: "IEEE802_11_PRISM", 122: "IP_OVER_FC",
	123: "SUNATM", 127: "IEEE802_11_RADIOTAP", 129: "ARCNET_LINUX", 138: "APPLE_IP_OVER_IEEE1394",
	140: "MTP2", 141: "MTP3", 143: "DOCSIS", 144: "LINUX_IRDA", 147: "USER0", 162: "USER15", 163: "IEEE802_11_AVS",
	166: "PPP_PPPD", 169: "GPRS_LLC", 177: "LINUX_LAPD", 187: "BLUETOOTH_HCI_H4", 189: "USB_LINUX", 192: "PPI",
	195: "IEEE802_15_4_WITHFCS", 199: "IPMB_LINUX", 201: "BLUETOOTH_HCI_H4_WITH_PHDR", 219: "NETANALYZER_TRANSPARENT",
	220: "USB_LINUX_MMAPPED", 224: "FC_2", 226: "IPNET", 227: "CAN_SOCKETCAN", 230: "IEEE802_15_4_NOFCS", 235: "DVB_CI",
	238: "WIRESHARK_UPPER_PDU", 239: "NFLOG", 240: "NETANALYZER", 242: "IPOIB", 243: "MPEG_2_TS", 248: "SCTP", 249: "USBPCAP",
	251: "BLUETOOTH_LE_LL", 253: "NETLINK", 254: "BLUETOOTH_LINUX_MONITOR", 256: "BLUETOOTH_LE_LL_WITH_PHDR",
	258: "PKTAP", 264: "ISO_14443", 265: "RDS", 266: "USB_DARWIN", 272: "NORDIC_BLE", 283: "IEEE802_15_4_TAP",
}

// String is the name without its LINKTYPE_, or the number.
func (l LinkType) String() string {
	if name, ok := linkNames[l]; ok {
		return name
	}
	return fmt.Sprintf("%d", uint32(l))
}

// normal gives link types that are one by several numbers one number.
func (l LinkType) normal() LinkType {
	if l == 12 || l == 14 {
		return LinkRaw
	}
	return l
}

// supported reports whether packets of l are read.
func (l LinkType) supported() bool {
	switch l {
	case LinkEthernet, LinkRaw, LinkIPv4, LinkIPv6, LinkSLL, LinkSLL2, LinkNull, LinkLoop, LinkPPP, LinkPPPSerial:
		return true
	}
	return false
}

// refuseLink is the error for packets of l; where says which.
func refuseLink(file, where string, l LinkType) error {
	names := make([]string, len(readLinks))
	for i, read := range readLinks {
		names[i] = read.String()
	}
	number := ""
	if _, named := linkNames[l]; named {
		number = fmt.Sprintf(" (%d)", uint32(l))
	}
	return fail(file, ErrLinkType, "%s has the link type %v%s, which is not read; those read are %s",
		where, l, number, strings.Join(names, ", "))
}
