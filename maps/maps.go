// Package maps holds typed views of the kernel program's maps. Only here do the names generated from
// the C source meet the types of package marker.
package maps

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"github.com/cilium/ebpf"

	"github.com/tricolor-policer/tricolor/bpf"
	"github.com/tricolor-policer/tricolor/marker"
)

// LayoutVersion is the version of the maps' layout. It is written to the table, so that a program of
// another layout is never put on it.
const LayoutVersion = int(bpf.PolicerLayoutLAYOUT_VERSION)

// ErrLayout is what reading maps of another layout wraps, or maps that break their own bounds.
var ErrLayout = errors.New("the maps have another layout than this version of tricolor")

// Maps are the maps of one loaded program. The caller owns them and closes them.
type Maps struct {
	Buckets    *ebpf.Map `ebpf:"buckets"`
	Table      *ebpf.Map `ebpf:"table_map"`
	Policies   *ebpf.Map `ebpf:"policies"`
	Profiles   *ebpf.Map `ebpf:"profiles"`
	Prefixes   *ebpf.Map `ebpf:"prefixes"`
	Control    *ebpf.Map `ebpf:"control_map"`
	ClassStats *ebpf.Map `ebpf:"class_stats_map"`
	PortStats  *ebpf.Map `ebpf:"port_stats_map"`
	About      *ebpf.Map `ebpf:"about_map"`
}

// Named returns the maps by the names they are pinned under.
func (m *Maps) Named() map[string]**ebpf.Map {
	return map[string]**ebpf.Map{
		"buckets": &m.Buckets, "table": &m.Table, "policies": &m.Policies, "profiles": &m.Profiles,
		"prefixes": &m.Prefixes, "control": &m.Control, "class_stats": &m.ClassStats, "port_stats": &m.PortStats, "about": &m.About,
	}
}

// ByObjectName returns the maps by their names in the object.
func (m *Maps) ByObjectName() map[string]*ebpf.Map {
	return map[string]*ebpf.Map{
		"buckets": m.Buckets, "table_map": m.Table, "policies": m.Policies, "profiles": m.Profiles,
		"prefixes": m.Prefixes, "control_map": m.Control, "class_stats_map": m.ClassStats,
		"port_stats_map": m.PortStats, "about_map": m.About,
	}
}

// ClearStats sets the counters of classes to 0 that the new plan has and the old one had not.
func (m *Maps) ClearStats(plan, old *marker.Plan) error {
	used := map[uint8]bool{}
	for i := range old.Classes {
		used[old.Classes[i].Stats] = true
	}
	for i := range plan.Classes {
		index := uint32(plan.Classes[i].Stats)
		if used[uint8(index)] {
			continue
		}
		cpus, err := ebpf.PossibleCPU()
		if err != nil {
			return fmt.Errorf("count the CPUs: %w", err)
		}
		if err := m.ClassStats.Put(index, make([]bpf.PolicerClassStats, cpus)); err != nil {
			return fmt.Errorf("clear map %s, entry %d: %w", m.ClassStats, index, err)
		}
	}
	return nil
}

// Close closes all maps. Pinned or used by a program, they live on in the kernel.
func (m *Maps) Close() error {
	var errs []error
	for _, named := range m.Named() {
		if *named != nil {
			errs = append(errs, (*named).Close())
		}
	}
	return errors.Join(errs...)
}

// Resize sets the sizes that depend on the table's shape, before the maps are made.
func Resize(spec *ebpf.CollectionSpec, g marker.Geometry) {
	spec.Maps["buckets"].MaxEntries = g.Sets
	spec.Maps["profiles"].MaxEntries = 2 * g.Profiles
}

// WriteTable writes the table's shape and seeds. Once, before the first packet.
func (m *Maps) WriteTable(g marker.Geometry, seeds marker.Seeds) error {
	t := bpf.PolicerTable{
		Layout:   bpf.PolicerLayoutLAYOUT_VERSION,
		Reserved: g.Reserved,
		Sets:     g.Sets,
		Profiles: g.Profiles,
		Seeds:    seeds,
	}
	for i, s := range g.Stages {
		t.Stages[i].Base, t.Stages[i].Mask = s.Base, s.Mask
	}
	return put(m.Table, 0, &t)
}

// ReadTable reads the table's shape and seeds. Returns ErrLayout if another layout wrote them, or if the
// maps are not of that shape.
func (m *Maps) ReadTable() (marker.Geometry, marker.Seeds, error) {
	var t bpf.PolicerTable
	if err := get(m.Table, 0, &t); err != nil {
		return marker.Geometry{}, marker.Seeds{}, err
	}
	if t.Layout != bpf.PolicerLayoutLAYOUT_VERSION {
		return marker.Geometry{}, marker.Seeds{}, fmt.Errorf("%w: %d, not %d", ErrLayout, t.Layout, LayoutVersion)
	}
	if t.Sets != m.Buckets.MaxEntries() || uint64(t.Profiles)*2 != uint64(m.Profiles.MaxEntries()) {
		return marker.Geometry{}, marker.Seeds{}, fmt.Errorf("%w: %d sets in a map of %d, twice %d profiles in one of %d",
			ErrLayout, t.Sets, m.Buckets.MaxEntries(), t.Profiles, m.Profiles.MaxEntries())
	}
	g := marker.Geometry{Reserved: t.Reserved, Sets: t.Sets, Profiles: t.Profiles}
	for i := range g.Stages {
		g.Stages[i] = marker.Stage{Base: t.Stages[i].Base, Mask: t.Stages[i].Mask}
	}
	return g, t.Seeds, nil
}

// About is what an attachment is.
type About struct {
	Device   string // its name when it was attached
	Since    uint64 // seconds since 1970
	NetNS    uint64 // inode of the network namespace
	Ifindex  uint32
	Egress   bool
	Handle   uint32            // clsact: the filter's handle; 0 with TCX
	Priority uint16            // clsact: the filter's priority
	OwnQdisc bool              // the clsact qdisc was added for it
	Version  string            // of tricolor that attached or upgraded it
	Object   [sha256.Size]byte // hash of the kernel object whose program polices
}

// WriteAbout writes what the attachment is.
func (m *Maps) WriteAbout(a About) error {
	k := bpf.PolicerAbout{
		Since: a.Since, Netns: a.NetNS, Ifindex: a.Ifindex, Handle: a.Handle, Priority: a.Priority,
		Egress: flag(a.Egress), OwnQdisc: flag(a.OwnQdisc), Object: a.Object,
	}
	copy(k.Device[:], a.Device)
	copy(k.Version[:len(k.Version)-1], a.Version)
	return put(m.About, 0, &k)
}

// ReadAbout reads what the attachment is.
func (m *Maps) ReadAbout() (About, error) {
	var k bpf.PolicerAbout
	if err := get(m.About, 0, &k); err != nil {
		return About{}, err
	}
	return About{
		Device: text(k.Device[:]), Since: k.Since, NetNS: k.Netns, Ifindex: k.Ifindex, Egress: k.Egress != 0,
		Handle: k.Handle, Priority: k.Priority, OwnQdisc: k.OwnQdisc != 0, Version: text(k.Version[:]), Object: k.Object,
	}, nil
}

// Stats reads the counters of the port and of the plan's classes, in their order, summed over all CPUs.
func (m *Maps) Stats(plan *marker.Plan) (marker.Stats, error) {
	s := marker.Stats{Classes: make([]marker.ClassStats, len(plan.Classes))}
	var port []bpf.PolicerPortStats
	if err := m.PortStats.Lookup(uint32(0), &port); err != nil {
		return s, fmt.Errorf("read map %s: %w", m.PortStats, err)
	}
	for i := range port {
		s.Port.Unmatched += port[i].Unmatched
		s.Port.NotIP += port[i].NotIp
		s.Port.Malformed += port[i].Malformed
		s.Port.LongChain += port[i].LongChain
		s.Port.Unread += port[i].Unread
	}
	for class := range s.Classes {
		c := &s.Classes[class]
		var perCPU []bpf.PolicerClassStats
		if err := m.ClassStats.Lookup(uint32(plan.Classes[class].Stats), &perCPU); err != nil {
			return s, fmt.Errorf("read map %s: %w", m.ClassStats, err)
		}
		for i := range perCPU {
			k := &perCPU[i]
			for color := range marker.Colors {
				c.Packets[color] += k.Packets[color]
				c.Bytes[color] += k.Bytes[color]
			}
			c.Overflow += k.Overflow
			c.Contended += k.Contended
			c.ClockBack += k.ClockBack
		}
	}
	return s, nil
}

// put writes a value of an array map. Values are written as they lie in memory.
func put[T any](m *ebpf.Map, index uint32, value *T) error {
	if err := m.Put(index, bytesOf(value)); err != nil {
		return fmt.Errorf("write map %s, entry %d: %w", m, index, err)
	}
	return nil
}

// get reads a value of an array map.
func get[T any](m *ebpf.Map, index uint32, value *T) error {
	if size := uint32(unsafe.Sizeof(*value)); m.ValueSize() != size {
		return fmt.Errorf("%w: map %s has values of %d bytes, not %d", ErrLayout, m, m.ValueSize(), size)
	}
	if err := m.Lookup(index, bytesOf(value)); err != nil {
		return fmt.Errorf("read map %s, entry %d: %w", m, index, err)
	}
	return nil
}

func bytesOf[T any](value *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(value)), unsafe.Sizeof(*value))
}

func flag(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// text is a string in a fixed array, up to its first zero.
func text(b []byte) string {
	s, _, _ := strings.Cut(string(b), "\x00")
	return s
}
