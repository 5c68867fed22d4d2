package maps

import (
	"errors"
	"fmt"
	"path/filepath"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/tricolor-policer/tricolor/bpf"
	"github.com/tricolor-policer/tricolor/marker"
)

// shape is what a map must look like to be one of ours.
type shape struct {
	kind    ebpf.MapType
	key     uintptr // bytes
	value   uintptr // bytes
	entries uint32  // 0: the table's shape says
	flags   uint32
}

// maxPrefixes is the room for prefixes of both copies of the policy; what is not used takes no memory.
const maxPrefixes = 1 << 22

var shapes = map[string]shape{
	"buckets":     {ebpf.Array, 4, unsafe.Sizeof(bpf.PolicerSet{}), 0, unix.BPF_F_MMAPABLE},
	"table":       {ebpf.Array, 4, unsafe.Sizeof(bpf.PolicerTable{}), 1, 0},
	"policies":    {ebpf.Array, 4, unsafe.Sizeof(bpf.PolicerPolicy{}), 2, 0},
	"profiles":    {ebpf.Array, 4, unsafe.Sizeof(bpf.PolicerProfile{}), 0, 0},
	"prefixes":    {ebpf.LPMTrie, unsafe.Sizeof(bpf.PolicerPrefixKey{}), 4, maxPrefixes, unix.BPF_F_NO_PREALLOC},
	"control":     {ebpf.Array, 4, unsafe.Sizeof(bpf.PolicerControl{}), 1, unix.BPF_F_MMAPABLE},
	"class_stats": {ebpf.PerCPUArray, 4, unsafe.Sizeof(bpf.PolicerClassStats{}), marker.MaxStats, 0},
	"port_stats":  {ebpf.PerCPUArray, 4, unsafe.Sizeof(bpf.PolicerPortStats{}), 1, 0},
	"about":       {ebpf.Array, 4, unsafe.Sizeof(bpf.PolicerAbout{}), 1, 0},
}

// Pin pins each map under its name in the folder dir of a bpffs.
func (m *Maps) Pin(dir string) error {
	for name, named := range m.Named() {
		if err := (*named).Pin(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("pin the map %s: %w", name, err)
		}
	}
	return nil
}

// OpenPinned opens the maps that Pin pinned in dir. The caller closes them. Returns an error that wraps
// fs.ErrNotExist where one is missing, fs.ErrPermission, or ErrLayout where they are not of this
// version's layout: pins are not trusted.
func OpenPinned(dir string) (_ *Maps, err error) {
	m := new(Maps)
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close())
		}
	}()
	for name, named := range m.Named() {
		if *named, err = ebpf.LoadPinnedMap(filepath.Join(dir, name), nil); err != nil {
			return nil, fmt.Errorf("open the pinned map %s: %w", name, err)
		}
		if err = shapes[name].check(*named); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if _, _, err := m.ReadTable(); err != nil {
		return nil, err
	}
	return m, nil
}

func (s shape) check(m *ebpf.Map) error {
	is := shape{m.Type(), uintptr(m.KeySize()), uintptr(m.ValueSize()), m.MaxEntries(), m.Flags()}
	if s.entries == 0 {
		is.entries = 0
	}
	if is != s {
		return fmt.Errorf("%w: map %s", ErrLayout, m)
	}
	return nil
}
