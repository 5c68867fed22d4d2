// Package maps holds typed views of the kernel program's maps. Only here do the names generated from
// the C source meet the types of package marker.
package maps

import (
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
const LayoutVersion = 1

// ErrLayout is what reading maps of another layout wraps, or maps that break their own bounds.
var ErrLayout = errors.New("the maps have another layout than this version of tricolor")

// Maps are the maps of one loaded program. The caller owns them and closes them.
type Maps struct {
	Buckets    *ebpf.Map `ebpf:"buckets"`
	Table      *ebpf.Map `ebpf:"table_map"`
	Policies   *ebpf.Map `ebpf:"policies"`
	Profiles   *ebpf.Map `ebpf:"profiles"`
	Control    *ebpf.Map `ebpf:"control_map"`
	ClassStats *ebpf.Map `ebpf:"class_stats_map"`
	PortStats  *ebpf.Map `ebpf:"port_stats_map"`
	About      *ebpf.Map `ebpf:"about_map"`
}

// Named returns the maps by the names they are pinned under.
func (m *Maps) Named() map[string]**ebpf.Map {
	return map[string]**ebpf.Map{
		"buckets": &m.Buckets, "table": &m.Table, "policies": &m.Policies, "profiles": &m.Profiles,
		"control": &m.Control, "class_stats": &m.ClassStats, "port_stats": &m.PortStats, "about": &m.About,
	}
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
		Layout:   LayoutVersion,
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

// ReadTable reads the table's shape and seeds. Returns ErrLayout if another layout wrote them.
func (m *Maps) ReadTable() (marker.Geometry, marker.Seeds, error) {
	var t bpf.PolicerTable
	if err := get(m.Table, 0, &t); err != nil {
		return marker.Geometry{}, marker.Seeds{}, err
	}
	if t.Layout != LayoutVersion {
		return marker.Geometry{}, marker.Seeds{}, fmt.Errorf("%w: %d, not %d", ErrLayout, t.Layout, LayoutVersion)
	}
	g := marker.Geometry{Reserved: t.Reserved, Sets: t.Sets, Profiles: t.Profiles}
	for i := range g.Stages {
		g.Stages[i] = marker.Stage{Base: t.Stages[i].Base, Mask: t.Stages[i].Mask}
	}
	return g, t.Seeds, nil
}

// WritePlan writes the plan beside the one in force, and then switches to it: each packet sees the old
// or the new one, whole. The copy is the generation's parity.
func (m *Maps) WritePlan(p *marker.Plan) error {
	if err := p.Check(); err != nil {
		return err
	}
	copyIndex := p.Generation & 1
	policy := bpf.PolicerPolicy{
		Generation: p.Generation,
		Profiles:   copyIndex * p.Geometry.Profiles,
		Classes:    uint16(len(p.Classes)),
		Malformed:  uint8(p.Malformed.Verbs),
	}
	for i := range p.Profiles {
		profile := profileToKernel(&p.Profiles[i])
		if err := put(m.Profiles, policy.Profiles+uint32(i), &profile); err != nil {
			return err
		}
	}
	for i := range p.Classes {
		c, k := &p.Classes[i], &policy.Class[i]
		k.Chain, k.Count, k.Overhead, k.Arrival = uint8(len(c.Meters)), uint8(c.Count), c.Overhead, c.Arrival
		copy(k.Name[:], c.Name)
		for color, a := range c.Actions {
			k.Actions[color].Verbs, k.Actions[color].Dscp = uint8(a.Verbs), a.DSCP
		}
		for j, meter := range c.Meters {
			km := &k.Meters[j]
			km.Mask[0].Word, km.Mask[1].Word = meter.Mask[0], meter.Mask[1]
			km.Id, km.Profile, km.Reserved, km.Per = meter.ID, meter.Profile, meter.Reserved, uint8(meter.Per)
		}
	}
	if err := put(m.Policies, copyIndex, &policy); err != nil {
		return err
	}
	return put(m.Control, 0, &bpf.PolicerControl{Active: copyIndex})
}

// ReadPlan reads the plan in force. Map contents are not trusted: one that breaks its bounds returns
// ErrLayout.
func (m *Maps) ReadPlan() (*marker.Plan, error) {
	g, _, err := m.ReadTable()
	if err != nil {
		return nil, err
	}
	var control bpf.PolicerControl
	if err := get(m.Control, 0, &control); err != nil {
		return nil, err
	}
	var policy bpf.PolicerPolicy
	if err := get(m.Policies, control.Active, &policy); err != nil {
		return nil, err
	}
	if int(policy.Classes) > len(policy.Class) || policy.Profiles != policy.Generation&1*g.Profiles {
		return nil, fmt.Errorf("%w: %d classes, profiles at %d", ErrLayout, policy.Classes, policy.Profiles)
	}
	p := &marker.Plan{
		Generation: policy.Generation,
		Geometry:   g,
		Malformed:  marker.Action{Verbs: marker.Verb(policy.Malformed)},
	}
	used := -1
	for i := range int(policy.Classes) {
		k := &policy.Class[i]
		c := marker.Class{
			Name:     text(k.Name[:]),
			Arrival:  k.Arrival,
			Overhead: k.Overhead,
			Count:    marker.Count(k.Count),
		}
		for color, a := range k.Actions {
			c.Actions[color] = marker.Action{Verbs: marker.Verb(a.Verbs), DSCP: a.Dscp}
		}
		for j := range min(int(k.Chain), len(k.Meters)) {
			km := &k.Meters[j]
			c.Meters = append(c.Meters, marker.Meter{
				Per:      marker.Per(km.Per),
				Mask:     [2]marker.Key{km.Mask[0].Word, km.Mask[1].Word},
				ID:       km.Id,
				Profile:  km.Profile,
				Reserved: km.Reserved,
			})
			used = max(used, int(km.Profile))
		}
		p.Classes = append(p.Classes, c)
	}
	if used >= int(g.Profiles) {
		return nil, fmt.Errorf("%w: profile %d of %d", ErrLayout, used, g.Profiles)
	}
	for i := range used + 1 {
		var k bpf.PolicerProfile
		if err := get(m.Profiles, policy.Profiles+uint32(i), &k); err != nil {
			return nil, err
		}
		p.Profiles = append(p.Profiles, profileFromKernel(&k))
	}
	if err := p.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLayout, err)
	}
	return p, nil
}

func profileToKernel(p *marker.Profile) bpf.PolicerProfile {
	return bpf.PolicerProfile{
		Cir: p.CIR, Xir: p.XIR, Cbs: p.CBS, Xbs: p.XBS, C_fill: p.CFill, X_fill: p.XFill,
		Overflow: p.Overflow, Meter: uint8(p.Meter), Aware: flag(p.Aware), Coupling: flag(p.Coupling),
	}
}

func profileFromKernel(k *bpf.PolicerProfile) marker.Profile {
	return marker.Profile{
		CIR: k.Cir, XIR: k.Xir, CBS: k.Cbs, XBS: k.Xbs, CFill: k.C_fill, XFill: k.X_fill,
		Overflow: k.Overflow, Meter: marker.MeterType(k.Meter), Aware: k.Aware != 0, Coupling: k.Coupling != 0,
	}
}

// About is what an attachment is.
type About struct {
	Device   string // its name when it was attached
	Since    uint64 // seconds since 1970
	NetNS    uint64 // inode of the network namespace
	Ifindex  uint32
	Egress   bool
	Handle   uint32 // clsact: the filter's handle; 0 with TCX
	Priority uint16 // clsact: the filter's priority
	OwnQdisc bool   // the clsact qdisc was added for it
	Version  string // of tricolor that attached it
}

// WriteAbout writes what the attachment is.
func (m *Maps) WriteAbout(a About) error {
	k := bpf.PolicerAbout{
		Since: a.Since, Netns: a.NetNS, Ifindex: a.Ifindex, Handle: a.Handle, Priority: a.Priority,
		Egress: flag(a.Egress), OwnQdisc: flag(a.OwnQdisc),
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
		Handle: k.Handle, Priority: k.Priority, OwnQdisc: k.OwnQdisc != 0, Version: text(k.Version[:]),
	}, nil
}

// Stats reads the counters of the plan's first n classes and of the port, summed over all CPUs.
func (m *Maps) Stats(n int) (marker.Stats, error) {
	s := marker.Stats{Classes: make([]marker.ClassStats, n)}
	var port []bpf.PolicerPortStats
	if err := m.PortStats.Lookup(uint32(0), &port); err != nil {
		return s, fmt.Errorf("read map %s: %w", m.PortStats, err)
	}
	for i := range port {
		s.Port.Unmatched += port[i].Unmatched
		s.Port.NotIP += port[i].NotIp
		s.Port.Malformed += port[i].Malformed
		s.Port.LongChain += port[i].LongChain
	}
	for class := range s.Classes {
		c := &s.Classes[class]
		var perCPU []bpf.PolicerClassStats
		if err := m.ClassStats.Lookup(uint32(class), &perCPU); err != nil {
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
