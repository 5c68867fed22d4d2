package netlab

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"golang.org/x/sys/unix"
)

// A Frame is an Ethernet frame, without FCS: one that a Watch kept, or one for
// SendFrames. What was kept can be sent again.
type Frame struct {
	Data []byte
	// GSOSize makes the frame a super-packet, of TCP or UDP, that stands for segments
	// of this many bytes of payload, the last of what remains. 0: it is one packet.
	GSOSize int
	// Linear asks the kernel to hold that many bytes of the frame in the skb's linear area,
	// and those behind in pages, where the frame takes more than a page (4 KiB). 0: the
	// kernel's choice. A super-packet's headers are always linear.
	Linear int

	// Of kept frames only:
	Time      time.Time // when the kernel saw it
	Out       bool      // it left the device
	TagBeside bool      // the outer VLAN tag was beside the data, and is now in it
}

// A Tag is a VLAN tag.
type Tag struct {
	VLAN    uint16 // 0 to 4095
	Service bool   // an 802.1ad tag, not 802.1Q
}

// UDPFrame returns the frame of a datagram from h to its peer, complete with
// checksums, behind the given tags, outermost first, and padded to Ethernet's 60
// bytes. It takes To, From, Payload, TOS and TTL of f (an invalid To.Addr means the
// peer's IPv4 address, From 0 means To's port); GSO becomes the frame's GSOSize. It
// returns an error where the payload fits no IP packet.
func (h *Host) UDPFrame(f UDPFlow, tags ...Tag) (Frame, error) {
	to := f.To.Addr().Unmap()
	if !to.IsValid() {
		to = h.peer.IPv4.Addr()
	}
	if f.TTL == 0 {
		f.TTL = defaultTTL
	}
	if f.From == 0 {
		f.From = f.To.Port()
	}
	kind := layers.EthernetTypeIPv4
	if to.Is6() {
		kind = layers.EthernetTypeIPv6
	}
	var stack []gopacket.SerializableLayer
	ether := &layers.Ethernet{SrcMAC: h.MAC, DstMAC: h.peer.MAC, EthernetType: kind}
	stack = append(stack, ether)
	next := &ether.EthernetType
	for _, t := range tags {
		*next = layers.EthernetTypeDot1Q
		if t.Service {
			*next = typeSTag
		}
		tag := &layers.Dot1Q{VLANIdentifier: t.VLAN, Type: kind}
		stack = append(stack, tag)
		next = &tag.Type
	}
	udp := &layers.UDP{SrcPort: layers.UDPPort(f.From), DstPort: layers.UDPPort(f.To.Port())}
	var ip interface {
		gopacket.SerializableLayer
		gopacket.NetworkLayer
	}
	if to.Is6() {
		ip = &layers.IPv6{Version: 6, TrafficClass: f.TOS, HopLimit: f.TTL, NextHeader: layers.IPProtocolUDP,
			SrcIP: h.IPv6.Addr().AsSlice(), DstIP: to.AsSlice()}
	} else {
		ip = &layers.IPv4{Version: 4, TOS: f.TOS, TTL: f.TTL, Protocol: layers.IPProtocolUDP,
			SrcIP: h.IPv4.Addr().AsSlice(), DstIP: to.AsSlice()}
	}
	if err := udp.SetNetworkLayerForChecksum(ip); err != nil {
		return Frame{}, fmt.Errorf("netlab: build a frame: %w", err)
	}
	if f.Payload < 0 || f.Payload > maxMTU-ipv4Len-udpLen {
		return Frame{}, fmt.Errorf("netlab: a datagram of %d bytes fits no IP packet", f.Payload)
	}
	stack = append(stack, ip, udp, gopacket.Payload(make([]byte, f.Payload)))
	out := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(out, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, stack...); err != nil {
		return Frame{}, fmt.Errorf("netlab: build a frame: %w", err)
	}
	return Frame{Data: out.Bytes(), GSOSize: f.GSO}, nil
}

// SendFrames sends frames out of the host's device just as they are, past the IP
// stack, until all are sent or ctx is done. A frame over the MTU is refused by the
// kernel (EMSGSIZE) unless GSOSize makes it a super-packet.
//
// A super-packet's TCP or UDP checksum is left for the kernel to finish, segment by
// segment. Its gso_segs is 0 on the way out, as with a tap's frames.
func (h *Host) SendFrames(ctx context.Context, frames ...Frame) error {
	var fd int
	if err := h.Do(func() (err error) { fd, err = packetSocket(); return err }); err != nil {
		return fmt.Errorf("netlab: send frames: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1); err != nil {
		return fmt.Errorf("netlab: send frames: ask for PACKET_VNET_HDR: %w", err)
	}
	to := &unix.SockaddrLinklayer{Ifindex: h.Ifindex}
	for i, f := range frames {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("netlab: sent %d frames of %d: %w", i, len(frames), err)
		}
		header, data, err := f.vnet()
		if err == nil {
			err = sendFrame(fd, [][]byte{header, data}, to)
		}
		if err != nil {
			return fmt.Errorf("netlab: send frame %d (%d bytes) out of %s: %w", i, len(f.Data), h.Device, err)
		}
	}
	return nil
}

func sendFrame(fd int, parts [][]byte, to unix.Sockaddr) error {
	for {
		_, err := unix.SendmsgBuffers(fd, parts, nil, to, 0)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ENOBUFS):
			return nil // it left, and a policer on the way out dropped it
		}
		return err
	}
}

// vnet returns the struct virtio_net_hdr that tells the kernel what the frame is,
// and the frame's bytes to go with it.
func (f Frame) vnet() (header, data []byte, err error) {
	header = make([]byte, vnetLen)
	if f.GSOSize == 0 {
		binary.NativeEndian.PutUint16(header[2:], uint16(f.Linear))
		return header, f.Data, nil
	}
	h, ok := parseHeaders(f.Data)
	if !ok || h.l4 == 0 {
		return nil, nil, errors.New("a super-packet must be TCP or UDP over IP")
	}
	var kind, checksum int
	switch {
	case h.proto == protoUDP:
		kind, checksum = unix.VIRTIO_NET_HDR_GSO_UDP_L4, 6
	case h.ipv6:
		kind, checksum = unix.VIRTIO_NET_HDR_GSO_TCPV6, 16
	default:
		kind, checksum = unix.VIRTIO_NET_HDR_GSO_TCPV4, 16
	}
	start := h.l2 + h.l3
	header[0], header[1] = unix.VIRTIO_NET_HDR_F_NEEDS_CSUM, byte(kind)
	for i, v := range []int{start + h.l4, f.GSOSize, start, checksum} {
		binary.NativeEndian.PutUint16(header[2+2*i:], uint16(v))
	}
	data = append([]byte(nil), f.Data...)
	binary.BigEndian.PutUint16(data[start+checksum:], pseudoSum(h, data))
	return header, data, nil
}

// pseudoSum returns the sum over the pseudo header, which is what the checksum
// field holds while the rest of the checksum is left to the device.
func pseudoSum(h headers, data []byte) uint16 {
	addresses := data[h.l2+12 : h.l2+20]
	if h.ipv6 {
		addresses = data[h.l2+8 : h.l2+40]
	}
	length := len(data) - h.l2 - h.l3
	return fold(sum(uint32(h.proto)+uint32(length), addresses))
}

// gsoSize returns the bytes of payload a segment has, by a struct virtio_net_hdr;
// 0 for a frame that is one packet.
func gsoSize(vnet []byte) int {
	if vnet[1] == unix.VIRTIO_NET_HDR_GSO_NONE {
		return 0
	}
	return int(binary.NativeEndian.Uint16(vnet[4:]))
}

// addrPort returns the host's address of to's family, with port.
func (h *Host) addrPort(to netip.AddrPort, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(h.Addr(to.Addr().Unmap().Is6()), port)
}
