package netlab

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const defaultTTL = 64

// A UDPFlow is a row of like datagrams.
type UDPFlow struct {
	To       netip.AddrPort
	From     uint16        // source port; 0: the kernel's choice
	Payload  int           // bytes of UDP payload a send
	Count    int           // sends
	Interval time.Duration // from one send to the next; 0: flat out
	TOS      uint8         // DSCP<<2 | ECN, for IPv4 and IPv6 alike
	TTL      uint8         // or hop limit; 0 means 64
	// GSO makes each send a super-packet of datagrams with this many bytes of payload,
	// the last with what remains (UDP_SEGMENT). 0: a send is a datagram. It needs a
	// laboratory with Offload; without, the kernel may refuse (EIO).
	GSO int
}

// SendUDP sends a flow until it has made Count sends or ctx is done, and returns how
// many it made. A late send is not skipped: those behind it follow at once, until the
// flow is on time again. A datagram that a policer drops on its way out is sent.
func (h *Host) SendUDP(ctx context.Context, f UDPFlow) (sent int, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("netlab: UDP from %s to %s, after %d of %d sends: %w", h.Device, f.To, sent, f.Count, err)
		}
	}()
	fd, err := h.udpSocket(h.addrPort(f.To, f.From))
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	if err := f.apply(fd); err != nil {
		return 0, err
	}
	payload := make([]byte, f.Payload)
	to := sockaddr(f.To)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for start := time.Now(); sent < f.Count; sent++ {
		if wait := time.Until(start.Add(time.Duration(sent) * f.Interval)); f.Interval > 0 && wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
		}
		if err := ctx.Err(); err != nil {
			return sent, err
		}
		for {
			err = unix.Sendto(fd, payload, 0, to)
			if !errors.Is(err, unix.EINTR) {
				break
			}
		}
		if err != nil {
			return sent, err
		}
	}
	return sent, nil
}

// udpSocket opens a UDP socket in the host's namespace. Its sends wait for room.
func (h *Host) udpSocket(at netip.AddrPort) (fd int, err error) {
	family := unix.AF_INET
	if at.Addr().Is6() {
		family = unix.AF_INET6
	}
	err = h.Do(func() error {
		fd, err = unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return -1, fmt.Errorf("open a UDP socket: %w", err)
	}
	if err := unix.Bind(fd, sockaddr(at)); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("bind to %s: %w", at, err)
	}
	return fd, nil
}

// apply sets the socket options that make a flow's packets what they are.
func (f UDPFlow) apply(fd int) error {
	if f.TTL == 0 {
		f.TTL = defaultTTL
	}
	type option struct {
		what               string
		level, name, value int
	}
	options := []option{
		{"TOS", unix.IPPROTO_IP, unix.IP_TOS, int(f.TOS)},
		{"TTL", unix.IPPROTO_IP, unix.IP_TTL, int(f.TTL)},
	}
	if f.To.Addr().Unmap().Is6() {
		options = []option{
			{"traffic class", unix.IPPROTO_IPV6, unix.IPV6_TCLASS, int(f.TOS)},
			{"hop limit", unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, int(f.TTL)},
		}
	}
	if f.GSO > 0 {
		options = append(options, option{"UDP_SEGMENT", unix.IPPROTO_UDP, unix.UDP_SEGMENT, f.GSO})
	}
	for _, o := range options {
		if err := unix.SetsockoptInt(fd, o.level, o.name, o.value); err != nil {
			return fmt.Errorf("set %s to %d: %w", o.what, o.value, err)
		}
	}
	return nil
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if ip := a.Addr().Unmap(); ip.Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: ip.As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}

// Received is what a UDPSink counted.
type Received struct {
	Datagrams uint64
	Bytes     uint64      // of UDP payload
	TOS       [256]uint64 // datagrams by DSCP<<2 | ECN
	// Dropped counts what found the socket's queue full, and those of BadChecksums that
	// the kernel found out only there. Unless it is 0, all else here may be too low.
	Dropped uint64
	// BadChecksums counts the datagrams that the host, any socket of it, has dropped
	// for their UDP checksum since the sink was made.
	BadChecksums uint64
}

// A UDPSink receives datagrams and counts them, in a queue of 64 MiB. It stands
// behind all that polices its host's device.
type UDPSink struct {
	host     *Host
	addr     netip.AddrPort
	badSoFar uint64 // when the sink was made
	drain    *drain
	once     sync.Once
	err      error
	buf, oob []byte
	received Received // the drain's, until it has stopped
}

// ReceiveUDP starts to receive at the host's IPv4 or IPv6 address. Port 0 is the
// kernel's choice, which Addr tells. Call Stop on what it returns.
func (h *Host) ReceiveUDP(ipv6 bool, port uint16) (*UDPSink, error) {
	at := netip.AddrPortFrom(h.Addr(ipv6), port)
	s := &UDPSink{host: h, addr: at, buf: make([]byte, maxMTU), oob: make([]byte, 256)}
	fd, err := h.udpSocket(at)
	if err == nil {
		err = s.prepare(fd)
	}
	if err != nil {
		return nil, fmt.Errorf("netlab: receive UDP at %s: %w", at, err)
	}
	if s.drain, err = newDrain(fd, s.read); err != nil {
		return nil, fmt.Errorf("netlab: receive UDP at %s: %w", at, err)
	}
	return s, nil
}

// prepare closes fd if it fails.
func (s *UDPSink) prepare(fd int) error {
	level, name := unix.IPPROTO_IP, unix.IP_RECVTOS
	if s.addr.Addr().Is6() {
		level, name = unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS
	}
	local, err := unix.Getsockname(fd)
	var mib error
	s.badSoFar, mib = s.host.udpChecksumErrors()
	err = errors.Join(err, mib,
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, queueBytes),
		unix.SetsockoptInt(fd, level, name, 1))
	if err != nil {
		unix.Close(fd)
		return err
	}
	switch a := local.(type) {
	case *unix.SockaddrInet4:
		s.addr = netip.AddrPortFrom(s.addr.Addr(), uint16(a.Port))
	case *unix.SockaddrInet6:
		s.addr = netip.AddrPortFrom(s.addr.Addr(), uint16(a.Port))
	}
	return nil
}

// Addr returns the address and port to send to.
func (s *UDPSink) Addr() netip.AddrPort { return s.addr }

func (s *UDPSink) read(fd int) error {
	n, oobn, _, _, err := unix.Recvmsg(fd, s.buf, s.oob, unix.MSG_DONTWAIT)
	if err != nil {
		return err
	}
	s.received.Datagrams++
	s.received.Bytes += uint64(n)
	for oob := s.oob[:oobn]; len(oob) > 0; {
		header, data, rest, err := unix.ParseOneSocketControlMessage(oob)
		if err != nil {
			return fmt.Errorf("read a datagram's control message: %w", err)
		}
		oob = rest
		switch { // the one is a byte, the other an int
		case header.Level == unix.IPPROTO_IP && header.Type == unix.IP_TOS && len(data) >= 1:
			s.received.TOS[data[0]]++
		case header.Level == unix.IPPROTO_IPV6 && header.Type == unix.IPV6_TCLASS && len(data) >= 4:
			s.received.TOS[byte(*(*int32)(unsafe.Pointer(&data[0])))]++
		}
	}
	return nil
}

// Stop returns what was received: every datagram that had arrived before the call,
// read to the last one in the queue. Later calls return the same.
func (s *UDPSink) Stop() (Received, error) {
	s.once.Do(func() {
		settle()
		// Connected to itself, the socket takes no more from anyone else, and its queue
		// has an end.
		unhook := unix.Connect(s.drain.fd, sockaddr(s.addr))
		s.err = s.drain.stop(func(fd int) (err error) {
			if s.received.Dropped, err = socketDrops(fd); err != nil {
				return err
			}
			bad, err := s.host.udpChecksumErrors()
			s.received.BadChecksums = bad - s.badSoFar
			return err
		})
		if s.err = errors.Join(unhook, s.err); s.err != nil {
			s.err = fmt.Errorf("netlab: receive UDP at %s: %w", s.addr, s.err)
		}
	})
	return s.received, s.err
}
