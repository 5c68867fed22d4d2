package pcaptest

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
)

type byteOrder interface {
	binary.ByteOrder
	binary.AppendByteOrder
}

// pcapOf is the header of a pcap with nanoseconds.
func pcapOf(o byteOrder, link uint32) []byte {
	b := o.AppendUint32(nil, 0xa1b23c4d)
	b = o.AppendUint16(b, 2)
	b = o.AppendUint16(b, 4)
	b = append(b, make([]byte, 8)...)
	b = o.AppendUint32(b, 262144)
	return o.AppendUint32(b, link)
}

// appendRecord appends a record of a packet that was length bytes long.
func appendRecord(b []byte, o byteOrder, ns uint64, data []byte, length int) []byte {
	b = o.AppendUint32(b, uint32(ns/1e9))
	b = o.AppendUint32(b, uint32(ns%1e9))
	b = o.AppendUint32(b, uint32(len(data)))
	b = o.AppendUint32(b, uint32(length))
	return append(b, data...)
}

func appendBlock(b []byte, o byteOrder, kind uint32, body []byte) []byte {
	for len(body)%4 != 0 {
		body = append(body, 0)
	}
	length := uint32(len(body) + 12)
	b = o.AppendUint32(o.AppendUint32(b, kind), length)
	return o.AppendUint32(append(b, body...), length)
}

// appendSection begins a section of a pcapng, which has no interfaces yet.
func appendSection(b []byte, o byteOrder) []byte {
	body := o.AppendUint32(nil, 0x1a2b3c4d)
	body = o.AppendUint32(body, map[bool]uint32{true: 1 << 16, false: 1}[o.String() == "BigEndian"]) // version 1.0
	return appendBlock(b, o, 0x0a0d0d0a, o.AppendUint64(body, 1<<64-1))
}

// appendInterface describes the next interface: the resolution of its stamps (10^-n s, or 2^-n s with the
// top bit set) and the seconds to be added to them.
func appendInterface(b []byte, o byteOrder, link uint16, resolution uint8, offset int64) []byte {
	body := o.AppendUint16(nil, link)
	body = o.AppendUint16(body, 0)
	body = o.AppendUint32(body, 0)
	body = append(o.AppendUint16(o.AppendUint16(body, 9), 1), resolution, 0, 0, 0)
	body = o.AppendUint64(o.AppendUint16(o.AppendUint16(body, 14), 8), uint64(offset))
	return appendBlock(b, o, 1, o.AppendUint32(body, 0))
}

// appendPacket appends an Enhanced Packet Block.
func appendPacket(b []byte, o byteOrder, iface int, stamp uint64, data []byte, length int) []byte {
	body := o.AppendUint32(nil, uint32(iface))
	body = o.AppendUint32(o.AppendUint32(body, uint32(stamp>>32)), uint32(stamp))
	body = o.AppendUint32(o.AppendUint32(body, uint32(len(data))), uint32(length))
	return appendBlock(b, o, 6, append(body, data...))
}

func writeCapture(t testing.TB, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "capture")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
