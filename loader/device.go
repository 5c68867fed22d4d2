package loader

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Errors of a device that a person names.
var (
	ErrNoDevice   = errors.New("no such device")
	ErrDeviceType = errors.New("not a device to police")
)

// host is the network namespace that a command runs in.
type host struct {
	nl *netlink.Handle
	ns uint64 // inode of the namespace
}

// openHost opens the network namespace of the calling thread, and locks the goroutine to it until
// close.
func openHost() (_ *host, err error) {
	runtime.LockOSThread()
	defer func() {
		if err != nil {
			runtime.UnlockOSThread()
		}
	}()
	info, err := os.Stat("/proc/thread-self/ns/net")
	if err != nil {
		return nil, fmt.Errorf("tell the network namespace apart: %w", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil, errors.New("tell the network namespace apart: it has no inode")
	}
	nl, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, explain("open netlink", err)
	}
	return &host{nl: nl, ns: stat.Ino}, nil
}

func (h *host) close() {
	h.nl.Close()
	runtime.UnlockOSThread()
}

// device finds a device by its name or an alternative one. Returns ErrNoDevice.
func (h *host) device(name string) (netlink.Link, error) {
	device, err := h.nl.LinkByName(name)
	if !isNoDevice(err) {
		return device, err
	}
	devices, err := h.nl.LinkList()
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil, explain("list the devices", err)
	}
	var names []string
	for _, d := range devices {
		names = append(names, d.Attrs().Name)
	}
	return nil, fmt.Errorf("%w: no device named %s; there are: %s", ErrNoDevice, name, strings.Join(names, ", "))
}

// deviceAt finds a device by its index; nil where there is none.
func (h *host) deviceAt(ifindex uint32) (netlink.Link, error) {
	device, err := h.nl.LinkByIndex(int(ifindex))
	switch {
	case isNoDevice(err):
		return nil, nil
	case err != nil:
		return nil, explain(fmt.Sprintf("look at the device with index %d", ifindex), err)
	}
	return device, nil
}

func isNoDevice(err error) bool {
	return errors.As(err, &netlink.LinkNotFoundError{}) || errors.Is(err, unix.ENODEV)
}

// isL3 reports whether a device's packets start at the IP header, rather than at an Ethernet header.
// Returns ErrDeviceType where they start with neither.
func isL3(device netlink.Link) (bool, error) {
	a := device.Attrs()
	switch a.EncapType {
	case "ether", "loopback":
		return false, nil
	case "none", // tun, WireGuard, xfrm
		"ppp",
		"ipip", "tunnel6", "sit", // vti too
		"gre", "unknown823", // GRE over IPv6
		"unknown519": // raw IP of a modem
		return true, nil
	default:
		return false, fmt.Errorf("%w: %s has the link type %s; tricolor polices Ethernet, loopback, and devices of bare IP (tun, WireGuard, PPP, ipip, sit, GRE)",
			ErrDeviceType, a.Name, a.EncapType)
	}
}
