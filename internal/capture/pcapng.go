package capture

import (
	"encoding/binary"
	"errors"
)

// The block format: draft-ietf-opsawg-pcapng. Packets are the Enhanced, the
// Simple and the obsolete Packet Blocks; all blocks but these, sections and
// interfaces are passed over.

const (
	blockSection   = 0x0a0d0d0a // the same in both byte orders
	blockInterface = 1
	blockPacket    = 2 // obsolete
	blockSimple    = 3
	blockEnhanced  = 6
	byteOrderMagic = 0x1a2b3c4d

	minBlock = 12 // type, length, and the length again at the end

	// maxInterfaces bounds the memory that a section can ask for.
	maxInterfaces = 1 << 16
)

type pcapng struct {
	in         *input
	big        bool // the current section's byte order
	interfaces []ngInterface
	last       uint64 // time of the record before, in ns: a Simple Packet Block has none
}

// openPcapng reads the first section header.
func openPcapng(in *input) (*pcapng, error) {
	f := &pcapng{in: in}
	_, length, err := f.block()
	if err == nil {
		err = f.section(length)
	}
	return f, headerCut(err)
}

func (f *pcapng) next(p *Packet) error {
	for {
		kind, length, err := f.block()
		if err != nil {
			return err
		}
		switch kind {
		case blockSection:
			err = f.section(length)
		case blockInterface:
			err = f.describe(length)
		case blockEnhanced, blockPacket, blockSimple:
			return f.packet(p, kind, length)
		default:
			err = f.pass(length)
		}
		if err != nil {
			return err
		}
	}
}

// block looks at the next block's type and total length, which are checked,
// and takes nothing. It returns io.EOF where the file ends here.
func (f *pcapng) block() (kind, length uint32, err error) {
	in := f.in
	in.begin()
	if !in.have(minBlock) {
		if in.buffered() == 0 {
			return 0, 0, in.end(0)
		}
		return 0, 0, in.end(minBlock)
	}
	b := in.peek(minBlock)
	kind = word(b, f.big)
	if kind == blockSection {
		switch uint32(byteOrderMagic) {
		case binary.LittleEndian.Uint32(b[8:]):
			f.big = false
		case binary.BigEndian.Uint32(b[8:]):
			f.big = true
		default:
			return 0, 0, in.damaged("the section header after %s has no byte-order magic", after(in.records))
		}
	}
	length = word(b[4:], f.big)
	if length < minBlock || length%4 != 0 {
		return 0, 0, in.damaged("the block after %s claims a length of %d bytes: it must be a multiple of 4, at least %d",
			after(in.records), length, minBlock)
	}
	return kind, length, nil
}

// body takes a whole block and returns it without its first 8 and last 4
// bytes. It is at least size bytes long. what names the block in an error.
func (f *pcapng) body(what string, length uint32, size int) ([]byte, error) {
	in := f.in
	if int(length) < size+minBlock || length > windowSize {
		return nil, in.damaged("%s after %s claims a length of %d bytes: it has at least %d, and at most %d are read",
			what, after(in.records), length, size+minBlock, windowSize)
	}
	if !in.have(int(length)) {
		return nil, in.cutRecord(int(length), in.buffered())
	}
	b := in.peek(int(length))
	if err := f.trailer(b[length-4:], length); err != nil {
		return nil, err
	}
	in.take(int(length))
	return b[8 : length-4], nil
}

// pass takes a block of any length without a look.
func (f *pcapng) pass(length uint32) error {
	in := f.in
	want := int64(length) - 4
	got := in.skip(want)
	if got < want || !in.have(4) {
		err := in.end(int64(length))
		var cut *CutError
		if errors.As(err, &cut) && cut.Promised > 0 {
			cut.Left += got
		}
		return err
	}
	if err := f.trailer(in.peek(4), length); err != nil {
		return err
	}
	in.take(4)
	return nil
}

// trailer checks a block's length against the one at its end.
func (f *pcapng) trailer(b []byte, length uint32) error {
	if again := word(b, f.big); again != length {
		return f.in.damaged("the block after %s claims %d bytes at its start and %d at its end",
			after(f.in.records), length, again)
	}
	return nil
}

// section begins a new section: byte order, version, no interfaces yet. Its
// options are passed over.
func (f *pcapng) section(length uint32) error {
	const size = 16 // byte-order magic, version, section length
	in := f.in
	if length < size+minBlock {
		return in.damaged("the section header after %s claims a length of %d bytes: it has at least %d",
			after(in.records), length, size+minBlock)
	}
	if in.have(16) {
		// 1.2 was written by some for what is 1.0.
		major, minor := half(in.peek(16)[12:], f.big), half(in.peek(16)[14:], f.big)
		if major != 1 || minor != 0 && minor != 2 {
			return fail(in.name, ErrFormat, "%sa pcapng section of version %d.%d: only 1.0 is read",
				place(in.began, in.gzipped), major, minor)
		}
	}
	f.interfaces = f.interfaces[:0]
	return f.pass(length)
}

// packet reads one packet block of any of the three kinds.
func (f *pcapng) packet(p *Packet, kind, length uint32) error {
	size := 20
	if kind == blockSimple {
		size = 4
	}
	b, err := f.body("the packet block", length, size)
	if err != nil {
		return err
	}
	var id, captured, original uint32
	data := b[size:]
	switch kind {
	case blockSimple:
		original = word(b, f.big)
		captured = original
	case blockPacket:
		id = uint32(half(b, f.big)) // and 16 bits of drops
	default:
		id = word(b, f.big)
	}
	in := f.in
	if int(id) >= len(f.interfaces) {
		return in.damaged("record %d names interface %d of %d in its section", in.records+1, id, len(f.interfaces))
	}
	from := &f.interfaces[id]
	if kind == blockSimple {
		if from.snap != 0 {
			captured = min(captured, from.snap)
		}
	} else {
		captured, original = word(b[12:], f.big), word(b[16:], f.big)
		f.last = from.nanoseconds(uint64(word(b[4:], f.big))<<32 | uint64(word(b[8:], f.big)))
	}
	if captured > maxCaptured || int(captured) > len(data) {
		return in.damaged("record %d claims %d captured bytes: its block holds %d, and a record at most %d",
			in.records+1, captured, len(data), maxCaptured)
	}
	if !from.link.supported() {
		return refuseLink(in.name, place(in.began, in.gzipped)+recordName(in.records+1), from.link)
	}
	p.set(f.last, data[:captured:captured], original, from.link, from.fcs)
	return nil
}
