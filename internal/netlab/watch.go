package netlab

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Direction says which frames of a device are watched.
type Direction uint8

// The directions.
const (
	In   Direction = iota // frames that arrive
	Out                   // frames that leave
	Both                  // either
)

// WatchOptions says what a watch counts. The zero value counts all IP that arrives.
type WatchOptions struct {
	Direction Direction
	Keep      bool   // keep each counted frame in Seen.Frames, all in memory: not for a flood
	Proto     uint8  // count only this IP protocol; 0 means any
	Port      uint16 // count only where one of the ports is this; 0 means any
}

// A Count is a number of packets, and the bytes of IP in them, IP header included.
type Count struct{ Packets, Bytes uint64 }

func (c *Count) add(packets, bytes uint64) {
	c.Packets += packets
	c.Bytes += bytes
}

// Seen is what a watch counted. A Count is of packets as on the wire: a
// super-packet counts as the segments it stands for, headers repeated.
type Seen struct {
	Total Count
	DSCP  [64]Count // by DSCP
	ECN   [4]Count  // by the two ECN bits

	Buffers      uint64 // frames as the kernel handed them over, each super-packet one
	BadChecksums uint64 // frames whose IPv4 header checksum is wrong
	Tagged       uint64 // frames with a VLAN tag, in the data or beside it
	Ignored      uint64 // frames that are not IP, or that the options leave out

	// Dropped counts the frames that the capture itself lost: its queue was full, or
	// it could not be told what they are. Unless it is 0, all else here is too low.
	Dropped uint64

	Frames []Frame // with Keep: the counted frames, in the order they came
}

// A Watch captures what passes a host's device, in a queue of 64 MiB.
//
// It sits where any packet socket does: before an ingress policer of its own
// device, and after an egress one. So watch for a policer's work at the far side, or
// at its own egress; what an ingress policer lets through is seen by a UDPSink.
type Watch struct {
	opts    WatchOptions
	ifindex int
	drain   *drain
	once    sync.Once
	err     error

	buffer [2][]byte // virtio_net_hdr, frame
	oob    []byte

	mu    sync.Mutex
	grown chan struct{} // closed and replaced as Total grows, if anyone waits
	seen  Seen
}

const (
	vnetLen = 10 // bytes of struct virtio_net_hdr
	// The longest frame there is (BIG TCP), and what the headers of one take.
	frameLen  = 512<<10 + 256
	headerLen = 256
)

// Watch starts to capture. Every frame that passes after it has returned is seen.
// Call Stop on what it returns.
func (h *Host) Watch(opts WatchOptions) (*Watch, error) {
	w := &Watch{opts: opts, ifindex: h.Ifindex, oob: make([]byte, 256)}
	w.buffer[0] = make([]byte, vnetLen)
	w.buffer[1] = make([]byte, headerLen)
	if opts.Keep {
		w.buffer[1] = make([]byte, frameLen)
	}
	var fd int
	if err := h.Do(func() (err error) { fd, err = packetSocket(); return err }); err != nil {
		return nil, fmt.Errorf("netlab: watch %s: %w", h.Device, err)
	}
	if err := w.prepare(fd); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("netlab: watch %s: %w", h.Device, err)
	}
	d, err := newDrain(fd, w.read)
	if err != nil {
		return nil, fmt.Errorf("netlab: watch %s: %w", h.Device, err)
	}
	w.drain = d
	return w, nil
}

// packetSocket opens a packet socket that receives nothing until it is bound.
func packetSocket() (int, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open a packet socket: %w", err)
	}
	return fd, nil
}

func (w *Watch) prepare(fd int) error {
	type option struct{ level, name, value int }
	options := []option{
		{unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, queueBytes},
		{unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1},
		{unix.SOL_PACKET, unix.PACKET_AUXDATA, 1},
	}
	if w.opts.Direction == In {
		options = append(options, option{unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1})
	}
	if w.opts.Keep {
		options = append(options, option{unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1})
	}
	for _, o := range options {
		if err := unix.SetsockoptInt(fd, o.level, o.name, o.value); err != nil {
			return fmt.Errorf("set option %d of level %d: %w", o.name, o.level, err)
		}
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: bigEndian16(unix.ETH_P_ALL), Ifindex: w.ifindex}); err != nil {
		return fmt.Errorf("bind to the device: %w", err)
	}
	return nil
}

// read takes one frame from the queue.
func (w *Watch) read(fd int) error {
	const flags = unix.MSG_DONTWAIT | unix.MSG_TRUNC // return the true length, even where it is longer than the buffer
	n, oobn, _, from, err := unix.RecvmsgBuffers(fd, w.buffer[:], w.oob, flags)
	switch {
	case errors.Is(err, unix.EINVAL):
		// The kernel has no word for this super-packet in a virtio_net_hdr (UDP
		// segmentation before Linux 6.2). It is off the queue, and unknown.
		w.mu.Lock()
		w.seen.Dropped++
		w.mu.Unlock()
		return nil
	case err != nil:
		return err
	}
	link, isLink := from.(*unix.SockaddrLinklayer)
	out := isLink && link.Pkttype == unix.PACKET_OUTGOING
	if w.opts.Direction == Out && !out {
		return nil
	}
	f := Frame{Out: out, GSOSize: gsoSize(w.buffer[0])}
	length := n - vnetLen
	data := w.buffer[1][:min(length, len(w.buffer[1]))]
	f.Data = data
	if err := f.readControl(w.oob[:oobn]); err != nil {
		return err
	}
	w.count(f, length+len(f.Data)-len(data)) // a tag beside the data is now in it
	return nil
}

// count adds a frame of the given length, of which f.Data may be the start only.
func (w *Watch) count(f Frame, length int) {
	h, ok := parseHeaders(f.Data)
	ok = ok && (w.opts.Proto == 0 || w.opts.Proto == h.proto) &&
		(w.opts.Port == 0 || h.l4 > 0 && (w.opts.Port == h.sport || w.opts.Port == h.dport))

	w.mu.Lock()
	defer w.mu.Unlock()
	s := &w.seen
	if !ok {
		s.Ignored++
		return
	}
	packets, bytes := h.onWire(length, f.GSOSize)
	s.Total.add(packets, bytes)
	s.DSCP[h.dscp].add(packets, bytes)
	s.ECN[h.ecn].add(packets, bytes)
	s.Buffers++
	if !h.checksumOK {
		s.BadChecksums++
	}
	if h.l2 > etherLen {
		s.Tagged++
	}
	if w.opts.Keep {
		f.Data = append([]byte(nil), f.Data...)
		s.Frames = append(s.Frames, f)
	}
	if w.grown != nil {
		close(w.grown)
		w.grown = nil
	}
}

// Wait returns once at least the given number of packets has been counted, or with
// ctx's error, which then says how many there were.
func (w *Watch) Wait(ctx context.Context, packets uint64) error {
	for {
		w.mu.Lock()
		got := w.seen.Total.Packets
		if got >= packets {
			w.mu.Unlock()
			return nil
		}
		if w.grown == nil {
			w.grown = make(chan struct{})
		}
		grown := w.grown
		w.mu.Unlock()
		select {
		case <-grown:
		case <-ctx.Done():
			return fmt.Errorf("netlab: saw %d packets of %d: %w", got, packets, ctx.Err())
		}
	}
}

// Stop ends the capture and returns what it saw: every frame that had passed
// before the call, read to the last one in the queue. Later calls return the same.
func (w *Watch) Stop() (Seen, error) {
	w.once.Do(func() {
		settle()
		// Bound to a protocol that nobody sends, the socket receives no more, and its
		// queue has an end.
		unhook := unix.Bind(w.drain.fd, &unix.SockaddrLinklayer{Protocol: typeReserved, Ifindex: w.ifindex})
		w.err = w.drain.stop(func(fd int) error {
			stats, err := unix.GetsockoptTpacketStats(fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
			if err != nil {
				return fmt.Errorf("read the capture's drops: %w", err)
			}
			w.seen.Dropped += uint64(stats.Drops)
			return nil
		})
		if w.err = errors.Join(unhook, w.err); w.err != nil {
			w.err = fmt.Errorf("netlab: capture: %w", w.err)
		}
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen, w.err
}

// readControl takes what the kernel says beside a frame: its time, and its outer
// VLAN tag, which it strips on arrival and which is put back where it was.
func (f *Frame) readControl(oob []byte) error {
	for len(oob) > 0 {
		header, data, rest, err := unix.ParseOneSocketControlMessage(oob)
		if err != nil {
			return fmt.Errorf("read a frame's control message: %w", err)
		}
		oob = rest
		switch {
		case header.Level == unix.SOL_PACKET && header.Type == unix.PACKET_AUXDATA &&
			len(data) >= int(unsafe.Sizeof(unix.TpacketAuxdata{})):
			aux := (*unix.TpacketAuxdata)(unsafe.Pointer(&data[0]))
			if aux.Status&unix.TP_STATUS_VLAN_VALID != 0 && len(f.Data) >= etherLen {
				f.TagBeside = true
				f.Data = withTag(f.Data, aux.Vlan_tpid, aux.Vlan_tci)
			}
		case header.Level == unix.SOL_SOCKET && header.Type == unix.SCM_TIMESTAMPNS &&
			len(data) >= int(unsafe.Sizeof(unix.Timespec{})):
			f.Time = time.Unix((*unix.Timespec)(unsafe.Pointer(&data[0])).Unix())
		}
	}
	return nil
}

// withTag returns a copy of a frame with a VLAN tag after its addresses.
func withTag(data []byte, tpid, tci uint16) []byte {
	tagged := make([]byte, 0, len(data)+tagLen)
	tagged = append(tagged, data[:12]...)
	tagged = binary.BigEndian.AppendUint16(tagged, tpid)
	tagged = binary.BigEndian.AppendUint16(tagged, tci)
	return append(tagged, data[12:]...)
}

// bigEndian16 returns the value whose bytes in memory are v's in network order.
func bigEndian16(v uint16) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], v)
	return binary.NativeEndian.Uint16(b[:])
}
