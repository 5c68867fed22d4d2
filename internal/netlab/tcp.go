package netlab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// chunkLen is how much SendTCP writes at a time, in bytes.
const chunkLen = 64 << 10

// A TCPFlow is one connection that sends and receives nothing back. It ends at
// Bytes or after For, whichever comes first; one of the two must be given.
type TCPFlow struct {
	To    netip.AddrPort
	Bytes int64         // of payload; 0: bounded by For alone
	For   time.Duration // of sending; 0: bounded by Bytes alone
	TOS   uint8         // DSCP<<2. TCP sets the ECN bits itself (Options.ECN): here they must be 0
}

// SendTCP connects, sends the flow, and waits until the other side has read all of
// it. It returns the bytes of payload sent; with an error, some of these may not have
// been read. ctx bounds all of it.
func (h *Host) SendTCP(ctx context.Context, f TCPFlow) (sent int64, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("netlab: TCP from %s to %s, after %d bytes: %w", h.Device, f.To, sent, err)
		}
	}()
	switch {
	case f.Bytes <= 0 && f.For <= 0:
		return 0, errors.New("neither Bytes nor For says when it ends")
	case f.TOS&3 != 0:
		return 0, fmt.Errorf("TOS 0x%02x has ECN bits, which are TCP's own: use Options.ECN", f.TOS)
	}
	conn, err := h.dialTCP(ctx, f)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	// A deadline long past ends whatever conn waits for.
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()

	end := time.Now().Add(f.For)
	chunk := make([]byte, chunkLen)
	for (f.Bytes == 0 || sent < f.Bytes) && (f.For == 0 || time.Now().Before(end)) {
		if left := f.Bytes - sent; f.Bytes > 0 && left < chunkLen {
			chunk = chunk[:left]
		}
		n, err := conn.Write(chunk)
		sent += int64(n)
		if err != nil {
			return sent, orContext(ctx, err)
		}
	}
	if err := conn.CloseWrite(); err != nil {
		return sent, orContext(ctx, err)
	}
	// The sink closes once it has read to the end, and not before.
	if _, err := io.Copy(io.Discard, conn); err != nil {
		return sent, orContext(ctx, err)
	}
	return sent, nil
}

func (h *Host) dialTCP(ctx context.Context, f TCPFlow) (*net.TCPConn, error) {
	level, name := unix.IPPROTO_IP, unix.IP_TOS
	if f.To.Addr().Unmap().Is6() {
		level, name = unix.IPPROTO_IPV6, unix.IPV6_TCLASS
	}
	dialer := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
		var set error
		err := raw.Control(func(fd uintptr) {
			set = unix.SetsockoptInt(int(fd), level, name, int(f.TOS))
		})
		return errors.Join(err, set)
	}}
	dialer.SetMultipathTCP(false)
	var conn net.Conn
	err := h.Do(func() (err error) {
		conn, err = dialer.DialContext(ctx, "tcp", f.To.String())
		return err
	})
	if err != nil {
		return nil, orContext(ctx, err)
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("dialling gave a %T", conn), conn.Close())
	}
	return tcp, nil
}

// orContext returns the reason for which ctx ended, where that is why err came about:
// a connection has no other deadline.
func orContext(ctx context.Context, err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		<-ctx.Done() // it may be a moment behind
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// A TCPSink accepts connections, and reads and counts what they carry.
type TCPSink struct {
	host     *Host
	listener net.Listener
	addr     netip.AddrPort
	bytes    atomic.Int64
	readers  sync.WaitGroup

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]struct{}
}

// ServeTCP starts to accept at the host's IPv4 or IPv6 address. Port 0 is the
// kernel's choice, which Addr tells. Call Stop on what it returns.
func (h *Host) ServeTCP(ipv6 bool, port uint16) (*TCPSink, error) {
	at := netip.AddrPortFrom(h.Addr(ipv6), port)
	s := &TCPSink{host: h, conns: map[net.Conn]struct{}{}}
	var config net.ListenConfig
	config.SetMultipathTCP(false)
	err := h.Do(func() (err error) {
		s.listener, err = config.Listen(context.Background(), "tcp", at.String())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("netlab: serve TCP at %s: %w", at, err)
	}
	if s.addr, err = netip.ParseAddrPort(s.listener.Addr().String()); err != nil {
		return nil, errors.Join(fmt.Errorf("netlab: serve TCP at %s: %w", at, err), s.listener.Close())
	}
	s.readers.Go(s.accept)
	return s, nil
}

// Addr returns the address and port to send to.
func (s *TCPSink) Addr() netip.AddrPort { return s.addr }

func (s *TCPSink) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return // closed by Stop
		}
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			conn.Close()
			return
		}
		s.conns[conn] = struct{}{}
		s.mu.Unlock()
		s.readers.Go(func() { s.serve(conn) })
	}
}

func (s *TCPSink) serve(conn net.Conn) {
	buf := make([]byte, chunkLen)
	for {
		n, err := conn.Read(buf)
		s.bytes.Add(int64(n))
		if err != nil {
			break // the end, or a connection cut short: its sender is told
		}
	}
	s.mu.Lock()
	delete(s.conns, conn)
	s.mu.Unlock()
	conn.Close()
}

// Settle waits until the kernel is done with every connection to the sink that its
// sender has ended: from then on no side sends anything more, not even a last ACK
// again. It returns ctx's error where that comes first.
func (s *TCPSink) Settle(ctx context.Context) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		open, err := s.open()
		if err != nil || open == 0 {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("netlab: the kernel still has %d TCP connections to %s: %w", open, s.Addr(), ctx.Err())
		}
	}
}

// open counts the connections to the sink that may still send.
func (s *TCPSink) open() (n int, err error) {
	const listening, timeWait = "0A", "06" // enum in include/net/tcp_states.h
	file := "/proc/thread-self/net/tcp"
	if s.Addr().Addr().Is6() {
		file += "6"
	}
	port := fmt.Sprintf(":%04X", s.Addr().Port())
	err = s.host.Do(func() error {
		table, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("netlab: list the TCP connections: %w", err)
		}
		for row := range strings.Lines(string(table)) {
			// Number, local address, remote address, state.
			column := strings.Fields(row)
			if len(column) > 3 && strings.HasSuffix(column[1], port) && column[3] != listening && column[3] != timeWait {
				n++
			}
		}
		return nil
	})
	return n, err
}

// Stop ends all connections and returns the bytes of payload read. What a SendTCP that
// has returned without error sent is among them.
func (s *TCPSink) Stop() (int64, error) {
	s.mu.Lock()
	var err error
	if !s.closed {
		s.closed = true
		err = s.listener.Close()
		for conn := range s.conns {
			conn.Close()
		}
	}
	s.mu.Unlock()
	s.readers.Wait()
	return s.bytes.Load(), err
}
