package main

import (
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/tricolor-policer/tricolor/policy"
)

// linkOf returns what is known of a device's link.
func linkOf(device string) policy.Link {
	mtu, super := largestPackets(device)
	return policy.Link{MTU: mtu, Largest: super, Speed: linkSpeed(device)}
}

// segmentHeaders is what each TCP segment of a super-packet has of its own, in bytes: IPv6, TCP, time
// stamps.
const segmentHeaders = 40 + 20 + 12

// largestPackets returns the largest packets that a device can deliver, in IP bytes: mtu, a plain one;
// super, a super-packet with the headers of all its segments, where GRO or GSO is on. 0: unknown, or
// none.
func largestPackets(device string) (mtu, super int) {
	link, err := netlink.LinkByName(device)
	if err != nil {
		return 0, 0
	}
	a := link.Attrs()
	if a.MTU <= segmentHeaders || !offloads(a.Name) {
		return a.MTU, 0
	}
	size := int(max(a.GSOMaxSize, a.GROMaxSize, a.GSOIPv4MaxSize, a.GROIPv4MaxSize))
	segments := size / (a.MTU - segmentHeaders)
	return a.MTU, size + segments*segmentHeaders
}

// Commands of ethtool(8)'s ioctl, from linux/ethtool.h.
const (
	ethtoolGetSettings = 0x01
	ethtoolGetGSO      = 0x23
	ethtoolGetGRO      = 0x2b
)

// offloads reports whether GRO or GSO is on for a device; false where that cannot be told.
func offloads(device string) bool {
	for _, command := range []uint32{ethtoolGetGRO, ethtoolGetGSO} {
		value := struct{ command, data uint32 }{command: command}
		if ethtool(device, unsafe.Pointer(&value)) && value.data != 0 {
			return true
		}
	}
	return false
}

// linkSpeed is a device's speed in bytes per second; 0 where that cannot be told.
func linkSpeed(device string) uint64 {
	value := struct { // ethtool_cmd
		command, supported, advertising uint32
		speed                           uint16 // low half; Mbit/s
		_                               [14]byte
		speedHigh                       uint16
		_                               [14]byte
	}{command: ethtoolGetSettings}
	if !ethtool(device, unsafe.Pointer(&value)) {
		return 0
	}
	megabits := uint32(value.speedHigh)<<16 | uint32(value.speed)
	if megabits == 0xffff || megabits == 1<<32-1 { // unknown
		return 0
	}
	return uint64(megabits) * 1_000_000 / 8
}

// ethtool has a device answer a command, in place.
func ethtool(device string, value unsafe.Pointer) bool {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var request struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}
	copy(request.name[:unix.IFNAMSIZ-1], device)
	request.data = value
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request)))
	return errno == 0
}
