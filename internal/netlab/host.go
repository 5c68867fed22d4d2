package netlab

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"sync"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// A Host is one end of the link: a namespace with a loopback and one device.
// Its fields are set by New and are not to be changed.
type Host struct {
	NS         netns.NsHandle // closed by Lab.Close
	Device     string         // "left0" or "right0"
	Ifindex    int            // of Device, inside NS
	MAC        net.HardwareAddr
	IPv4, IPv6 netip.Prefix // address and prefix length of Device

	peer *Host

	mu sync.RWMutex // held to enter NS, and to close it
	nl *netlink.Handle
}

// Peer returns the host at the other end of the link.
func (h *Host) Peer() *Host { return h.peer }

// Addr returns the host's IPv6 or IPv4 address.
func (h *Host) Addr(ipv6 bool) netip.Addr {
	if ipv6 {
		return h.IPv6.Addr()
	}
	return h.IPv4.Addr()
}

// Do runs f inside the host's namespace: on the calling goroutine, its thread
// locked and moved there, and moved back when f returns, panics or exits. A socket
// opened in f belongs to the namespace for good, wherever it is used; a goroutine
// started in f does not. Calls may nest and run concurrently.
//
// It returns f's error, or ErrClosed. Should the kernel not let the thread back, it
// says so, and leaves the thread locked: the runtime discards it with the goroutine.
func (h *Host) Do(f func() error) error { return away(h.enter, f) }

// away locks the thread, calls leave, which moves it to another namespace or fails,
// then f, and brings it back.
func away(leave, f func() error) (err error) {
	runtime.LockOSThread()
	home, err := netns.Get()
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("open this thread's network namespace: %w", err)
	}
	defer home.Close()
	if err := leave(); err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer func() {
		if back := netns.Set(home); back != nil {
			err = errors.Join(err, fmt.Errorf("return to the namespace the thread came from: %w", back))
			return
		}
		runtime.UnlockOSThread()
	}()
	return f()
}

func (h *Host) enter() error {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if !h.NS.IsOpen() {
		return ErrClosed
	}
	if err := netns.Set(h.NS); err != nil {
		return fmt.Errorf("enter the namespace of %s: %w", h.Device, err)
	}
	return nil
}

// open gives the host its namespace.
func (h *Host) open() error {
	return away(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make a network namespace (this needs root): %w", err)
		}
		return nil
	}, func() (err error) {
		if h.NS, err = netns.Get(); err != nil {
			return fmt.Errorf("open the namespace of %s: %w", h.Device, err)
		}
		if h.nl, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
			return fmt.Errorf("open netlink in the namespace of %s: %w", h.Device, err)
		}
		return nil
	})
}

// close removes the host's device, and with it the peer's, rather than leave that
// to the kernel's own time: once it returns, nobody's counters move any more.
func (h *Host) close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var err error
	if h.nl != nil {
		if link, lookup := h.nl.LinkByName(h.Device); lookup == nil {
			err = h.nl.LinkDel(link)
		} else if !isGone(lookup) {
			err = lookup
		}
		if isGone(err) {
			err = nil // its peer went first
		}
		if err != nil {
			err = fmt.Errorf("remove %s: %w", h.Device, err)
		}
		h.nl.Close()
		h.nl = nil
	}
	if h.NS.IsOpen() {
		err = errors.Join(err, h.NS.Close())
	}
	return err
}
