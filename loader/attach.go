package loader

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"github.com/tricolor-policer/tricolor/maps"
	"github.com/tricolor-policer/tricolor/marker"
)

// Errors of a device that is policed already, or not at all.
var (
	ErrAttached    = errors.New("policed already")
	ErrNotAttached = errors.New("not policed")
)

// AttachOptions say how a policer is attached.
type AttachOptions struct {
	Direction Direction
	Mechanism Mechanism
	Place     Place        // among others on the hook
	Seeds     marker.Seeds // of the table's hash; zero: made at random
	Version   string       // of tricolor, at most 31 bytes
	Drained   bool         // every bucket starts as if it had been empty when the machine booted, not full

	fill  func(*Program) error // gives the table what it holds from the start; nil: nothing
	unmet func() error         // called where attaching fails after fill, and no packet can have met the program
}

// Attachment is a policer on a device's hook, pinned so that it outlives the command. What it says is
// as of when it was attached, listed or found. The caller closes it.
type Attachment struct {
	About     maps.About
	Maps      *maps.Maps
	Mechanism Mechanism // TCX or Clsact
	State     State
	ProgramID ebpf.ProgramID
	Device    string // its name now; where that cannot be told, its name then
	Here      bool   // its device is, or where that is gone was, in the network namespace of the caller

	ident   ident
	ifindex uint32 // of its device now; that in ident is from when it was attached
	program *ebpf.Program
	link    link.Link // nil with Clsact
	hooked  bool      // Attach put it on its hook
}

// Direction says which packets of the device are policed.
func (a *Attachment) Direction() Direction {
	if a.About.Egress {
		return Egress
	}
	return Ingress
}

// Attach polices a device of the calling thread's network namespace, by its name or an alternative one,
// from now on and after the process has ended. Either all of it is done, or nothing is left of it.
// A stale attachment of the same device gives way.
//
// Others on the hook stay, and see every packet that is let through. Returns an error that wraps
// ErrNoDevice, ErrDeviceType, ErrPlace, ErrAttached, ErrPrivilege, ErrKernel or marker.ErrPlan. Requires Linux 6.1, CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON, and a bpffs at /sys/fs/bpf:
// it is mounted where it is missing, which takes CAP_SYS_ADMIN.
func Attach(device string, plan *marker.Plan, o AttachOptions) (_ *Attachment, err error) {
	mechanism, err := o.Place.mechanism(o.Mechanism)
	if err != nil {
		return nil, err
	}
	h, err := openHost()
	if err != nil {
		return nil, err
	}
	defer h.close()
	dev, err := h.device(device)
	if err != nil {
		return nil, err
	}
	l3, err := isL3(dev)
	if err != nil {
		return nil, err
	}
	if err := needBPFFS(bpffs, privateMounts()); err != nil {
		return nil, err
	}
	unlock, err := lockRoot()
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := h.clearLeftovers(); err != nil {
		return nil, err
	}
	id := ident{h.ns, uint32(dev.Attrs().Index), o.Direction}
	if err := h.makeWay(id); err != nil {
		return nil, err
	}
	if err := h.refuseSecond(dev, o.Direction); err != nil {
		return nil, err
	}

	if o.Seeds == (marker.Seeds{}) {
		o.Seeds = randomSeeds()
	}
	p, err := Load(plan, Options{Seeds: o.Seeds, L3: l3})
	if err != nil {
		return nil, err
	}
	if err := o.start(p, plan); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	a := &Attachment{
		About: maps.About{
			Device:  dev.Attrs().Name,
			Since:   uint64(time.Now().Unix()),
			NetNS:   id.ns,
			Ifindex: id.ifindex,
			Egress:  o.Direction == Egress,
			Version: o.Version,
			Object:  objectHash(),
		},
		Maps:    p.Maps,
		Device:  dev.Attrs().Name,
		Here:    true,
		ident:   id,
		ifindex: id.ifindex,
		program: p.Program,
	}
	if err := a.attach(h, dev, mechanism, o.Place); err != nil {
		if o.unmet != nil && !a.hooked {
			err = errors.Join(err, o.unmet())
		}
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// start gives the buckets what they have before the first packet.
func (o *AttachOptions) start(p *Program, plan *marker.Plan) error {
	switch {
	case o.fill != nil:
		return o.fill(p)
	case o.Drained:
		return p.Maps.Memory(func(sets []marker.Set) error {
			plan.Drain(sets, 0)
			return nil
		})
	}
	return nil
}

// attach pins the program and its maps, puts it on the hook, and has all of it appear at once. Where it
// fails it leaves nothing.
func (a *Attachment) attach(h *host, device netlink.Link, m Mechanism, place Place) (err error) {
	if a.ProgramID, err = programID(a.program); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(Root, making) // mode 0700
	if err != nil {
		return explain("make a folder for the pins", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.unhook(h, true), os.RemoveAll(dir))
		}
	}()
	step("folder made")
	if err := a.Maps.Pin(dir); err != nil {
		return explain("pin the maps", err)
	}
	step("maps pinned")
	if err := a.program.Pin(filepath.Join(dir, pinProgram)); err != nil {
		return explain("pin the kernel program", err)
	}
	step("program pinned")
	if err := a.hook(h, device, m, place, dir); err != nil {
		return err
	}
	if err := os.Rename(dir, a.ident.dir()); err != nil {
		return fmt.Errorf("put the pins in their place: %w", err)
	}
	step("appeared")
	return nil
}

// attachTCX is another thing in a test only: a kernel without TCX.
var attachTCX = link.AttachTCX

// hook puts the program on the device, and writes down where before the first packet meets it.
func (a *Attachment) hook(h *host, device netlink.Link, m Mechanism, place Place, dir string) error {
	d := a.Direction()
	if m != Clsact {
		a.Mechanism = TCX
		if err := a.Maps.WriteAbout(a.About); err != nil {
			return err
		}
		anchor, err := place.anchor(device, d)
		if err != nil {
			return err
		}
		l, err := attachTCX(link.TCXOptions{
			Interface: int(a.ident.ifindex),
			Program:   a.program,
			Attach:    d.attachType(),
			Anchor:    anchor,
		})
		switch {
		case err == nil:
			a.link, a.hooked = l, true
			step("hooked")
			return explainIf("pin the link", l.Pin(filepath.Join(dir, pinLink)))
		case m == TCX && errors.Is(err, ebpf.ErrNotSupported):
			return noTCX(err)
		case !errors.Is(err, ebpf.ErrNotSupported):
			return explain(fmt.Sprintf("attach to the TCX hook of %s %v", a.Device, d), err)
		}
	}
	a.Mechanism = Clsact
	sibling, err := h.find(ident{h.ns, a.ident.ifindex, d.other()})
	if err != nil && !errors.Is(err, ErrNotAttached) {
		return err
	}
	addQdisc, err := h.planFilter(device, d, sibling, place.Priority, &a.About)
	if sibling != nil {
		err = errors.Join(err, sibling.Close())
	}
	if err == nil {
		err = a.Maps.WriteAbout(a.About)
	}
	if err != nil {
		return err
	}
	if addQdisc {
		added, err := h.addClsact(device)
		if err != nil {
			return err
		}
		step("qdisc added")
		if !added {
			a.About.OwnQdisc = false
			if err := a.Maps.WriteAbout(a.About); err != nil {
				return err
			}
		}
	}
	a.hooked = true
	if err := h.addFilter(device, d, a.program, a.About); err != nil {
		return err
	}
	step("hooked")
	return nil
}

// unhook takes the program off the hook. One that is not there is no error. half says that it was only
// being put there.
func (a *Attachment) unhook(h *host, half bool) error {
	switch {
	case a.link != nil:
		return explainIf("take the program off the TCX hook", a.link.Detach())
	case a.About.Priority == 0: // not that far yet
		return nil
	case a.ident.ns != h.ns:
		return fmt.Errorf("%s is in another network namespace (inode %d), and its filter can only be taken off there: "+
			"use nsenter --net=/run/netns/NAME, not ip netns exec, which hides the pins", a.Device, a.ident.ns)
	default:
		return h.removeFilter(a.ident, a.About, a.ProgramID, half)
	}
}

// makeWay checks that a device is free to be policed, and removes a stale attachment of it.
func (h *host) makeWay(id ident) error {
	old, err := h.find(id)
	switch {
	case errors.Is(err, ErrNotAttached):
		return nil
	case err != nil:
		return err
	case old.State == Stale:
		return errors.Join(removePins(id.dir()), old.Close())
	case old.State == Moved:
		err = fmt.Errorf("%w: a device that had this one's index, then called %s, was moved to another network namespace, and is policed %v there: "+
			"take that off first: tricolor detach %[2]s --direction %[3]v", ErrAttached, old.About.Device, id.direction)
		return errors.Join(err, old.Close())
	}
	return errors.Join(old.already(), old.Close())
}

// already is the error of a second attach.
func (a *Attachment) already() error {
	return fmt.Errorf("%w: %s %v, since %s, by tricolor %s; another policy: tricolor apply %[2]s --direction %[3]v -f FILE; "+
		"to take it off: tricolor detach %[2]s --direction %[3]v",
		ErrAttached, a.Device, a.Direction(), time.Unix(int64(a.About.Since), 0).Format(time.DateTime), a.About.Version)
}

// Detach takes the policer off its hook and removes its pins: nothing is left of it once the Attachment
// is closed. A stale one is removed all the same. Returns an error that wraps ErrNotAttached where that
// was done already, or ErrPrivilege. A clsact filter can be removed from within its own network
// namespace only.
func (a *Attachment) Detach() error {
	h, release, err := a.holdToTakeOff()
	if err != nil {
		return err
	}
	defer release()
	if err := a.unhook(h, false); err != nil {
		return err
	}
	step("unhooked")
	return removePins(a.ident.dir())
}

// holdToTakeOff takes the lock on all attachments, and sees that this is still pinned. release lets go of the lock
// and of the namespace.
func (a *Attachment) holdToTakeOff() (_ *host, release func(), err error) {
	h, err := openHost()
	if err != nil {
		return nil, nil, err
	}
	unlock, err := lockRoot()
	if err != nil {
		h.close()
		return nil, nil, err
	}
	release = func() {
		unlock()
		h.close()
	}
	if err = h.clearLeftovers(); err == nil {
		err = a.stillPinned()
	}
	if err != nil {
		release()
		return nil, nil, err
	}
	return h, release, nil
}

func (a *Attachment) notAttached() error {
	return fmt.Errorf("%w: %s %v was taken off meanwhile", ErrNotAttached, a.Device, a.Direction())
}

// Close lets go of the attachment, which goes on.
func (a *Attachment) Close() error {
	var errs []error
	if a.link != nil {
		errs = append(errs, a.link.Close())
	}
	if a.program != nil {
		errs = append(errs, a.program.Close())
	}
	if a.Maps != nil {
		errs = append(errs, a.Maps.Close())
	}
	return errors.Join(errs...)
}

func randomSeeds() (seeds marker.Seeds) {
	var b [8]byte
	for i := range seeds {
		_, _ = rand.Read(b[:]) // it never fails
		seeds[i] = binary.NativeEndian.Uint64(b[:])
	}
	return seeds
}
