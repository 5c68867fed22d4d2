package netlab

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

func TestWatchTellsApart(t *testing.T) {
	lab := newLab(t, Options{})
	frame := func(port uint16) Frame {
		f, err := lab.Left.UDPFrame(UDPFlow{To: netip.AddrPortFrom(netip.Addr{}, port), Payload: 20})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	broken := frame(9)
	broken.Data[etherLen+10] ^= 1 // the IPv4 header's checksum
	arp := frame(9)
	arp.Data[12], arp.Data[13] = 0x08, 0x06
	padded := frame(9)
	padded.Data = append(padded.Data, make([]byte, 30)...)

	w := watch(t, lab.Right, WatchOptions{Port: 9})
	if err := lab.Left.SendFrames(bounded(t), frame(9), broken, arp, frame(10), padded); err != nil {
		t.Fatal(err)
	}
	seen := stop(t, w, 3)
	want := Count{Packets: 3, Bytes: 3 * (20 + udpLen + ipv4Len)}
	if seen.Total != want || seen.BadChecksums != 1 || seen.Ignored != 2 {
		t.Errorf("counted %+v, %d bad checksums, %d ignored; want %+v, 1, 2", seen.Total, seen.BadChecksums, seen.Ignored, want)
	}
}

// What the capture itself loses must show, to the packet.
func TestWatchTellsItsLosses(t *testing.T) {
	lab := newLab(t, Options{})
	w := watch(t, lab.Right, WatchOptions{Port: 9})
	if err := unix.SetsockoptInt(w.drain.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 4096); err != nil {
		t.Fatal(err)
	}
	const count = 1000
	w.mu.Lock() // the reader gets no further than its first frame
	_, err := lab.Left.SendUDP(bounded(t), UDPFlow{To: netip.AddrPortFrom(lab.Right.IPv4.Addr(), 9), Count: count})
	w.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	seen, err := w.Stop()
	if err != nil {
		t.Fatal(err)
	}
	if seen.Dropped == 0 || seen.Total.Packets+seen.Dropped != count {
		t.Errorf("counted %d and lost %d of %d", seen.Total.Packets, seen.Dropped, count)
	}
}

func TestSinkTellsItsLosses(t *testing.T) {
	lab := newLab(t, Options{})
	for ipv6, ip := range map[bool]int{false: ipv4Len, true: ipv6Len} {
		sink, err := lab.Right.ReceiveUDP(ipv6, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer sink.Stop()
		for _, payload := range []int{10, 1000} { // the kernel checks the two in different places
			right, err := lab.Left.UDPFrame(UDPFlow{To: sink.Addr(), Payload: payload})
			if err != nil {
				t.Fatal(err)
			}
			wrong := Frame{Data: append([]byte(nil), right.Data...)}
			wrong.Data[etherLen+ip+6] ^= 1 // the UDP checksum
			if err := lab.Left.SendFrames(bounded(t), right, wrong, right); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := sink.Stop(); err != nil || got.Datagrams != 4 || got.BadChecksums != 2 {
			t.Errorf("ipv6 %t: received %d datagrams, %d bad checksums; want 4, 2: %v", ipv6, got.Datagrams, got.BadChecksums, err)
		}
	}
}

// Stop must end, and tell, under a sender that does not and without a device.
func TestStopEnds(t *testing.T) {
	lab := newLab(t, Options{})
	sink, err := lab.Right.ReceiveUDP(true, 0)
	if err != nil {
		t.Fatal(err)
	}
	w := watch(t, lab.Right, WatchOptions{})
	orphan := watch(t, lab.Right, WatchOptions{})

	ctx, cancel := context.WithCancel(bounded(t))
	ended := make(chan error)
	go func() {
		_, err := lab.Left.SendUDP(ctx, UDPFlow{To: sink.Addr(), Count: 1 << 30})
		ended <- err
	}()
	if err := w.Wait(ctx, 1000); err != nil {
		t.Error(err)
	}
	if _, err := w.Stop(); err != nil {
		t.Error(err)
	}
	if _, err := sink.Stop(); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the sender ended with %v", err)
	}

	if err := lab.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := orphan.Stop(); !errors.Is(err, unix.ENETDOWN) {
		t.Errorf("a watch whose device went away says %v, want ENETDOWN", err)
	}
}
