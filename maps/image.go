package maps

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/tricolor-policer/tricolor/bpf"
	"github.com/tricolor-policer/tricolor/marker"
)

// Image is all that a policer holds, but for its buckets, at one moment. In a file it stands first, as JSON
// behind a magic line and its length; then the sets of buckets in use, each behind its number; then an end
// mark, and the SHA-256 of all that.
type Image struct {
	Boot    string // the kernel's boot id: whose clock Now and all buckets are by
	Now     uint64 // ns: when it was saved
	Date    uint64 // the same in seconds since 1970, for people
	Device  string
	Egress  bool
	Version string // of tricolor that saved it
	Seeds   marker.Seeds
	Plan    *marker.Plan
	Stats   marker.Stats // Classes by Class.Stats
}

// ErrImage is what every refusal of a saved file wraps.
var ErrImage = errors.New("not a file that tricolor saved, or damaged")

const (
	imageMagic  = "tricolor save 1\n"
	imageHeader = 256 << 20 // bytes of JSON at most
	imageEnd    = ^uint32(0)
	setBytes    = int(unsafe.Sizeof(marker.Set{}))
)

// header is an Image, and what must be known before it can be read.
type header struct {
	Layout uint32
	Order  string // of the bytes of the buckets
	Image
}

// byteOrder names this machine's.
func byteOrder() string {
	if binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
		return "little"
	}
	return "big"
}

// Write writes the image with the sets of its table that are in use. Nothing may change them meanwhile.
func (im *Image) Write(w io.Writer, sets []marker.Set) error {
	text, err := json.Marshal(header{uint32(LayoutVersion), byteOrder(), *im})
	if err != nil {
		return fmt.Errorf("write the plan: %w", err)
	}
	if len(text) > imageHeader {
		return fmt.Errorf("the policy takes %d bytes: at most %d can be saved", len(text), imageHeader)
	}
	sum := sha256.New()
	out := bufio.NewWriterSize(io.MultiWriter(w, sum), 1<<16)
	number := func(n uint32) { _, _ = out.Write(binary.LittleEndian.AppendUint32(nil, n)) } // Flush tells of errors
	_, _ = out.WriteString(imageMagic)
	number(uint32(len(text)))
	_, _ = out.Write(text)
	for i := range sets {
		if sets[i][0].Tags != 0 {
			number(uint32(i))
			_, _ = out.Write(bytesOf(&sets[i]))
		}
	}
	number(imageEnd)
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write the buckets: %w", err)
	}
	if _, err := w.Write(sum.Sum(nil)); err != nil {
		return fmt.Errorf("write the checksum: %w", err)
	}
	return nil
}

// ImageReader reads a file that Image.Write wrote: first the Image, then, once, its sets. The file is not
// trusted.
type ImageReader struct {
	Image
	in  *bufio.Reader
	sum hash.Hash
}

// NewImageReader reads the image. Returns an error that wraps ErrImage, or ErrLayout where a tricolor with
// another layout saved it.
func NewImageReader(r io.Reader) (*ImageReader, error) {
	ir := &ImageReader{in: bufio.NewReaderSize(r, 1<<16), sum: sha256.New()}
	magic := make([]byte, len(imageMagic))
	if err := ir.read(magic); err != nil || string(magic) != imageMagic {
		return nil, errors.Join(fmt.Errorf("%w: it does not begin as one", ErrImage), err)
	}
	length, err := ir.number()
	if err != nil {
		return nil, err
	}
	if length > imageHeader {
		return nil, fmt.Errorf("%w: a policy of %d bytes: at most %d", ErrImage, length, imageHeader)
	}
	text, err := io.ReadAll(io.LimitReader(ir.in, int64(length)))
	if err != nil || len(text) != int(length) {
		return nil, errors.Join(fmt.Errorf("%w: cut short in the policy", ErrImage), err)
	}
	ir.sum.Write(text)
	var h header
	if err := json.Unmarshal(text, &h); err != nil {
		return nil, bad(err)
	}
	if h.Layout != uint32(LayoutVersion) || h.Order != byteOrder() {
		return nil, fmt.Errorf("%w: saved with layout %d, bytes in %q order; this is %d, %s: restore it with the version that saved it",
			ErrLayout, h.Layout, h.Order, LayoutVersion, byteOrder())
	}
	ir.Image = h.Image
	switch {
	case ir.Plan == nil || ir.Seeds == (marker.Seeds{}):
		return nil, fmt.Errorf("%w: no plan, or no seeds", ErrImage)
	case len(ir.Stats.Classes) > marker.MaxStats:
		return nil, fmt.Errorf("%w: counters of %d classes", ErrImage, len(ir.Stats.Classes))
	}
	if err := ir.Plan.CheckSaved(); err != nil {
		return nil, bad(err)
	}
	prefixes := 0
	for _, s := range ir.Plan.Sets {
		prefixes += len(s.Entries)
	}
	if prefixes > maxPrefixes/2 {
		return nil, fmt.Errorf("%w: %d prefixes", ErrImage, prefixes)
	}
	return ir, nil
}

// Sets reads the buckets into an empty table of the plan's geometry, and checks them. Where rebase, they are
// moved to another clock, of which it is now (ns): see marker.Plan.RebaseSet. Returns an error that wraps
// ErrImage: then the table is of no use.
func (ir *ImageReader) Sets(sets []marker.Set, rebase bool, now uint64) error {
	if len(sets) != int(ir.Plan.Geometry.Sets) {
		return fmt.Errorf("%w: a table of %d sets, not %d", ErrImage, len(sets), ir.Plan.Geometry.Sets)
	}
	var used []uint32
	for {
		i, err := ir.number()
		if err != nil {
			return err
		}
		if i == imageEnd {
			break
		}
		if i >= uint32(len(sets)) || len(used) > 0 && i <= used[len(used)-1] {
			return fmt.Errorf("%w: set %d of %d, out of order", ErrImage, i, len(sets))
		}
		if err := ir.read(bytesOf(&sets[i])); err != nil {
			return err
		}
		sets[i][0].Lock = 0 // nobody holds it
		used = append(used, i)
	}
	want := ir.sum.Sum(nil)
	got := make([]byte, len(want))
	if err := ir.read(got); err != nil {
		return err
	}
	if string(got) != string(want) {
		return fmt.Errorf("%w: its checksum is wrong", ErrImage)
	}
	if _, err := ir.in.ReadByte(); !errors.Is(err, io.EOF) {
		return errors.Join(fmt.Errorf("%w: something stands behind its end", ErrImage), err)
	}
	for _, i := range used {
		if err := ir.Plan.CheckSet(&ir.Seeds, sets, i, ir.Now); err != nil {
			return bad(err)
		}
	}
	if rebase {
		for _, i := range used {
			ir.Plan.RebaseSet(&sets[i], ir.Now, now)
		}
	}
	return nil
}

// bad says what is wrong with a file. A name in it begins no line.
func bad(err error) error {
	return fmt.Errorf("%w: %s", ErrImage, strings.ReplaceAll(err.Error(), "\n", `\n`))
}

func (ir *ImageReader) number() (uint32, error) {
	var b [4]byte
	err := ir.read(b[:])
	return binary.LittleEndian.Uint32(b[:]), err
}

func (ir *ImageReader) read(b []byte) error {
	if _, err := io.ReadFull(ir.in, b); err != nil {
		return fmt.Errorf("%w: cut short: %w", ErrImage, err)
	}
	ir.sum.Write(b)
	return nil
}

// Memory has f work on the bucket table in place. No packet may meet the policer meanwhile: nothing is locked.
func (m *Maps) Memory(f func(sets []marker.Set) error) error {
	if m.Buckets.ValueSize() != uint32(setBytes) {
		return fmt.Errorf("%w: map %s has values of %d bytes, not %d", ErrLayout, m.Buckets, m.Buckets.ValueSize(), setBytes)
	}
	memory, err := unix.Mmap(m.Buckets.FD(), 0, int(m.Buckets.MaxEntries())*setBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map the buckets of %s into memory: %w", m.Buckets, err)
	}
	err = f(unsafe.Slice((*marker.Set)(unsafe.Pointer(&memory[0])), m.Buckets.MaxEntries()))
	return errors.Join(err, unix.Munmap(memory))
}

// AllStats reads every counter, those of classes by their Class.Stats, of gone ones too.
func (m *Maps) AllStats() (marker.Stats, error) {
	all := &marker.Plan{Classes: make([]marker.Class, marker.MaxStats)}
	for i := range all.Classes {
		all.Classes[i].Stats = uint8(i)
	}
	return m.Stats(all)
}

// WriteStats writes what AllStats read. No packet may meet the policer meanwhile.
func (m *Maps) WriteStats(s *marker.Stats) error {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return fmt.Errorf("count the CPUs: %w", err)
	}
	port := make([]bpf.PolicerPortStats, cpus)
	port[0] = bpf.PolicerPortStats{
		Unmatched: s.Port.Unmatched, NotIp: s.Port.NotIP, Malformed: s.Port.Malformed, LongChain: s.Port.LongChain, Unread: s.Port.Unread,
	}
	if err := m.PortStats.Put(uint32(0), port); err != nil {
		return fmt.Errorf("write map %s: %w", m.PortStats, err)
	}
	perCPU := make([]bpf.PolicerClassStats, cpus)
	for i, c := range s.Classes {
		perCPU[0] = bpf.PolicerClassStats{
			Packets: c.Packets, Bytes: c.Bytes, Overflow: c.Overflow, Contended: c.Contended, ClockBack: c.ClockBack,
		}
		if err := m.ClassStats.Put(uint32(i), perCPU); err != nil {
			return fmt.Errorf("write map %s, entry %d: %w", m.ClassStats, i, err)
		}
	}
	return nil
}
