package netlab

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// TapOptions says what a tap device is like.
type TapOptions struct {
	Name string
	L3   bool // a tun device: its packets have no link header
	// Pieces hands the stack each part of a write as a piece of memory of its own; the
	// first is the linear area.
	Pieces bool
	// Offload lets frames be super-packets, and say how much of them is linear.
	Offload bool
	MTU     int // bytes of IP; 0 means 1500
}

// A Tap is a tap or tun device whose arriving packets the process writes. It is gone
// when it is closed.
type Tap struct {
	Ifindex int
	opts    TapOptions
	fd      int
}

// OpenTap makes a device in the host's namespace and brings it up. The error wraps
// unix.ENOENT where the kernel has no tun devices, and unix.EINVAL where it has none
// like these.
func (h *Host) OpenTap(o TapOptions) (*Tap, error) {
	t := &Tap{opts: o, fd: -1}
	err := h.Do(func() (err error) { // a device is made where its descriptor was opened
		t.fd, err = unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err != nil {
			return fmt.Errorf("open /dev/net/tun: %w", err)
		}
		return t.make()
	})
	if err != nil {
		err = fmt.Errorf("netlab: make %s: %w", o.Name, err)
		if t.fd >= 0 {
			err = errors.Join(err, unix.Close(t.fd))
		}
		return nil, err
	}
	return t, nil
}

func (t *Tap) make() error {
	flags := uint16(unix.IFF_NO_PI | unix.IFF_TAP)
	if t.opts.L3 {
		flags = unix.IFF_NO_PI | unix.IFF_TUN
	}
	if t.opts.Pieces {
		flags |= unix.IFF_NAPI | unix.IFF_NAPI_FRAGS
	}
	if t.opts.Offload {
		flags |= unix.IFF_VNET_HDR
	}
	req, err := unix.NewIfreq(t.opts.Name)
	if err != nil {
		return err
	}
	req.SetUint16(flags)
	if err := unix.IoctlIfreq(t.fd, unix.TUNSETIFF, req); err != nil {
		return fmt.Errorf("TUNSETIFF: %w", err)
	}
	link, err := netlink.LinkByName(t.opts.Name)
	if err != nil {
		return err
	}
	t.Ifindex = link.Attrs().Index
	if t.opts.MTU != 0 {
		if err := netlink.LinkSetMTU(link, t.opts.MTU); err != nil {
			return err
		}
	}
	// As with a laboratory's devices, nobody asks for neighbours.
	return errors.Join(netlink.LinkSetARPOff(link), netlink.LinkSetUp(link))
}

// Send has a frame arrive at the device. With Pieces, it is cut before each of the given
// offsets, in ascending order.
func (t *Tap) Send(f Frame, cuts ...int) error {
	var parts [][]byte
	data := f.Data
	if t.opts.Offload {
		header, d, err := f.vnet()
		if err != nil {
			return fmt.Errorf("netlab: send into %s: %w", t.opts.Name, err)
		}
		parts, data = append(parts, header), d
	}
	from := 0
	for _, to := range append(cuts, len(data)) {
		parts = append(parts, data[from:to])
		from = to
	}
	for {
		_, err := unix.Writev(t.fd, parts)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("netlab: send %d bytes into %s: %w", len(data), t.opts.Name, err)
		}
		return nil
	}
}

// Receive returns a packet that left by the device, with its link header, or
// unix.EAGAIN where there is none. Not with Offload.
func (t *Tap) Receive() ([]byte, error) {
	b := make([]byte, maxMTU+etherLen)
	n, err := unix.Read(t.fd, b)
	if err != nil {
		return nil, err
	}
	return b[:n], nil
}

// Close removes the device.
func (t *Tap) Close() error { return unix.Close(t.fd) }
