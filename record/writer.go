package record

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Writer writes a file. Not safe for concurrent use. What it writes Flush hands on.
type Writer struct {
	buffered *bufio.Writer
	out      io.Writer
	sum      hash.Hash32
	buf      []byte
	last     uint64 // time of the last record
	end      End
	keys     uint32
	policies uint32
}

// NewWriter begins a file.
func NewWriter(w io.Writer, h *Header) (*Writer, error) {
	b := bufio.NewWriterSize(w, 1<<18)
	out := &Writer{buffered: b, sum: crc32.New(castagnoli)}
	out.out = io.MultiWriter(b, out.sum)
	if _, err := io.WriteString(out.out, magic); err != nil {
		return nil, err
	}
	return out, out.json(itemHeader, h)
}

// Policy writes a policy, and returns its number.
func (w *Writer) Policy(p *Policy) (uint32, error) {
	w.policies++
	return w.policies - 1, w.json(itemPolicy, p)
}

// Key writes a key, and returns its number. A name longer than MaxName bytes is cut.
func (w *Writer) Key(name string) (uint32, error) {
	if w.keys == MaxKeys {
		return 0, fmt.Errorf("a record takes %d keys, and no more: begin another", MaxKeys)
	}
	w.keys++
	return w.keys - 1, w.item(itemKey, []byte(name[:min(len(name), MaxName)]))
}

// Record writes a record. One that is before the last written is marked late.
func (w *Writer) Record(r *Record) error {
	if r.Late = r.Late || r.Time < w.last; r.Late {
		w.end.Late++
	}
	w.end.Records++
	w.buf = appendRecord(w.buf[:0], r, w.last)
	w.last = r.Time
	return w.item(itemRecord, w.buf)
}

// Lost writes how many records were lost up to a time.
func (w *Writer) Lost(time, lost uint64) error {
	w.buf = binary.AppendUvarint(binary.AppendUvarint(w.buf[:0], time), lost)
	return w.item(itemLost, w.buf)
}

// End ends the file: of e, Records, Late and CRC are the writer's own. Returns the end as it was written.
func (w *Writer) End(e End) (End, error) {
	e.Records, e.Late, e.CRC = w.end.Records, w.end.Late, w.sum.Sum32()
	if err := w.json(itemEnd, &e); err != nil {
		return e, err
	}
	return e, w.Flush()
}

// Flush hands on all that was written.
func (w *Writer) Flush() error { return w.buffered.Flush() }

func (w *Writer) json(kind byte, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return w.item(kind, data)
}

func (w *Writer) item(kind byte, data []byte) error {
	var head [1 + binary.MaxVarintLen64]byte
	head[0] = kind
	n := 1 + binary.PutUvarint(head[1:], uint64(len(data)))
	if _, err := w.out.Write(head[:n]); err != nil {
		return err
	}
	_, err := w.out.Write(data)
	return err
}

// Bits of a record's colours, and of a meter's flags.
const (
	arrivalShift = 2
	chainShift   = 4
	lateBit      = 1 << 6
	overflowBit  = 1 << 2
)

// appendRecord encodes a record: its time less that of the one before (zigzag), policy, class, cost, packets; a
// byte of colour (2 bits), arrival colour (2), chain (2) and late (1); then for each meter a byte of colour (2
// bits) and overflow (1), key, with overflow the shared key, time less the record's, policy less the record's,
// profile, C, X.
func appendRecord(b []byte, r *Record, last uint64) []byte {
	b = binary.AppendVarint(b, int64(r.Time-last))
	for _, v := range [...]uint64{uint64(r.Policy), uint64(r.Class), r.Cost, uint64(r.Packets)} {
		b = binary.AppendUvarint(b, v)
	}
	flags := byte(r.Color) | byte(r.Arrival)<<arrivalShift | byte(r.Chain)<<chainShift
	if r.Late {
		flags |= lateBit
	}
	b = append(b, flags)
	for i := range r.Chain {
		m := &r.Meters[i]
		if m.Overflow {
			b = append(b, byte(m.Color)|overflowBit)
			b = binary.AppendUvarint(b, uint64(m.Key))
			b = binary.AppendUvarint(b, uint64(m.Shared))
		} else {
			b = append(b, byte(m.Color))
			b = binary.AppendUvarint(b, uint64(m.Key))
		}
		b = binary.AppendUvarint(b, m.Time-r.Time)
		b = binary.AppendVarint(b, int64(m.Policy)-int64(r.Policy))
		for _, v := range [...]uint64{uint64(m.Profile), m.C, m.X} {
			b = binary.AppendUvarint(b, v)
		}
	}
	return b
}
