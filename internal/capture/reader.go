package capture

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// maxCaptured is the most bytes a record may hold, as in libpcap. A snap
// length is not believed: writers set it wrong.
const maxCaptured = 262144

// Packet is one record of a capture.
type Packet struct {
	Number int64    // from 1, in the file
	Time   uint64   // nanoseconds since 1970; clamped to what 64 bits hold
	Data   []byte   // captured bytes, valid until the next call of Next (but see OnTurn)
	Length int      // true length on the wire in bytes; where fewer than captured, what was captured
	Link   LinkType // what Data begins with
}

// Reader reads one capture file. It is for one goroutine.
type Reader struct {
	in     *input
	format interface{ next(p *Packet) error }
	links  []LinkType
	err    error // the first error, which ends the reading
}

// Open opens a capture file and reads its header.
//
// It returns an error that wraps fs.ErrNotExist, ErrNotRegular, ErrEmpty,
// ErrFormat, ErrDamaged or ErrLinkType, or a *CutError for a file that ends
// within its header.
func Open(path string) (*Reader, error) {
	in, err := openInput(path)
	if err != nil {
		return nil, err
	}
	r, err := newReader(in)
	if err != nil {
		return nil, errors.Join(err, in.close())
	}
	return r, nil
}

func newReader(in *input) (*Reader, error) {
	r := &Reader{in: in}
	found, err := in.captureFormat()
	if err != nil {
		return nil, err
	}
	switch found {
	case formatPcap:
		f, err := openPcap(in)
		if err != nil {
			return nil, err
		}
		r.format = f
		r.links = append(r.links, f.link)
	case formatPcapng:
		r.format, err = openPcapng(in)
	}
	return r, err
}

// Next reads the next packet into p. It returns io.EOF at the file's clean
// end, a *CutError where the file ends within a record, and an error that
// wraps ErrDamaged or ErrLinkType (pcapng only) where it cannot go on. What
// it returned once it returns again.
func (r *Reader) Next(p *Packet) error {
	if r.err != nil {
		return r.err
	}
	if err := r.format.next(p); err != nil {
		r.err = err
		return err
	}
	r.in.records++
	p.Number = r.in.records
	if len(r.links) == 0 || p.Link != r.links[0] {
		r.note(p.Link)
	}
	return nil
}

func (r *Reader) note(l LinkType) {
	if !slices.Contains(r.links, l) {
		r.links = append(r.links, l)
	}
}

// OnTurn has turn called each time that the reader goes on to other bytes of the
// file. It returns the memory they are read into: at least so many bytes, which
// are 1 MiB at most and only differ where a record is large. Every packet's Data
// read before then stays valid until turn has returned the same memory again;
// without OnTurn, until the next call of Next.
func (r *Reader) OnTurn(turn func(least int) []byte) { r.in.turn = turn }

// Links is the link types met so far, in that order: a pcap's own from the
// start; a pcapng's as its packets come.
func (r *Reader) Links() []LinkType { return slices.Clone(r.links) }

// Size is the file's size in bytes, compressed where it is gzipped.
func (r *Reader) Size() int64 { return r.in.size }

// Offset is how many bytes of Size were read so far.
func (r *Reader) Offset() int64 { return r.in.offset() }

// Close closes the file.
func (r *Reader) Close() error { return r.in.close() }

// set fills in what both formats share. original may be smaller than the
// captured bytes; fcs is how many trailing bytes of the frame are its check
// sequence, which is no part of the packet.
func (p *Packet) set(time uint64, data []byte, original uint32, link LinkType, fcs int) {
	p.Time = time
	p.Length = max(int(original), len(data))
	if fcs > 0 {
		p.Length = max(0, p.Length-fcs)
		data = data[:min(len(data), p.Length)]
	}
	p.Data = data
	p.Link = link
}

// word reads 32 bits in the file's byte order.
func word(b []byte, big bool) uint32 {
	if big {
		return binary.BigEndian.Uint32(b)
	}
	return binary.LittleEndian.Uint32(b)
}

// half reads 16 bits in the file's byte order.
func half(b []byte, big bool) uint16 {
	if big {
		return binary.BigEndian.Uint16(b)
	}
	return binary.LittleEndian.Uint16(b)
}

// after names the place behind n records.
func after(n int64) string {
	if n == 0 {
		return "the file's start"
	}
	return recordName(n)
}

func recordName(n int64) string { return fmt.Sprintf("record %d", n) }
