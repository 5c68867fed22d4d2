package record

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"math"
)

// Reader reads a file, which is not trusted: whatever it holds, a reader's memory is some times the bytes of its keys
// and policies.
type Reader struct {
	Header   Header
	Policies []Policy // read so far
	Keys     []string // names, read so far: to be printed with care
	Lost     uint64   // records that were lost so far
	End      *End     // nil until it was read

	in   *bufio.Reader
	sum  hash.Hash32
	buf  []byte
	last uint64
	done uint64 // records
	late uint64
}

// NewReader reads the header. Returns an error that wraps ErrFile.
func NewReader(r io.Reader) (*Reader, error) {
	out := &Reader{in: bufio.NewReaderSize(r, 1<<18), sum: crc32.New(castagnoli)}
	line := make([]byte, len(magic))
	if _, err := io.ReadFull(out.in, line); err != nil || string(line) != magic {
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, err
		}
		return nil, fmt.Errorf("%w: it does not begin with %q", ErrFile, magic[:len(magic)-1])
	}
	out.sum.Write(line)
	kind, err := out.item()
	if err != nil {
		return nil, err
	}
	if kind != itemHeader {
		return nil, fmt.Errorf("%w: no header", ErrFile)
	}
	return out, out.json("header", &out.Header)
}

// Next reads the next record. Returns io.EOF after the last one of a whole file; an error that wraps ErrCut
// where the file ends before its end; or ErrFile.
func (r *Reader) Next(out *Record) error {
	if r.End != nil {
		return io.EOF
	}
	for {
		sum := r.sum.Sum32()
		kind, err := r.item()
		if err != nil {
			return err
		}
		switch kind {
		case itemRecord:
			return r.record(out)
		case itemKey:
			err = r.key()
		case itemPolicy:
			err = r.policy()
		case itemLost:
			err = r.lost()
		case itemEnd:
			return r.end(sum)
		default:
			err = fmt.Errorf("%w: an item %q", ErrFile, kind)
		}
		if err != nil {
			return err
		}
	}
}

// item reads an item into r.buf.
func (r *Reader) item() (kind byte, err error) {
	kind, err = r.in.ReadByte()
	if err != nil {
		return 0, cut(err)
	}
	size, err := binary.ReadUvarint(r.in)
	if err != nil {
		if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return 0, fmt.Errorf("%w: the length of an item: %w", ErrFile, err)
		}
		return 0, cut(err)
	}
	most := uint64(maxJSON)
	if kind == itemRecord || kind == itemKey || kind == itemLost {
		most = maxRecord
	}
	if size > most {
		return 0, fmt.Errorf("%w: an item %q of %d bytes", ErrFile, kind, size)
	}
	// What is claimed is believed in steps.
	r.buf = r.buf[:0]
	for uint64(len(r.buf)) < size {
		from := len(r.buf)
		r.buf = append(r.buf, make([]byte, min(size-uint64(from), 1<<16))...)
		if _, err := io.ReadFull(r.in, r.buf[from:]); err != nil {
			return 0, cut(err)
		}
	}
	head := binary.AppendUvarint([]byte{kind}, size)
	r.sum.Write(head)
	r.sum.Write(r.buf)
	return kind, nil
}

func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrCut
	}
	return err
}

func (r *Reader) json(what string, value any) error {
	if err := json.Unmarshal(r.buf, value); err != nil {
		return fmt.Errorf("%w: its %s: %w", ErrFile, what, err)
	}
	return nil
}

func (r *Reader) key() error {
	if len(r.Keys) == MaxKeys {
		return fmt.Errorf("%w: over %d keys", ErrFile, MaxKeys)
	}
	if len(r.buf) > MaxName {
		return fmt.Errorf("%w: a key of %d bytes", ErrFile, len(r.buf))
	}
	r.Keys = append(r.Keys, string(r.buf))
	return nil
}

func (r *Reader) policy() error {
	if len(r.Policies) == MaxPolicies {
		return fmt.Errorf("%w: over %d policies", ErrFile, MaxPolicies)
	}
	var p Policy
	if err := r.json("policy", &p); err != nil {
		return err
	}
	if n := len(r.Policies); n > 0 && p.Since < r.Policies[n-1].Since {
		return fmt.Errorf("%w: policy %d took over before the one before it", ErrFile, n)
	}
	r.Policies = append(r.Policies, p)
	return nil
}

func (r *Reader) lost() error {
	f := fields{b: r.buf}
	f.next(math.MaxUint64) // when
	lost := f.next(math.MaxUint64)
	if f.bad || len(f.b) > 0 || lost < r.Lost {
		return fmt.Errorf("%w: a note of losses", ErrFile)
	}
	r.Lost = lost
	return nil
}

func (r *Reader) end(sum uint32) error {
	var e End
	if err := r.json("end", &e); err != nil {
		return err
	}
	if e.CRC != sum {
		return fmt.Errorf("%w: its checksum is %08x, and %08x was written", ErrFile, sum, e.CRC)
	}
	if e.Records != r.done || e.Late != r.late {
		return fmt.Errorf("%w: it ends with %d records, %d late, and has %d, %d late", ErrFile, e.Records, e.Late, r.done, r.late)
	}
	if _, err := r.in.ReadByte(); err != io.EOF {
		if err != nil {
			return err
		}
		return fmt.Errorf("%w: bytes behind its end", ErrFile)
	}
	r.Lost, r.End = max(r.Lost, e.Lost), &e
	return io.EOF
}

// fields takes numbers off a record.
type fields struct {
	b   []byte
	bad bool
}

// next is the next number, at most a bound.
func (f *fields) next(most uint64) uint64 {
	v, n := binary.Uvarint(f.b)
	if n <= 0 || v > most {
		f.bad = true
		return 0
	}
	f.b = f.b[n:]
	return v
}

func (f *fields) signed() int64 {
	v, n := binary.Varint(f.b)
	if n <= 0 {
		f.bad = true
		return 0
	}
	f.b = f.b[n:]
	return v
}

func (f *fields) byte() byte {
	if len(f.b) == 0 {
		f.bad = true
		return 0
	}
	b := f.b[0]
	f.b = f.b[1:]
	return b
}

func (r *Reader) record(out *Record) error {
	f := fields{b: r.buf}
	*out = Record{
		Time: r.last + uint64(f.signed()), Policy: uint32(f.next(math.MaxUint32)), Class: uint16(f.next(math.MaxUint16)),
		Cost: f.next(math.MaxUint64 / 1_000_000_000), Packets: uint32(f.next(math.MaxUint32)),
	}
	flags := f.byte()
	out.Color, out.Arrival = Color(flags&3), Color(flags>>arrivalShift&3)
	out.Chain, out.Late = int(flags>>chainShift&3), flags&lateBit != 0
	for i := range out.Chain {
		m := &out.Meters[i]
		flags := f.byte()
		m.Color, m.Overflow = Color(flags&3), flags&overflowBit != 0
		m.Key = uint32(f.next(math.MaxUint32))
		if m.Overflow {
			m.Shared = uint32(f.next(math.MaxUint32))
		}
		m.Time = out.Time + f.next(math.MaxUint64-out.Time)
		m.Policy = uint32(int64(out.Policy) + f.signed())
		m.Profile, m.C, m.X = uint32(f.next(math.MaxUint32)), f.next(math.MaxUint64), f.next(math.MaxUint64)
		f.bad = f.bad || flags > 7 || m.Color >= colors || int(m.Key) >= len(r.Keys) || int(m.Shared) >= max(len(r.Keys), 1) ||
			int(m.Policy) >= len(r.Policies) || int(m.Profile) >= len(r.Policies[m.Policy].Profiles)
		if f.bad {
			break
		}
	}
	r.done++
	if out.Late {
		r.late++
	}
	if f.bad || len(f.b) > 0 || flags&^(lateBit|0x3f) != 0 || out.Color >= colors || out.Arrival >= colors ||
		int(out.Policy) >= len(r.Policies) || int(out.Class) >= len(r.Policies[out.Policy].Classes) || out.Late != (out.Time < r.last) {
		return fmt.Errorf("%w: record %d", ErrFile, r.done)
	}
	r.last = out.Time
	return nil
}
