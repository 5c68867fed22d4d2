package netlab

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// readyWithin bounds the wait for a device to be ready, which takes milliseconds.
const readyWithin = 10 * time.Second

// writeSysctls hushes the current thread's namespace, before it has any device
// that could speak.
func writeSysctls(opts Options) error {
	ecn := "2" // the kernel's default: TCP accepts ECN, and does not ask for it
	if opts.ECN {
		ecn = "1"
	}
	for _, s := range [][2]string{
		{"ipv6/conf/default/addr_gen_mode", "1"}, // no link-local address
		{"ipv6/conf/default/accept_dad", "0"},
		{"ipv6/conf/default/accept_ra", "0"},
		{"ipv6/conf/default/autoconf", "0"},
		{"ipv6/conf/default/router_solicitations", "0"},
		{"ipv4/tcp_ecn", ecn},
	} {
		if err := os.WriteFile("/proc/sys/net/"+s[0], []byte(s[1]), 0); err != nil {
			return fmt.Errorf("set net/%s to %s: %w", s[0], s[1], err)
		}
	}
	return nil
}

// configure addresses the host's device, brings it and the loopback up, and
// tells it where the peer is.
func (h *Host) configure(opts Options) error {
	lo, err := h.nl.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find lo: %w", err)
	}
	if err := h.nl.LinkSetUp(lo); err != nil {
		return fmt.Errorf("bring lo up: %w", err)
	}
	dev, err := h.nl.LinkByName(h.Device)
	if err != nil {
		return err
	}
	h.Ifindex = dev.Attrs().Index
	// Without ARP a device asks for no neighbour and joins no solicited-node group.
	if err := h.nl.LinkSetARPOff(dev); err != nil {
		return fmt.Errorf("switch ARP off: %w", err)
	}
	segments := opts.GSOSegments
	if segments == 0 && !opts.Offload { // TCP builds super-packets even for devices without GSO
		segments = 1
	}
	if segments > 0 {
		if err := h.nl.LinkSetGSOMaxSegs(dev, segments); err != nil {
			return fmt.Errorf("bound super-packets to %d segments: %w", segments, err)
		}
	}
	if err := h.nl.LinkSetUp(dev); err != nil {
		return fmt.Errorf("bring it up: %w", err)
	}
	if err := h.Do(func() error { return setOffloads(h.Device, opts.Offload) }); err != nil {
		return err
	}
	for _, p := range []netip.Prefix{h.IPv4, h.IPv6} {
		addr := &netlink.Addr{IPNet: ipNet(p)}
		if p.Addr().Is6() {
			addr.Flags = unix.IFA_F_NODAD
		}
		if err := h.nl.AddrAdd(dev, addr); err != nil {
			return fmt.Errorf("add %s: %w", p, err)
		}
	}
	for _, p := range []netip.Prefix{h.peer.IPv4, h.peer.IPv6} {
		if err := h.nl.NeighSet(&netlink.Neigh{
			LinkIndex:    h.Ifindex,
			State:        netlink.NUD_PERMANENT,
			IP:           p.Addr().AsSlice(),
			HardwareAddr: h.peer.MAC,
		}); err != nil {
			return fmt.Errorf("add the neighbour %s: %w", p.Addr(), err)
		}
	}
	return nil
}

// waitReady returns once the device carries traffic. Until it has its carrier the
// kernel drops what is sent; and an IPv6 address receives only once it has its
// route, which the kernel adds in its own time, DAD or none.
func (h *Host) waitReady() error {
	for deadline := time.Now().Add(readyWithin); ; time.Sleep(time.Millisecond) {
		dev, err := h.nl.LinkByName(h.Device)
		if err != nil {
			return fmt.Errorf("look at %s: %w", h.Device, err)
		}
		routed, err := h.hasRoute()
		if err != nil {
			return fmt.Errorf("look at the routes to %s: %w", h.Device, err)
		}
		state := dev.Attrs().OperState
		if state == netlink.OperUp && routed {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s is not ready after %s: its link is %s, IPv6 routed: %t", h.Device, readyWithin, state, routed)
		}
	}
}

// hasRoute reports whether the kernel takes the host's IPv6 address for its own.
func (h *Host) hasRoute() (bool, error) {
	local := &netlink.Route{Table: unix.RT_TABLE_LOCAL, Type: unix.RTN_LOCAL}
	routes, err := h.nl.RouteListFiltered(netlink.FAMILY_V6, local, netlink.RT_FILTER_TABLE|netlink.RT_FILTER_TYPE)
	for _, r := range routes {
		if r.Dst != nil && r.Dst.IP.Equal(h.IPv6.Addr().AsSlice()) {
			return true, nil
		}
	}
	if errors.Is(err, netlink.ErrDumpInterrupted) {
		err = nil // it changed while it was listed: look again
	}
	return false, err
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{
		IP:   p.Addr().AsSlice(),
		Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen()),
	}
}

// setOffloads switches what a device does in the stack's stead, in the current
// thread's namespace. Checksums come first when switching on, last when switching
// off, since segmentation rests on them.
func setOffloads(device string, on bool) error {
	features := []struct {
		name string
		set  uint32
	}{
		{"tx checksums", unix.ETHTOOL_STXCSUM},
		{"rx checksums", unix.ETHTOOL_SRXCSUM},
		{"scatter-gather", unix.ETHTOOL_SSG},
		{"TSO", unix.ETHTOOL_STSO},
		{"GSO", unix.ETHTOOL_SGSO},
		{"GRO", unix.ETHTOOL_SGRO},
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open a socket to switch offloads: %w", err)
	}
	defer unix.Close(fd)
	for i := range features {
		f := features[i]
		if !on {
			f = features[len(features)-1-i]
		}
		if err := ethtoolSet(fd, device, f.set, on); err != nil {
			return fmt.Errorf("switch %s (on: %t): %w", f.name, on, err)
		}
	}
	return nil
}

// ethtoolSet issues one of the ethtool commands that take a single value:
// struct ifreq pointing to struct ethtool_value.
func ethtoolSet(fd int, device string, command uint32, on bool) error {
	value := struct{ cmd, data uint32 }{cmd: command}
	if on {
		value.data = 1
	}
	req := struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [24 - unsafe.Sizeof(uintptr(0))]byte // ifr_ifru is 24 bytes, 16 on 32-bit machines
	}{data: unsafe.Pointer(&value)}
	copy(req.name[:unix.IFNAMSIZ-1], device)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&req)))
	if errno != 0 {
		return errno
	}
	return nil
}

// SetGRO has the host's device merge the packets that arrive into super-packets, or not.
// A device that merges has a queue of 256 packets of its own, and drops what is beyond.
func (h *Host) SetGRO(on bool) error {
	return h.Do(func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open a socket to switch offloads: %w", err)
		}
		defer unix.Close(fd)
		if err := ethtoolSet(fd, h.Device, unix.ETHTOOL_SGRO, on); err != nil {
			return fmt.Errorf("switch GRO of %s (on: %t): %w", h.Device, on, err)
		}
		return nil
	})
}
