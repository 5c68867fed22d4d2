package capture

// The classic format: draft-ietf-opsawg-pcap.

const (
	pcapHeader       = 24
	pcapRecordHeader = 16
)

type pcap struct {
	in    *input
	big   bool
	scale uint64 // nanoseconds in one unit of the time's second half
	link  LinkType
	fcs   int // bytes of check sequence behind each frame
}

// openPcap reads the file header.
func openPcap(in *input) (*pcap, error) {
	if !in.have(pcapHeader) {
		return nil, headerCut(in.end(pcapHeader))
	}
	b := in.peek(pcapHeader)
	f := &pcap{in: in, big: b[0] == 0xa1, scale: 1000}
	if word(b, f.big) == 0xa1b23c4d {
		f.scale = 1
	}
	if major, minor := half(b[4:], f.big), half(b[6:], f.big); major != 2 || minor != 4 {
		return nil, fail(in.name, ErrFormat, "is a pcap of version %d.%d: only 2.4 is read", major, minor)
	}
	// The link type's upper half: reserved bits, "an FCS length is given", and
	// that length in units of 16 bits.
	link := word(b[20:], f.big)
	if link&0x03ff0000 != 0 {
		return nil, in.damaged("the file header's link type %#x has reserved bits set", link)
	}
	if link&0x04000000 != 0 {
		f.fcs = 2 * int(link>>28)
	}
	f.link = LinkType(link & 0xffff).normal()
	if !f.link.supported() {
		return nil, refuseLink(in.name, "the capture", f.link)
	}
	in.take(pcapHeader)
	return f, nil
}

func (f *pcap) next(p *Packet) error {
	in := f.in
	in.begin()
	if !in.have(pcapRecordHeader) {
		return f.cut()
	}
	b := in.peek(pcapRecordHeader)
	captured := word(b[8:], f.big)
	if captured > maxCaptured {
		return in.damaged("record %d claims %d captured bytes, over the %d that any record may have",
			in.records+1, captured, maxCaptured)
	}
	if !in.have(pcapRecordHeader + int(captured)) {
		return f.cut()
	}
	b = in.peek(pcapRecordHeader + int(captured))
	in.take(len(b))
	time := uint64(word(b, f.big))*1e9 + uint64(word(b[4:], f.big))*f.scale
	p.set(time, b[pcapRecordHeader:], word(b[12:], f.big), f.link, f.fcs)
	return nil
}

// cut says why the next record is not whole, or io.EOF where there is none.
func (f *pcap) cut() error {
	in := f.in
	switch left := in.buffered(); {
	case left == 0:
		return in.end(0)
	case left < pcapRecordHeader:
		return in.cutRecord(pcapRecordHeader, left)
	default:
		return in.cutRecord(int(word(in.peek(pcapRecordHeader)[8:], f.big)), left-pcapRecordHeader)
	}
}
