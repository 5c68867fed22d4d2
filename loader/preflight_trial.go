package loader

import (
	"errors"
	"math"
	"runtime"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/tricolor-policer/tricolor/maps"
	"github.com/tricolor-policer/tricolor/marker"
)

// trial is what became of the program when it was tried. Where load failed, nothing else was tried.
type trial struct {
	load        error
	tcx, clsact error // clsact is tried where tcx is not nil
	machineCode uint32
}

// Outcomes of a trial that are no errors.
var (
	errAbsent  = errors.New("the kernel does not have it")
	errUntried = errors.New("it takes CAP_SYS_ADMIN to try it apart from the machine's devices")
)

// try loads the program with a small table and tries the hooks, and lets go of all of it.
func try() (t trial) {
	plan, err := trialPlan()
	if err != nil {
		return trial{load: err}
	}
	p, err := Load(plan, Options{Seeds: randomSeeds()})
	if err != nil {
		return trial{load: err}
	}
	defer func() { t.load = errors.Join(t.load, p.Close()) }()
	if info, err := p.Info(); err == nil {
		t.machineCode, _ = info.JitedSize()
	}
	if t.tcx = tryTCX(p.Program); t.tcx != nil {
		// The kernel would load its modules, which nobody needs where there is TCX.
		t.clsact = tryClsact(p.Program)
	}
	return t
}

// trialPlan is a policy of nothing.
func trialPlan() (*marker.Plan, error) {
	g, err := marker.NewGeometry(marker.MinFlows, [marker.MaxChain]bool{}, 1)
	return &marker.Plan{Geometry: g}, err
}

// tryTCX asks for the hook of a device that cannot be: a kernel that has TCX finds no such device. Returns
// nil, or errAbsent.
func tryTCX(p *ebpf.Program) error {
	l, err := attachTCX(link.TCXOptions{Interface: math.MaxInt32, Program: p, Attach: ebpf.AttachTCXIngress})
	switch {
	case err == nil:
		return l.Close() // there is such a device after all
	case errors.Is(err, unix.ENODEV):
		return nil
	case errors.Is(err, ebpf.ErrNotSupported):
		return errAbsent
	default:
		return err
	}
}

// tryClsact puts the program on the loopback device of a network namespace of its own, which ends with it.
// Returns nil, errUntried, or what the kernel said.
func tryClsact(p *ebpf.Program) error {
	outcome := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlock: the thread ends, and the namespace with it
		outcome <- func() error {
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				return errUntried
			}
			h, err := openHost()
			if err != nil {
				return err
			}
			defer h.close()
			loopback, err := h.device("lo")
			if err != nil {
				return err
			}
			if _, err := h.addClsact(loopback); err != nil {
				return err
			}
			about := maps.About{Handle: filterHandle, Priority: filterFirst}
			return errors.Join(
				h.addFilter(loopback, Ingress, p, about),
				h.nl.QdiscDel(clsact(loopback)), // and the filter with it
			)
		}()
	}()
	return <-outcome
}
