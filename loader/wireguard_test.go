package loader

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/tricolor-policer/tricolor/internal/netlab"
)

// WireGuard's packets have no link header: they begin with the IP header.
func TestWireGuard(t *testing.T) {
	overEach(t, func(tb testing.TB, lab *netlab.Lab) string {
		tb.Helper()
		ends := []*wireGuard{{host: lab.Left, at: 1}, {host: lab.Right, at: 2}}
		for _, w := range ends {
			w.open(tb)
		}
		for i, w := range ends {
			w.join(tb, ends[1-i])
		}
		return "wg0"
	})
}

// wireGuard is one end of a tunnel, the device wg0 of a host.
type wireGuard struct {
	host *netlab.Host
	at   byte // the last of its endpoint's address
	key  *ecdh.PrivateKey
}

const wireGuardPort = 51820

// endpoint returns the address that carries the tunnel; the laboratory's own addresses are routed inside it.
func (w *wireGuard) endpoint() netip.Addr { return netip.AddrFrom4([4]byte{203, 0, 113, w.at}) }

// open makes the device, up, and its endpoint.
func (w *wireGuard) open(tb testing.TB) {
	tb.Helper()
	var err error
	if w.key, err = ecdh.X25519().GenerateKey(rand.Reader); err != nil {
		tb.Fatal(err)
	}
	addDevice(tb, w.host, &netlink.Wireguard{LinkAttrs: netlink.LinkAttrs{Name: "wg0"}})
	err = w.host.Do(func() error {
		below, err := netlink.LinkByName(w.host.Device)
		if err != nil {
			return err
		}
		return netlink.AddrAdd(below, &netlink.Addr{IPNet: &net.IPNet{IP: w.endpoint().AsSlice(), Mask: net.CIDRMask(24, 32)}})
	})
	if err != nil {
		tb.Fatalf("make the endpoint of wg0: %v", err)
	}
}

// join tells the device who is at the other end, and lets all IP through.
func (w *wireGuard) join(tb testing.TB, other *wireGuard) {
	tb.Helper()
	err := w.host.Do(func() error {
		below, err := netlink.LinkByName(w.host.Device)
		if err != nil {
			return err
		}
		if err := setNeighbour(below, other.endpoint(), other.host.MAC); err != nil {
			return fmt.Errorf("add the neighbour: %w", err)
		}
		family, err := netlink.GenlFamilyGet("wireguard")
		if err != nil {
			return err
		}
		request := nl.NewNetlinkRequest(int(family.ID), unix.NLM_F_ACK)
		request.AddData(&nl.Genlmsg{Command: unix.WG_CMD_SET_DEVICE, Version: 1})
		request.AddData(nl.NewRtAttr(unix.WGDEVICE_A_IFNAME, nl.ZeroTerminated("wg0")))
		request.AddData(nl.NewRtAttr(unix.WGDEVICE_A_PRIVATE_KEY, w.key.Bytes()))
		request.AddData(nl.NewRtAttr(unix.WGDEVICE_A_LISTEN_PORT, nl.Uint16Attr(wireGuardPort)))
		request.AddData(other.asPeer())
		_, err = request.Execute(unix.NETLINK_GENERIC, 0)
		return err
	})
	if err != nil {
		tb.Fatalf("configure wg0: %v", err)
	}
}

// asPeer returns the attribute that describes this end to the other.
func (w *wireGuard) asPeer() *nl.RtAttr {
	endpoint := make([]byte, unix.SizeofSockaddrInet4)
	binary.NativeEndian.PutUint16(endpoint, unix.AF_INET)
	binary.BigEndian.PutUint16(endpoint[2:], wireGuardPort)
	copy(endpoint[4:], w.endpoint().AsSlice())

	peers := nl.NewRtAttr(unix.WGDEVICE_A_PEERS|unix.NLA_F_NESTED, nil)
	peer := peers.AddRtAttr(unix.NLA_F_NESTED, nil)
	peer.AddRtAttr(unix.WGPEER_A_PUBLIC_KEY, w.key.PublicKey().Bytes())
	peer.AddRtAttr(unix.WGPEER_A_ENDPOINT, endpoint)
	all := peer.AddRtAttr(unix.WGPEER_A_ALLOWEDIPS|unix.NLA_F_NESTED, nil)
	for family, zero := range map[uint16]netip.Addr{unix.AF_INET: netip.IPv4Unspecified(), unix.AF_INET6: netip.IPv6Unspecified()} {
		allowed := all.AddRtAttr(unix.NLA_F_NESTED, nil)
		allowed.AddRtAttr(unix.WGALLOWEDIP_A_FAMILY, nl.Uint16Attr(family))
		allowed.AddRtAttr(unix.WGALLOWEDIP_A_IPADDR, zero.AsSlice())
		allowed.AddRtAttr(unix.WGALLOWEDIP_A_CIDR_MASK, []byte{0})
	}
	return peers
}
