// Package loader puts the kernel program to work: loads it with a Plan, attaches it to a device's
// hook, pins it so that it outlives the command, finds it again and takes it off. It never sees the
// user's policy, only a Plan.
package loader

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"

	"github.com/tricolor-policer/tricolor/bpf"
	"github.com/tricolor-policer/tricolor/maps"
	"github.com/tricolor-policer/tricolor/marker"
)

// Options say how the program is loaded.
type Options struct {
	Seeds  marker.Seeds // of the table's hash
	L3     bool         // the device has no link header: packets start at the IP header
	Replay bool         // for test runs: the clock is the packet's time stamp
}

// Program is a loaded kernel program with its maps. The caller closes it.
type Program struct {
	*ebpf.Program
	Maps *maps.Maps
}

// This build's kernel program, and the hash of its object. Tests have them be another's.
var (
	newSpec    = bpf.LoadPolicer
	objectHash = bpf.ObjectSHA256
)

// Load loads the program, makes its maps and writes the plan to them. Returns an error that wraps
// ErrPrivilege, ErrKernel or marker.ErrPlan. Requires Linux 6.1, CAP_BPF, CAP_NET_ADMIN and
// CAP_PERFMON.
func Load(plan *marker.Plan, o Options) (*Program, error) {
	if err := plan.Check(); err != nil {
		return nil, err
	}
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, loadError("lift the bound on locked memory", err)
	}
	spec, err := readSpec(o)
	if err != nil {
		return nil, err
	}
	maps.Resize(spec, plan.Geometry)
	var objects struct {
		Program *ebpf.Program `ebpf:"policer"`
		maps.Maps
	}
	if err := spec.LoadAndAssign(&objects, nil); err != nil {
		return nil, loadError("load the kernel program", err)
	}
	p := &Program{Program: objects.Program, Maps: &objects.Maps}
	if err := errors.Join(
		p.Maps.WriteTable(plan.Geometry, o.Seeds),
		p.Maps.WritePlan(plan),
		p.Maps.Switch(plan.Generation, 0),
	); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// readSpec reads the kernel program, and sets what it knows when it is loaded.
func readSpec(o Options) (*ebpf.CollectionSpec, error) {
	spec, err := newSpec()
	if err != nil {
		return nil, fmt.Errorf("read the kernel program: %w", err)
	}
	err = errors.Join(
		spec.Variables["replay"].Set(bit(o.Replay)),
		spec.Variables["link_header"].Set(bit(!o.L3)),
		spec.Variables["ordered_stores"].Set(bit(runtime.GOARCH == "amd64")),
	)
	if err != nil {
		return nil, fmt.Errorf("set up the kernel program: %w", err)
	}
	return spec, nil
}

// programID is the kernel's number of a program.
func programID(p *ebpf.Program) (ebpf.ProgramID, error) {
	info, err := p.Info()
	if err != nil {
		return 0, fmt.Errorf("look at the kernel program: %w", err)
	}
	id, _ := info.ID()
	return id, nil
}

// onMaps has the programs of spec work on maps that are there, not on new ones.
func onMaps(spec *ebpf.CollectionSpec, m *maps.Maps) *ebpf.CollectionOptions {
	replace := m.ByObjectName()
	for name, there := range replace {
		spec.Maps[name].MaxEntries = there.MaxEntries()
	}
	return &ebpf.CollectionOptions{MapReplacements: replace}
}

// Close closes the program and its maps. Pinned or attached, they live on in the kernel.
func (p *Program) Close() error {
	return errors.Join(p.Program.Close(), p.Maps.Close())
}

func bit(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}
