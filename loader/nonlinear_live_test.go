package loader

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tricolor-policer/tricolor/internal/netlab"
	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/marker"
)

// nonlinearPolicy takes nothing but the two flows that the tests send, by their ports, and marks what it lets
// through: all of it. What else came, it would count as of no class.
const nonlinearPolicy = `
version: 1
profiles:
  all: { meter: rfc4115, cir: 0B/s, cbs: 1GiB, eir: 1B/s, ebs: 1B }
classes:
  - name: ours
    match: { sport: [5000], dport: [7001] }
    meters: [ { profile: all, per: flow } ]
    green: { dscp: af11 }
`

const nonlinearPort = 7001

// wantAll checks that every packet on the wire has been charged, to one flow with its ports.
func wantAll(t *testing.T, p *policed, wire netlab.Count, s marker.Stats) {
	t.Helper()
	want := marker.ClassStats{}
	want.Packets[marker.Green], want.Bytes[marker.Green] = wire.Packets, wire.Bytes
	if s.Classes[0] != want || s.Port != (marker.PortStats{}) {
		t.Errorf("counted %+v, and of no class %+v; on the wire: %+v", s.Classes[0], s.Port, wire)
	}
	for _, b := range p.buckets(t) {
		if f := b.Key.Fields(); f.Sport != [2]byte{5000 >> 8, 5000 & 0xff} || f.Dport != [2]byte{nonlinearPort >> 8, nonlinearPort & 0xff} {
			t.Errorf("a key without the ports: %+v", f)
		}
	}
	if n := len(p.buckets(t)); n != 1 {
		t.Errorf("%d flows, want 1", n)
	}
}

// What TCP sends from pages: a file's (sendfile), the process's own (MSG_ZEROCOPY), and what it was given to copy.
func TestPages(t *testing.T) {
	testutils.RequireRoot(t)
	for _, c := range []struct {
		name string
		send func(conn *os.File, file *os.File) error
	}{
		{"sendfile", sendFile},
		{"zerocopy", sendZeroCopy},
		{"write", func(conn, file *os.File) error {
			_, err := io.Copy(struct{ io.Writer }{conn}, struct{ io.Reader }{file})
			return err
		}},
	} {
		for _, ipv6 := range []bool{false, true} {
			for _, offload := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s ipv6=%t offload=%t", c.name, ipv6, offload), func(t *testing.T) {
					testPages(t, c.send, ipv6, offload)
				})
			}
		}
	}
}

const pagesLen = 1_000_001 // bytes of the file that is sent

func testPages(t *testing.T, send func(conn, file *os.File) error, ipv6, offload bool) {
	t.Helper()
	lab := newLab(t, netlab.Options{Offload: offload, GSOSegments: 40})
	policed := police(t, lab.Left, "left0", Egress, policyPlan(t, nonlinearPolicy))
	watch, err := lab.Right.Watch(netlab.WatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, make([]byte, pagesLen), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	sink, err := lab.Right.ServeTCP(ipv6, nonlinearPort)
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Stop()
	conn := connect(t, lab.Left, netip.AddrPortFrom(lab.Left.Addr(ipv6), 5000), sink.Addr())
	if err := send(conn, file); err != nil {
		t.Fatal(err)
	}
	if err := unix.Shutdown(int(conn.Fd()), unix.SHUT_WR); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(conn); err != nil { // the sink ends it once it has read all
		t.Fatal(err)
	}
	if err := sink.Settle(bounded(t)); err != nil {
		t.Fatal(err)
	}
	if n, err := sink.Stop(); n != pagesLen || err != nil {
		t.Errorf("received %d bytes, %v; want %d", n, err, pagesLen)
	}
	seen := policed.stats(t)
	if err := watch.Wait(bounded(t), total(&seen)); err != nil {
		t.Error(err)
	}
	wire, err := watch.Stop()
	if err != nil {
		t.Fatal(err)
	}
	if wire.Dropped != 0 || wire.DSCP[af11] != wire.Total {
		t.Errorf("on the wire: %d frames lost, %+v of %+v marked", wire.Dropped, wire.DSCP[af11], wire.Total)
	}
	wantAll(t, policed, wire.Total, policed.wait(t, wire.Total.Packets))
}

// connect opens a TCP connection whose socket waits, for a minute at most.
func connect(tb testing.TB, h *netlab.Host, from, to netip.AddrPort) *os.File {
	tb.Helper()
	address := func(a netip.AddrPort) unix.Sockaddr {
		if a.Addr().Is4() {
			return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
		}
		return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
	}
	family := unix.AF_INET
	if to.Addr().Is6() {
		family = unix.AF_INET6
	}
	fd := -1
	err := h.Do(func() (err error) {
		fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	conn := os.NewFile(uintptr(fd), "connection")
	tb.Cleanup(func() { conn.Close() })
	minute := &unix.Timeval{Sec: 60}
	if err := errors.Join(
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, minute),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, minute),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
		unix.Bind(fd, address(from)),
	); err != nil {
		tb.Fatal(err)
	}
	if err := unix.Connect(fd, address(to)); err != nil {
		tb.Fatal(err)
	}
	return conn
}

func sendFile(conn, file *os.File) error {
	for {
		n, err := unix.Sendfile(int(conn.Fd()), int(file.Fd()), nil, math.MaxInt32)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if n == 0 || err != nil {
			return err
		}
	}
}

// sendZeroCopy sends the process's own pages: the kernel only refers to them.
func sendZeroCopy(conn, file *os.File) error {
	fd := int(conn.Fd())
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ZEROCOPY, 1); err != nil {
		return err
	}
	data, err := unix.Mmap(int(file.Fd()), 0, pagesLen, unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	defer unix.Munmap(data)
	oob := make([]byte, 128)
	for rest := data; len(rest) > 0; {
		n, err := unix.SendmsgN(fd, rest[:min(len(rest), 64<<10)], nil, nil, unix.MSG_ZEROCOPY)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ENOBUFS): // too many sends that nobody has asked about
			if _, _, _, _, err := unix.Recvmsg(fd, nil, oob, unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT); err != nil && !errors.Is(err, unix.EAGAIN) {
				return err
			}
		case err != nil:
			return err
		}
		rest = rest[max(n, 0):]
	}
	return nil
}

// Headers that lie outside the linear area, wholly or in part: of large frames that packet sockets and taps ask
// to have in pages, and of frames in a ring that the process shares with the kernel. Policed, marked and counted
// as any; and what the process has in its ring stays as it is.
func TestHeadersInPages(t *testing.T) {
	testutils.RequireRoot(t)
	for _, ipv6 := range []bool{false, true} {
		for _, udp := range []bool{false, true} {
			t.Run(fmt.Sprintf("packet socket ipv6=%t udp=%t", ipv6, udp), func(t *testing.T) {
				testHeadersInPages(t, ipv6, udp, func(lab *netlab.Lab, frames []netlab.Frame) error {
					return lab.Left.SendFrames(bounded(t), frames...)
				})
			})
			t.Run(fmt.Sprintf("ring ipv6=%t udp=%t", ipv6, udp), func(t *testing.T) {
				testHeadersInPages(t, ipv6, udp, func(lab *netlab.Lab, frames []netlab.Frame) error {
					var short []netlab.Frame
					for i := range frames {
						short = append(short, netlab.Frame{Data: transportFrame(t, lab.Left, ipv6, udp, nonlinearPort, 20*i, false)})
					}
					after, err := lab.Left.SendRing(short...)
					for i := range after {
						if string(after[i]) != string(short[i].Data) {
							t.Errorf("frame %d: the process's own memory was marked", i)
						}
					}
					return err
				})
			})
			t.Run(fmt.Sprintf("tap ipv6=%t udp=%t", ipv6, udp), func(t *testing.T) {
				testHeadersInPages(t, ipv6, udp, nil)
			})
		}
	}
}

// testHeadersInPages sends frames by send out of left0, or, if that is nil, by a tap that is bridged to left0.
func testHeadersInPages(t *testing.T, ipv6, udp bool, send func(*netlab.Lab, []netlab.Frame) error) {
	t.Helper()
	lab := newLab(t, netlab.Options{MTU: 9000})
	watch, err := lab.Right.Watch(netlab.WatchOptions{Keep: true})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	device, direction := "left0", Egress
	if send == nil {
		tap := openTap(t, lab.Left, netlab.TapOptions{Name: "tap0", Offload: true, MTU: 9000})
		addBridge(t, lab.Left, "tap0", "left0")
		device, direction = "tap0", Ingress
		send = func(_ *netlab.Lab, frames []netlab.Frame) error {
			for _, f := range frames {
				if err := tap.Send(f); err != nil {
					return err
				}
			}
			return nil
		}
	}
	policed := police(t, lab.Left, device, direction, policyPlan(t, nonlinearPolicy))
	var pages *foreign
	if device == lab.Left.Device && !testutils.KernelBefore(t, 6, 6) {
		pages = newLargest(t, bufferInPages)
		pages.attachTCX(t, lab.Left, direction, true)
	}
	var frames []netlab.Frame
	for linear := 14; linear <= 80; linear++ {
		frames = append(frames, netlab.Frame{Data: transportFrame(t, lab.Left, ipv6, udp, nonlinearPort, 8000+linear, false), Linear: linear})
	}
	if err := send(lab, frames); err != nil {
		t.Fatal(err)
	}
	if err := watch.Wait(bounded(t), uint64(len(frames))); err != nil {
		t.Errorf("%v; counted: %+v", err, policed.stats(t))
	}
	wire, err := watch.Stop()
	if err != nil {
		t.Fatal(err)
	}
	if wire.DSCP[af11] != wire.Total || wire.BadChecksums != 0 || wire.Total.Packets != uint64(len(frames)) {
		t.Errorf("on the wire: %+v of %+v marked, %d bad checksums", wire.DSCP[af11], wire.Total, wire.BadChecksums)
	}
	wantAll(t, policed, wire.Total, policed.wait(t, wire.Total.Packets))
	if pages != nil {
		if linear := mostLinear - pages.count(t); linear > 20 {
			t.Errorf("the shortest linear area at the hook has %d bytes: no IP header was outside", linear)
		}
	}
}
