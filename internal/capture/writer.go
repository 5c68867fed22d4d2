package capture

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// ErrWrite is what the error wraps where the file being written cannot hold a packet.
var ErrWrite = errors.New("cannot be written to a capture")

// Writer writes a classic pcap: little-endian, nanoseconds, snap length
// 262144, one link type. pcapgo's writer has no link types over 255, and no
// records with more captured than original bytes.
type Writer struct {
	w      *bufio.Writer
	link   LinkType
	record [pcapRecordHeader]byte
}

// NewWriter writes the file header to w, through a buffer (see Flush).
func NewWriter(w io.Writer, link LinkType) (*Writer, error) {
	out := &Writer{w: bufio.NewWriterSize(w, windowSize), link: link}
	header := make([]byte, pcapHeader)
	binary.LittleEndian.PutUint32(header, 0xa1b23c4d)
	binary.LittleEndian.PutUint16(header[4:], 2)
	binary.LittleEndian.PutUint16(header[6:], 4)
	binary.LittleEndian.PutUint32(header[16:], maxCaptured)
	binary.LittleEndian.PutUint32(header[20:], uint32(link))
	_, err := out.w.Write(header)
	return out, err
}

// Write appends a record with p's time and true length, and data as its
// captured bytes: p.Data, or what became of them.
//
// It returns an error that wraps ErrWrite where the time is beyond 2^32
// seconds (the year 2106), where the link type is not the file's, or where a
// length does not fit; nothing is written then.
func (w *Writer) Write(p *Packet, data []byte) error {
	seconds := p.Time / 1e9
	switch {
	case p.Link != w.link:
		return refuseWrite(p, "its link type is %v in a capture of %v: one file holds one link type", p.Link, w.link)
	case seconds > math.MaxUint32:
		return refuseWrite(p, "its time, %d s since 1970, does not fit the 32 bits of a pcap", seconds)
	case len(data) > maxCaptured:
		return refuseWrite(p, "%d captured bytes are more than the %d that a record may have", len(data), maxCaptured)
	case p.Length < 0 || p.Length > math.MaxUint32:
		return refuseWrite(p, "its length of %d bytes does not fit 32 bits", p.Length)
	}
	b := w.record[:]
	binary.LittleEndian.PutUint32(b, uint32(seconds))
	binary.LittleEndian.PutUint32(b[4:], uint32(p.Time%1e9))
	binary.LittleEndian.PutUint32(b[8:], uint32(len(data)))
	binary.LittleEndian.PutUint32(b[12:], uint32(p.Length))
	if _, err := w.w.Write(b); err != nil {
		return err
	}
	_, err := w.w.Write(data)
	return err
}

// Flush writes out what is buffered. A file is whole only after it.
func (w *Writer) Flush() error { return w.w.Flush() }

func refuseWrite(p *Packet, format string, args ...any) error {
	return fmt.Errorf("packet %d %w: %s", p.Number, ErrWrite, fmt.Sprintf(format, args...))
}
