package loader

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tricolor-policer/tricolor/bpf"
	"github.com/tricolor-policer/tricolor/marker"
)

// Frames that a test run takes: shorter ones are padded, longer ones cut; how much of them counts is
// told in the context.
const (
	runMin = 54
	RunMax = 3712
)

// skbContext is the kernel's struct __sk_buff.
type skbContext struct {
	Len, PktType, Mark, QueueMapping, Protocol uint32
	VlanPresent, VlanTci, VlanProto, Priority  uint32
	IngressIfindex, Ifindex, TcIndex           uint32
	Cb                                         [5]uint32
	Hash, TcClassid, Data, DataEnd, NapiID     uint32
	Family, RemoteIP4, LocalIP4                uint32
	RemoteIP6, LocalIP6                        [4]uint32
	RemotePort, LocalPort, DataMeta            uint32
	FlowKeys                                   uint64
	Tstamp                                     uint64
	WireLen, GsoSegs                           uint32
	Sk                                         uint64
	GsoSize                                    uint32
	TstampType                                 uint8
	_                                          [3]uint8
	Hwtstamp                                   uint64
}

// Runner runs a program loaded for replay on one frame after another, as the kernel would on a live
// hook. Not safe for concurrent use; several Runners of one program are.
type Runner struct {
	program *Program
	in      [RunMax]byte
	out     [RunMax + 256]byte
	context skbContext

	// ChecksumComplete has the kernel check that the program keeps the checksum of a packet that the
	// device summed true: a wrong one is an error. Requires Linux 6.18 or so; else Run fails.
	ChecksumComplete bool
}

// NewRunner returns a Runner of a program that was loaded with Options.Replay.
func NewRunner(p *Program) *Runner { return &Runner{program: p} }

// ErrRun is what a test run's failure wraps.
var ErrRun = errors.New("test run of the kernel program")

// tcShot is the verdict that drops; tcUnspec the one that lets the packet go on.
const (
	tcUnspec = ^uint32(0)
	tcShot   = 2
)

const flagChecksumComplete = 1 << 2

// Run polices one frame at now (ns), and marks its bytes in place. At most RunMax captured bytes count.
func (r *Runner) Run(f *marker.Frame, now uint64) (marker.Outcome, error) {
	data := f.Data[:min(len(f.Data), RunMax)]
	in := r.in[:max(len(data), runMin)]
	n := copy(in, data)
	clear(in[n:])
	r.context = skbContext{
		Tstamp:   now,
		GsoSize:  f.GSOSize,
		GsoSegs:  f.GSOSegs,
		Mark:     f.Mark,
		Priority: f.Priority,
	}
	cb := &r.context.Cb
	cb[bpf.PolicerReplayInREPLAY_LINK] = uint32(f.Link)
	cb[bpf.PolicerReplayInREPLAY_CAPTURED] = uint32(len(data))
	cb[bpf.PolicerReplayInREPLAY_LENGTH] = f.Length
	cb[bpf.PolicerReplayInREPLAY_VLAN] = f.VLAN
	verdict, out, err := r.run(in)
	if err != nil {
		return marker.Outcome{}, err
	}
	copy(data, out)
	f.Mark, f.Priority = r.context.Mark, r.context.Priority

	result := cb[bpf.PolicerReplayOutREPLAY_RESULT]
	o := marker.Outcome{
		Kind:    marker.Kind(result),
		Color:   marker.Color(result >> 8 & 0xf),
		Arrival: marker.Color(result >> 12 & 0xf),
		Class:   uint16(result >> 16),
		Cost:    uint64(cb[bpf.PolicerReplayOutREPLAY_COST]),
	}
	copy(o.Slots[:], cb[bpf.PolicerReplayOutREPLAY_SLOT:])
	switch verdict {
	case tcShot:
		o.Dropped = true
	case tcUnspec:
	default:
		return o, fmt.Errorf("%w: verdict %d, neither drop nor go on", ErrRun, int32(verdict))
	}
	return o, nil
}

// run does one test run; the context comes back in place. The library's Program.Run would encode the
// context by reflection and allocate for each packet.
func (r *Runner) run(in []byte) (verdict uint32, out []byte, err error) {
	attr := struct {
		ProgFD, Retval              uint32
		DataSizeIn, DataSizeOut     uint32
		DataIn, DataOut             uint64
		Repeat, Duration            uint32
		CtxSizeIn, CtxSizeOut       uint32
		CtxIn, CtxOut               uint64
		Flags, CPU, BatchSize, _pad uint32
	}{
		ProgFD:      uint32(r.program.FD()),
		DataSizeIn:  uint32(len(in)),
		DataSizeOut: uint32(len(r.out)),
		DataIn:      uint64(uintptr(unsafe.Pointer(&in[0]))),
		DataOut:     uint64(uintptr(unsafe.Pointer(&r.out[0]))),
		Repeat:      1,
		CtxSizeIn:   uint32(unsafe.Sizeof(r.context)),
		CtxSizeOut:  uint32(unsafe.Sizeof(r.context)),
		CtxIn:       uint64(uintptr(unsafe.Pointer(&r.context))),
		CtxOut:      uint64(uintptr(unsafe.Pointer(&r.context))),
	}
	if r.ChecksumComplete {
		attr.Flags = flagChecksumComplete
	}
	for {
		_, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_TEST_RUN,
			uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
		switch errno {
		case 0:
			return attr.Retval, r.out[:attr.DataSizeOut], nil
		case unix.EINTR:
			continue
		default:
			return 0, nil, fmt.Errorf("%w: %w", ErrRun, errno)
		}
	}
}
