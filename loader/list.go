package loader

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/tricolor-policer/tricolor/maps"
)

// List returns all pinned attachments of this version's layout, of any network namespace: by device,
// ingress first. The caller closes each. One that cannot be opened hides no other: the error tells of
// it, and those that could be opened are returned all the same. Without privilege the error wraps
// ErrPrivilege.
func List() ([]*Attachment, error) {
	h, err := openHost()
	if err != nil {
		return nil, err
	}
	defer h.close()
	return h.list()
}

func (h *host) list() (all []*Attachment, _ error) {
	entries, err := os.ReadDir(Root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, seesPins(bpffs, privateMounts())
	}
	if err != nil {
		return nil, explain("list the pins", err)
	}
	var errs []error
	for _, e := range entries {
		id, ok := parseIdent(e.Name())
		if !ok {
			continue
		}
		a, err := h.find(id)
		switch {
		case errors.Is(err, ErrNotAttached): // it was taken off meanwhile
		case err != nil:
			errs = append(errs, err)
		default:
			all = append(all, a)
		}
	}
	slices.SortFunc(all, func(a, b *Attachment) int {
		return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.ident.ns, b.ident.ns),
			cmp.Compare(a.ident.ifindex, b.ident.ifindex), cmp.Compare(a.ident.direction, b.ident.direction))
	})
	return all, errors.Join(errs...)
}

// Find returns the attachment of a device of the calling thread's network namespace, by any name it has
// now, or, where it is stale or was moved away, by the name it had. The caller closes it. Returns an error that wraps
// ErrNoDevice, ErrNotAttached, ErrPrivilege or maps.ErrLayout.
func Find(device string, d Direction) (*Attachment, error) {
	h, err := openHost()
	if err != nil {
		return nil, err
	}
	defer h.close()
	dev, missing := h.device(device)
	if missing != nil && !errors.Is(missing, ErrNoDevice) {
		return nil, missing
	}
	wanted := []func(*Attachment) bool{func(a *Attachment) bool { // its device may be gone, and another may have its name
		return a.ident.ns == h.ns && a.Direction() == d && a.About.Device == device && (a.State == Stale || a.State == Moved)
	}}
	if missing == nil {
		missing = h.notAttached(device, dev, d)
		a, err := h.find(ident{h.ns, uint32(dev.Attrs().Index), d})
		switch {
		case err == nil && a.State == Moved: // that is another device
			if err := a.Close(); err != nil {
				return nil, err
			}
		case !errors.Is(err, ErrNotAttached):
			return a, err
		}
		wanted = []func(*Attachment) bool{h.movedTo(dev, d), wanted[0]}
	}
	a, err := h.pick(wanted...)
	switch {
	case a != nil:
		return a, nil
	case errors.Is(err, ErrPrivilege):
		return nil, err
	}
	return nil, errors.Join(missing, seesPins(bpffs, privateMounts()))
}

// notAttached says that a device has no policer in a direction, and whether it has one in the other.
func (h *host) notAttached(name string, dev netlink.Link, d Direction) error {
	a, err := h.find(ident{h.ns, uint32(dev.Attrs().Index), d.other()})
	if err == nil {
		defer a.Close()
	}
	if err != nil || a.State == Moved { // that is another device
		return fmt.Errorf("%w: %s %v has no policer; tricolor show lists those there are", ErrNotAttached, name, d)
	}
	return fmt.Errorf("%w: %s %v has no policer; its %[4]v has one: say --direction %[4]v", ErrNotAttached, name, d, d.other())
}

// pick opens the first attachment that is wanted, for the first reason that has one; nil where there is none.
// The error tells of attachments that cannot be opened.
func (h *host) pick(wanted ...func(*Attachment) bool) (picked *Attachment, err error) {
	all, err := h.list()
	for _, want := range wanted {
		if i := slices.IndexFunc(all, want); i >= 0 && picked == nil {
			picked = all[i]
		}
	}
	for _, a := range all {
		if a != picked {
			err = errors.Join(err, a.Close())
		}
	}
	return picked, err
}

// movedTo says of an attachment whether it polices a device that came from another network namespace to this one.
func (h *host) movedTo(device netlink.Link, d Direction) func(*Attachment) bool {
	return func(a *Attachment) bool {
		return a.Here && a.ident.ns != h.ns && a.ifindex == uint32(device.Attrs().Index) && a.Direction() == d
	}
}

// findTries bounds how often pins are opened again of which one was missing.
const findTries = 10

// find opens an attachment. Returns an error that wraps ErrNotAttached where there is none.
func (h *host) find(id ident) (*Attachment, error) {
	var a *Attachment
	var err error
	for range findTries {
		// Another command may have the pins appear, or go, meanwhile: only what stays away is missing.
		if a, err = h.open(id.dir()); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		if _, gone := os.Lstat(id.dir()); errors.Is(gone, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w: %v", ErrNotAttached, id)
		}
	}
	if err != nil {
		if errors.Is(err, maps.ErrLayout) {
			return nil, fmt.Errorf("the attachment pinned at %s was made by another version of tricolor, or tampered with: it polices on as it is. "+
				"Detach it with the version that made it, then attach with this one (or by hand: rm -r %[1]s ends a tcx policer): %w", id.dir(), err)
		}
		what := "open the attachment pinned at " + id.dir()
		if !errors.Is(err, fs.ErrPermission) { // else nothing says that it is damaged
			what += fmt.Sprintf(" (if it is damaged, by hand: rm -r %s ends a tcx policer; then attach again)", id.dir())
		}
		return nil, explain(what, err)
	}
	if a.ident != id {
		err := fmt.Errorf("%w: the pins at %s say they are those of %v", maps.ErrLayout, id.dir(), a.ident)
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// open opens the attachment that is pinned in dir. Pins are not trusted.
func (h *host) open(dir string) (_ *Attachment, err error) {
	a := new(Attachment)
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	if a.Maps, err = maps.OpenPinned(dir); err != nil {
		return nil, err
	}
	if a.About, err = a.Maps.ReadAbout(); err != nil {
		return nil, err
	}
	a.ident = ident{a.About.NetNS, a.About.Ifindex, a.Direction()}
	a.ifindex, a.Here = a.ident.ifindex, a.ident.ns == h.ns
	a.Device = a.About.Device
	a.link, err = link.LoadPinnedLink(filepath.Join(dir, pinLink), nil)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		a.Mechanism = Clsact
		return a, a.lookAtFilter(h, dir)
	case err != nil:
		return nil, fmt.Errorf("open the pinned link: %w", err)
	default:
		a.Mechanism = TCX
		return a, a.lookAtLink(h, dir)
	}
}

// lookAtLink tells the program and the state of an attachment that hangs on TCX.
func (a *Attachment) lookAtLink(h *host, dir string) error {
	info, err := a.link.Info()
	if err != nil {
		return fmt.Errorf("look at the pinned link: %w", err)
	}
	var on bool
	a.program, a.ProgramID, on, err = openProgram(dir, func(id ebpf.ProgramID) (bool, error) { return id == info.Program, nil })
	if err != nil {
		return err
	}
	tcx := info.TCX()
	if tcx == nil || !on || ebpf.AttachType(tcx.AttachType) != a.Direction().attachType() {
		return fmt.Errorf("%w: the pinned link is not that of the pinned program", maps.ErrLayout)
	}
	if tcx.Ifindex == 0 {
		a.State = Stale
		return nil
	}
	a.ifindex = tcx.Ifindex
	// The device may have been moved to another network namespace, where it may have another index.
	there, err := queryTCX(int(a.ifindex), a.Direction())
	switch {
	case errors.Is(err, os.ErrPermission): // it was not moved, as far as can be told
	case err != nil && !errors.Is(err, unix.ENODEV):
		return fmt.Errorf("list the TCX hook of the device with index %d: %w", a.ifindex, err)
	case slices.ContainsFunc(there, func(e tcxEntry) bool { return e.link == info.ID }):
		a.Here = true
	case a.Here:
		a.State, a.Here = Moved, false
	}
	return a.lookAtDevice(h)
}

// lookAtFilter tells the program and the state of an attachment that hangs on clsact.
func (a *Attachment) lookAtFilter(h *host, dir string) (err error) {
	var device netlink.Link
	if a.ident.ns == h.ns {
		if device, err = h.deviceAt(a.ident.ifindex); err != nil {
			return err
		}
	}
	var on bool
	a.program, a.ProgramID, on, err = openProgram(dir, func(id ebpf.ProgramID) (bool, error) {
		if device == nil {
			return false, nil
		}
		return h.hasFilter(device, a.Direction(), id)
	})
	switch {
	case err != nil:
		return err
	case a.ident.ns != h.ns:
		a.State = Unseen
		return nil
	case !on:
		a.State = Stale
		return nil
	}
	return a.lookAtDevice(h)
}

// lookAtDevice finds the name that the device has now.
func (a *Attachment) lookAtDevice(h *host) error {
	if !a.Here {
		return nil
	}
	device, err := h.deviceAt(a.ifindex)
	if err != nil || device == nil {
		return err
	}
	a.Device = device.Attrs().Name
	return nil
}

// loadProgram opens a program that is pinned in dir.
func loadProgram(dir, pin string) (*ebpf.Program, error) {
	p, err := ebpf.LoadPinnedProgram(filepath.Join(dir, pin), nil)
	if err != nil {
		return nil, fmt.Errorf("open the pinned program: %w", err)
	}
	if p.Type() != ebpf.SchedCLS {
		return nil, errors.Join(fmt.Errorf("%w: the pinned program %s", maps.ErrLayout, p), p.Close())
	}
	return p, nil
}
