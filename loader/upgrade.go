package loader

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"

	"github.com/tricolor-policer/tricolor/maps"
)

// pinNext is the pin of a program that is about to take over: it is there while Upgrade works, and after
// an Upgrade that was killed.
const pinNext = "next"

// Upgrade puts this build's kernel program in the place of the one that polices now, atomically for each
// packet: it works on the same maps, so policy, buckets and counters stay. version is noted as the one that
// did it. Where this build's program is there already it is left, and Upgrade returns false.
//
// On an error the old program polices on. Killed at any moment, the old program polices or the new one, and
// the next Upgrade finishes the work. Returns an error that wraps ErrNotAttached, ErrPrivilege or ErrKernel.
// Maps of another layout are not worked on: Find returns maps.ErrLayout. Requires what Attach does; a clsact
// filter can be replaced from within its own network namespace only.
func (a *Attachment) Upgrade(version string) (changed bool, err error) {
	h, err := openHost()
	if err != nil {
		return false, err
	}
	defer h.close()
	unlock, err := a.lock()
	if err != nil {
		return false, err
	}
	defer unlock()
	same := a.SameBuild()
	if !same {
		if err := a.takeOver(h); err != nil {
			return false, err
		}
	}
	a.About.Version, a.About.Object = version, objectHash()
	return !same, a.Maps.WriteAbout(a.About)
}

// SameBuild reports whether the program that polices is this build's.
func (a *Attachment) SameBuild() bool { return a.About.Object == objectHash() }

// takeOver loads this build's program on the maps, and puts it on the hook and among the pins.
func (a *Attachment) takeOver(h *host) error {
	device, err := h.hooked(a)
	if err != nil {
		return err
	}
	l3, err := isL3(device)
	if err != nil {
		return err
	}
	next, err := loadOn(a.Maps, l3)
	if err != nil {
		return err
	}
	if err := a.replace(h, device, next); err != nil {
		return errors.Join(err, next.Close())
	}
	old := a.program
	a.program = next
	return old.Close()
}

// hooked returns the device of an attachment, whose program can be replaced from here.
func (h *host) hooked(a *Attachment) (netlink.Link, error) {
	if !a.Here {
		return nil, fmt.Errorf("%s is in another network namespace than this: upgrade it from there, with nsenter --net=/run/netns/NAME", a.Device)
	}
	device, err := h.deviceAt(a.ifindex)
	if err == nil && device == nil {
		err = a.notAttached()
	}
	return device, err
}

// loadOn loads this build's program for a live hook, on maps that are there.
func loadOn(m *maps.Maps, l3 bool) (*ebpf.Program, error) {
	spec, err := readSpec(Options{L3: l3})
	if err != nil {
		return nil, err
	}
	var objects struct {
		Program *ebpf.Program `ebpf:"policer"`
	}
	if err := spec.LoadAndAssign(&objects, onMaps(spec, m)); err != nil {
		return nil, loadError("load the kernel program", err)
	}
	return objects.Program, nil
}

// replace puts next in the place of the attached program: among the pins first, so that whoever finds it on
// the hook finds it there too (see openProgram).
func (a *Attachment) replace(h *host, device netlink.Link, next *ebpf.Program) error {
	pin := filepath.Join(a.ident.dir(), pinNext)
	if err := os.Remove(pin); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove what an upgrade left that did not come to its end: %w", err)
	}
	if err := next.Pin(pin); err != nil {
		return explain("pin the kernel program", err)
	}
	step("pinned next")
	var err error
	if a.Mechanism == TCX {
		err = explainIf("replace the program on the TCX hook", a.link.Update(next))
	} else {
		err = explainIf("replace the program of the tc filter", h.nl.FilterReplace(filter(device, a.Direction(), next, a.About)))
	}
	if err != nil {
		return errors.Join(err, os.Remove(pin))
	}
	step("replaced")
	if a.ProgramID, err = programID(next); err != nil {
		return err
	}
	return a.promote()
}

// promote has the program on the hook be the pinned one, where an upgrade had it pinned beside. The lock must
// be held.
func (a *Attachment) promote() error {
	next, err := loadProgram(a.ident.dir(), pinNext)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer next.Close()
	id, err := programID(next)
	if err != nil || id != a.ProgramID {
		return err
	}
	if err := os.Rename(filepath.Join(a.ident.dir(), pinNext), filepath.Join(a.ident.dir(), pinProgram)); err != nil {
		return fmt.Errorf("put the pin of the kernel program in its place: %w", err)
	}
	step("promoted")
	return nil
}

// openProgram opens the program of dir that is on the hook, which on tells by its number: the pinned one, or
// the one that an upgrade pinned beside it before it was killed. Where none is, it is the pinned one.
func openProgram(dir string, on func(ebpf.ProgramID) (bool, error)) (program *ebpf.Program, id ebpf.ProgramID, hooked bool, err error) {
	for _, pin := range []string{pinNext, pinProgram} {
		program, err = loadProgram(dir, pin)
		if errors.Is(err, fs.ErrNotExist) && pin == pinNext {
			continue
		}
		if err != nil {
			return nil, 0, false, err
		}
		if id, err = programID(program); err == nil {
			hooked, err = on(id)
		}
		if err != nil {
			return nil, 0, false, errors.Join(err, program.Close())
		}
		if hooked || pin == pinProgram {
			break
		}
		if err := program.Close(); err != nil {
			return nil, 0, false, err
		}
	}
	return program, id, hooked, nil
}
