// Package netlab is a network laboratory in one process: two fresh network
// namespaces joined by a veth pair, senders on either side, and an observer that
// counts what really arrives.
//
//	192.0.2.1/24, 2001:db8::1/64        192.0.2.2/24, 2001:db8::2/64
//	          left0 ───────────── veth ───────────── right0
//
// The demo and the live tests police one of the two devices and let the other
// side say what came of it. The laboratory is quiet: no ARP, no neighbour
// discovery, no router solicitation, no multicast report is ever sent, so every
// packet that a counter sees is one that somebody sent on purpose.
//
// The namespaces have no name and no mount: the kernel keeps each only as long
// as something of this process (a descriptor, a thread, a socket) refers to it.
// Close drops these, and so does the end of the process, be it a panic or
// SIGKILL; nothing is left for anybody to clean up.
//
// Everything here needs root (CAP_NET_ADMIN, CAP_NET_RAW and CAP_SYS_ADMIN).
// Nothing is run through a shell.
package netlab

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// ErrClosed is returned by every use of a laboratory after Close.
var ErrClosed = errors.New("the laboratory is closed")

// The smallest MTU that carries IPv6, and the largest that a veth takes.
const (
	minMTU     = 1280
	maxMTU     = 65535
	defaultMTU = 1500
)

// Options says what the link is like. The zero value is a plain Ethernet whose
// frames look as they would on a wire.
type Options struct {
	// Offload leaves segmentation (TSO, GSO), merging (GRO) and checksums to the
	// device: the devices then see super-packets and unfinished checksums, as on a
	// fast NIC. Without it every frame is one packet of at most MTU bytes, complete.
	Offload bool
	// GSOSegments is how many segments TCP puts in a super-packet at most; 0: one, or
	// with Offload any number. Without Offload egress hooks see super-packets all the
	// same; then the kernel cuts them and completes the checksums, so that what arrives
	// is as it would be on a wire.
	GSOSegments int
	// MTU of both devices, in bytes of IP: 1280 to 65535; 0 means 1500.
	MTU int
	// ECN has TCP connections negotiate ECN, so that their data is sent as ECT(0).
	ECN bool
}

// A Lab is two hosts and the link between them. It is safe for concurrent use.
type Lab struct {
	Left, Right *Host

	once sync.Once
	err  error
}

// New makes a laboratory that is ready to carry traffic: both devices are up and
// addressed, and each host knows the other's link address.
//
// It returns an error that wraps unix.EPERM where the process may not make
// network namespaces, and one that names the bad option where opts has one.
func New(opts Options) (*Lab, error) {
	if opts.MTU == 0 {
		opts.MTU = defaultMTU
	}
	if opts.MTU < minMTU || opts.MTU > maxMTU {
		return nil, fmt.Errorf("netlab: MTU %d: must be from %d to %d bytes", opts.MTU, minMTU, maxMTU)
	}
	left, right := newHost("left0", 1), newHost("right0", 2)
	left.peer, right.peer = right, left
	lab := &Lab{Left: left, Right: right}
	if err := lab.build(opts); err != nil {
		return nil, errors.Join(fmt.Errorf("netlab: %w", err), lab.Close())
	}
	return lab, nil
}

func (l *Lab) build(opts Options) error {
	hosts := []*Host{l.Left, l.Right}
	for _, h := range hosts {
		if err := h.open(); err != nil {
			return err
		}
		if err := h.Do(func() error { return writeSysctls(opts) }); err != nil {
			return err
		}
	}
	pair := &netlink.Veth{
		LinkAttrs:        netlink.LinkAttrs{Name: l.Left.Device, MTU: opts.MTU, HardwareAddr: l.Left.MAC},
		PeerName:         l.Right.Device,
		PeerHardwareAddr: l.Right.MAC,
		PeerMTU:          uint32(opts.MTU),
		PeerNamespace:    netlink.NsFd(l.Right.NS),
	}
	if err := l.Left.nl.LinkAdd(pair); err != nil {
		return fmt.Errorf("make the veth pair %s–%s: %w", l.Left.Device, l.Right.Device, err)
	}
	for _, h := range hosts {
		if err := h.configure(opts); err != nil {
			return fmt.Errorf("configure %s: %w", h.Device, err)
		}
	}
	for _, h := range hosts { // neither is before both are up
		if err := h.waitReady(); err != nil {
			return err
		}
	}
	return nil
}

// Close takes the link down and lets both namespaces go. Stop watches and sinks
// first: a socket left open keeps its namespace (but no device) alive. Close may
// be called more than once, and answers the same each time.
func (l *Lab) Close() error {
	l.once.Do(func() {
		l.err = errors.Join(l.Left.close(), l.Right.close())
	})
	return l.err
}

// newHost returns a host that has its identity, and no namespace yet. The
// addresses are those set aside for documentation (RFC 5737, RFC 3849).
func newHost(device string, n byte) *Host {
	return &Host{
		NS:     -1,
		Device: device,
		MAC:    net.HardwareAddr{0x02, 0, 0, 0, 0, n}, // locally administered
		IPv4:   netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, n}), 24),
		IPv6:   netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 15: n}), 64),
	}
}

// isGone reports whether err says that what was to be removed is not there.
func isGone(err error) bool {
	return errors.Is(err, unix.ENODEV) || errors.As(err, &netlink.LinkNotFoundError{})
}
