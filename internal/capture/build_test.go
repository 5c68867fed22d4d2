package capture

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"testing"
)

type order interface {
	binary.ByteOrder
	binary.AppendByteOrder
}

var (
	little order = binary.LittleEndian
	big    order = binary.BigEndian
)

// pcapBytes is a pcap's file header.
func pcapBytes(o order, magic, link uint32) []byte {
	b := o.AppendUint32(nil, magic)
	b = o.AppendUint16(b, 2)
	b = o.AppendUint16(b, 4)
	b = append(b, make([]byte, 8)...)
	b = o.AppendUint32(b, 0) // a snap length that is not to be believed
	return o.AppendUint32(b, link)
}

func pcapRecord(b []byte, o order, seconds, fraction, original uint32, data string) []byte {
	b = o.AppendUint32(b, seconds)
	b = o.AppendUint32(b, fraction)
	b = o.AppendUint32(b, uint32(len(data)))
	b = o.AppendUint32(b, original)
	return append(b, data...)
}

// ngBlock is a pcapng block around body, padded.
func ngBlock(o order, kind uint32, body []byte) []byte {
	for len(body)%4 != 0 {
		body = append(body, 0)
	}
	length := uint32(len(body) + minBlock)
	b := o.AppendUint32(nil, kind)
	b = o.AppendUint32(b, length)
	b = append(b, body...)
	return o.AppendUint32(b, length)
}

func ngSection(o order) []byte {
	b := o.AppendUint32(nil, byteOrderMagic)
	b = o.AppendUint16(b, 1)
	b = o.AppendUint16(b, 0)
	return ngBlock(o, blockSection, o.AppendUint64(b, 1<<64-1))
}

type option struct {
	code  uint16
	value []byte
}

func ngIface(o order, link uint16, snap uint32, options ...option) []byte {
	b := o.AppendUint16(nil, link)
	b = o.AppendUint16(b, 0)
	b = o.AppendUint32(b, snap)
	for _, opt := range options {
		b = o.AppendUint16(b, opt.code)
		b = o.AppendUint16(b, uint16(len(opt.value)))
		b = append(b, opt.value...)
		for len(b)%4 != 0 {
			b = append(b, 0)
		}
	}
	return ngBlock(o, blockInterface, b)
}

func ngEnhanced(o order, iface uint32, stamp uint64, original uint32, data string) []byte {
	b := o.AppendUint32(nil, iface)
	b = o.AppendUint32(b, uint32(stamp>>32))
	b = o.AppendUint32(b, uint32(stamp))
	b = o.AppendUint32(b, uint32(len(data)))
	b = o.AppendUint32(b, original)
	return ngBlock(o, blockEnhanced, append(b, data...))
}

func ngObsolete(o order, iface uint16, stamp uint64, original uint32, data string) []byte {
	b := o.AppendUint16(nil, iface)
	b = o.AppendUint16(b, 7) // drops
	b = o.AppendUint32(b, uint32(stamp>>32))
	b = o.AppendUint32(b, uint32(stamp))
	b = o.AppendUint32(b, uint32(len(data)))
	b = o.AppendUint32(b, original)
	return ngBlock(o, blockPacket, append(b, data...))
}

func ngSimple(o order, original uint32, data string) []byte {
	return ngBlock(o, blockSimple, append(o.AppendUint32(nil, original), data...))
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func zip(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// openBytes reads content as the file "x".
func openBytes(content []byte) (*Reader, error) {
	in, err := newInput("x", bytes.NewReader(content), int64(len(content)))
	if err != nil {
		return nil, err
	}
	return newReader(in)
}

// readAll is every packet of r, copied, and the error that ended it.
func readAll(r *Reader) ([]Packet, error) {
	var all []Packet
	for {
		var p Packet
		if err := r.Next(&p); err != nil {
			return all, err
		}
		p.Data = bytes.Clone(p.Data)
		all = append(all, p)
	}
}

// mustRead is every packet of content, which must end clean.
func mustRead(t testing.TB, content []byte) []Packet {
	t.Helper()
	r, err := openBytes(content)
	if err != nil {
		t.Fatal(err)
	}
	all, err := readAll(r)
	if err != io.EOF {
		t.Fatalf("after %d packets: %v", len(all), err)
	}
	return all
}

func writeFile(t testing.TB, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
