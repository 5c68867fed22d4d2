package netlab

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Raw sends packets out of one device of a host as they are, past the IP stack: with
// the device's link header where it has one. Close it.
type Raw struct {
	fd      int
	ifindex int
	device  string
}

// Raw opens a sender to a device of the host's namespace.
func (h *Host) Raw(device string) (*Raw, error) {
	r := &Raw{device: device}
	err := h.Do(func() error {
		dev, err := net.InterfaceByName(device)
		if err != nil {
			return err
		}
		r.ifindex = dev.Index
		r.fd, err = packetSocket()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("netlab: open %s to send: %w", device, err)
	}
	return r, nil
}

// Send sends a packet of the given EtherType; one that a policer drops on its way out
// is sent. A packet over the MTU is refused (EMSGSIZE).
func (r *Raw) Send(etherType uint16, packet []byte) error {
	to := &unix.SockaddrLinklayer{Protocol: bigEndian16(etherType), Ifindex: r.ifindex}
	if err := sendFrame(r.fd, [][]byte{packet}, to); err != nil {
		return fmt.Errorf("netlab: send %d bytes out of %s: %w", len(packet), r.device, err)
	}
	return nil
}

// Close ends the sender.
func (r *Raw) Close() error { return unix.Close(r.fd) }

// The ring of SendRing: struct tpacket2_hdr stands before each frame.
const (
	ringFrame  = 2048
	ringBlock  = 1 << 16
	ringHeader = 32
)

// SendRing sends frames of at most 2,016 bytes from memory that the process shares with
// the kernel (PACKET_TX_RING): all that follows their link header stays there, and is
// only referred to. It returns once all have left, with the frames as they then are in
// that memory.
func (h *Host) SendRing(frames ...Frame) (after [][]byte, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("netlab: send %d frames from a ring out of %s: %w", len(frames), h.Device, err)
		}
	}()
	var fd int
	if err := h.Do(func() (err error) { fd, err = packetSocket(); return err }); err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VERSION, unix.TPACKET_V2); err != nil {
		return nil, fmt.Errorf("ask for TPACKET_V2: %w", err)
	}
	const perBlock = ringBlock / ringFrame
	blocks := (len(frames) + perBlock - 1) / perBlock
	if err := unix.SetsockoptTpacketReq(fd, unix.SOL_PACKET, unix.PACKET_TX_RING, &unix.TpacketReq{
		Block_size: ringBlock, Block_nr: uint32(blocks), Frame_size: ringFrame, Frame_nr: uint32(blocks * perBlock),
	}); err != nil {
		return nil, fmt.Errorf("make the ring: %w", err)
	}
	ring, err := unix.Mmap(fd, 0, blocks*ringBlock, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map the ring: %w", err)
	}
	defer func() { err = errors.Join(err, unix.Munmap(ring)) }()
	to := &unix.SockaddrLinklayer{Protocol: bigEndian16(unix.ETH_P_ALL), Ifindex: h.Ifindex}
	if err := unix.Bind(fd, to); err != nil {
		return nil, fmt.Errorf("bind to the device: %w", err)
	}
	for i, f := range frames {
		slot := ring[i*ringFrame:][:ringFrame]
		if n := copy(slot[ringHeader:], f.Data); n < len(f.Data) {
			return nil, fmt.Errorf("frame %d has %d bytes, and only %d fit", i, len(f.Data), n)
		}
		binary.NativeEndian.PutUint32(slot[4:], uint32(len(f.Data)))
		atomic.StoreUint32((*uint32)(unsafe.Pointer(&slot[0])), unix.TP_STATUS_SEND_REQUEST)
	}
	for { // waits until every frame is done
		_, err := unix.SendmsgN(fd, nil, nil, nil, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		break
	}
	for i, f := range frames {
		slot := ring[i*ringFrame:][:ringFrame]
		if status := atomic.LoadUint32((*uint32)(unsafe.Pointer(&slot[0]))); status != unix.TP_STATUS_AVAILABLE {
			return nil, fmt.Errorf("frame %d is not done: its status is %#x", i, status)
		}
		after = append(after, append([]byte(nil), slot[ringHeader:][:len(f.Data)]...))
	}
	return after, nil
}
