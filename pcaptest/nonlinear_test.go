package pcaptest

import (
	"encoding/binary"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/loader"
	"github.com/tricolor-policer/tricolor/maps"
	"github.com/tricolor-policer/tricolor/marker"
)

// fragmented makes a tap device in a network namespace of its own, which hands each part of a write to the
// stack as a piece of memory of its own: the first is the skb's linear area. The thread stays there.
func fragmented(t *testing.T) (*os.File, netlink.Link) {
	t.Helper()
	runtime.LockOSThread() // never unlocked: the thread ends in its namespace
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ns.Close() })
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("no tap devices here: %v", err)
	}
	file := os.NewFile(uintptr(fd), "tap")
	t.Cleanup(func() { file.Close() })
	ifreq, err := unix.NewIfreq("tap0")
	if err != nil {
		t.Fatal(err)
	}
	ifreq.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_NAPI | unix.IFF_NAPI_FRAGS)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, ifreq); err != nil {
		t.Skipf("no tap devices in pieces here: %v", err)
	}
	tap, err := netlink.LinkByName("tap0")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(tap); err != nil {
		t.Fatal(err)
	}
	return file, tap
}

// SPEC 4.2: headers outside the skb's linear area are read all the same, wherever that ends; and the
// packet is policed as it would be in one piece.
func TestHeadersOutsideTheLinearArea(t *testing.T) {
	testutils.RequireKernel(t)
	plan := planOf(t, marker.Params{Meter: marker.Token, CIR: 1, CBS: 1 << 20}, marker.PerFlow, 64)
	program, err := loader.Load(plan, loader.Options{Seeds: marker.SeedsFrom(1)})
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	buckets, err := maps.OpenBuckets(program.Maps.Buckets)
	if err != nil {
		t.Fatal(err)
	}
	defer buckets.Close()
	tap, device := fragmented(t)
	hook, err := link.AttachTCX(link.TCXOptions{Interface: device.Attrs().Index, Program: program.Program, Attach: ebpf.AttachTCXIngress})
	if err != nil {
		t.Skipf("no TCX here: %v", err)
	}
	defer hook.Close()

	macs := append([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 2, 0, 0, 0, 0, 9)
	v4 := []byte{0x47, 0, 0, 136, 0, 1, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 198, 51, 100, 7, 1, 1, 1, 1, 1, 1, 1, 1}
	v6 := []byte{0x60, 0, 0, 0, 0, 132, 0, 64, 0x20, 1, 0xd, 0xb8, 23: 1, 24: 0x20, 25: 1, 39: 2}
	options := func(next byte, size int) []byte { // of padding
		b := make([]byte, size)
		b[0], b[1], b[2], b[3] = next, byte(size/8-1), 1, byte(size-4)
		return b
	}
	udp := make([]byte, 108)
	udp[5] = 108
	binary.BigEndian.PutUint16(udp, 0x1234)
	binary.BigEndian.PutUint16(udp[2:], 4242)
	for _, c := range []struct {
		name  string
		parts [][]byte
		ip    int // bytes
	}{
		{"IPv4 with options", [][]byte{macs, {8, 0}, v4, udp}, 136},
		{"IPv4 with options behind a tag", [][]byte{macs, {0x81, 0, 0, 5, 8, 0}, v4, udp}, 136},
		{"IPv4 with options behind two tags", [][]byte{macs, {0x88, 0xa8, 0, 5, 0x81, 0, 0, 6, 8, 0}, v4, udp}, 136},
		{"IPv4 in PPPoE", [][]byte{macs, {0x88, 0x64, 0x11, 0, 0, 1, 0, 138, 0, 0x21}, v4, udp}, 136},
		{"IPv6 with extension headers", [][]byte{macs, {0x86, 0xdd}, v6, options(60, 8), options(17, 16), udp}, 172},
	} {
		t.Run(c.name, func(t *testing.T) {
			var frame []byte
			for _, p := range c.parts {
				frame = append(frame, p...)
			}
			if frame[len(macs)] == 8 || strings.HasPrefix(c.name, "IPv4") {
				ip := frame[len(frame)-136:][:28]
				binary.BigEndian.PutUint16(ip[10:], 0)
				binary.BigEndian.PutUint16(ip[10:], ^sum(ip))
			}
			for linear := 14; linear <= len(frame)-100; linear++ {
				before, err := program.Maps.Stats(plan)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := unix.Writev(int(tap.Fd()), [][]byte{frame[:linear], frame[linear:]}); err != nil {
					t.Fatalf("%d bytes linear: %v", linear, err)
				}
				after, err := program.Maps.Stats(plan)
				if err != nil {
					t.Fatal(err)
				}
				want := before.Classes[0]
				want.Packets[marker.Green]++
				want.Bytes[marker.Green] += uint64(c.ip)
				if after.Classes[0] != want || after.Port.Malformed != before.Port.Malformed {
					t.Fatalf("%d bytes linear: counted %+v, before %+v", linear, after, before)
				}
			}
		})
	}
	torn, flows := 0, 0
	for _, s := range buckets.All(&torn) {
		if f := s.Key.Fields(); f.Sport == [2]byte{0x12, 0x34} {
			flows++
		} else {
			t.Errorf("a key without the ports: %v", f)
		}
	}
	if flows != 2 || torn != 0 {
		t.Errorf("%d flows, not one of IPv4 and one of IPv6; %d torn", flows, torn)
	}
}
