package loader

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"github.com/tricolor-policer/tricolor/maps"
	"github.com/tricolor-policer/tricolor/marker"
)

// Held is a policer on a device's hook that is not pinned: no other command finds it. The caller
// closes it.
type Held struct {
	Maps      *maps.Maps
	Mechanism Mechanism // TCX or Clsact
	ProgramID ebpf.ProgramID

	attachment *Attachment
	host       *host
}

// Hold polices a device of the calling thread's network namespace until Close. With TCX the end of the
// process, however it comes, ends it too; a clsact filter stays as long as the device does. An
// attachment of the same device is neither looked for nor hindered: both would police. Of o, Version is
// not used.
//
// Returns an error that wraps ErrNoDevice, ErrDeviceType, ErrPrivilege, ErrKernel or marker.ErrPlan.
// Requires Linux 6.1, CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON, and no bpffs.
func Hold(device string, plan *marker.Plan, o AttachOptions) (_ *Held, err error) {
	h, err := openHost()
	if err != nil {
		return nil, err
	}
	defer runtime.UnlockOSThread() // h is kept: its netlink socket stays in the namespace
	held := &Held{host: h, attachment: &Attachment{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, held.Close())
		}
	}()
	dev, err := h.device(device)
	if err != nil {
		return nil, err
	}
	l3, err := isL3(dev)
	if err != nil {
		return nil, err
	}
	if o.Seeds == (marker.Seeds{}) {
		o.Seeds = randomSeeds()
	}
	p, err := Load(plan, Options{Seeds: o.Seeds, L3: l3})
	if err != nil {
		return nil, err
	}
	a := held.attachment
	a.Maps, a.program = p.Maps, p.Program
	a.Device = dev.Attrs().Name
	a.About.Egress = o.Direction == Egress
	a.ident = ident{h.ns, uint32(dev.Attrs().Index), o.Direction}
	if a.ProgramID, err = programID(a.program); err != nil {
		return nil, err
	}
	if err := a.hold(h, dev, o.Mechanism); err != nil {
		return nil, err
	}
	held.Maps, held.Mechanism, held.ProgramID = a.Maps, a.Mechanism, a.ProgramID
	return held, nil
}

// hold puts the program on the device, as hook does, and pins nothing.
func (a *Attachment) hold(h *host, device netlink.Link, m Mechanism) error {
	d := a.Direction()
	if m != Clsact {
		a.Mechanism = TCX
		l, err := link.AttachTCX(link.TCXOptions{
			Interface: int(a.ident.ifindex),
			Program:   a.program,
			Attach:    d.attachType(),
			Anchor:    link.Tail(),
		})
		if err == nil {
			a.link = l
			return nil
		}
		if m == TCX || !errors.Is(err, ebpf.ErrNotSupported) {
			return explain(fmt.Sprintf("attach to the TCX hook of %s %v", a.Device, d), err)
		}
	}
	a.Mechanism = Clsact
	addQdisc, err := h.planFilter(device, d, nil, 0, &a.About)
	if err != nil {
		return err
	}
	if addQdisc {
		if a.About.OwnQdisc, err = h.addClsact(device); err != nil {
			return err
		}
	}
	return h.addFilter(device, d, a.program, a.About)
}

// Close takes the policer off the hook and lets go of its maps: nothing is left of it. It may be called
// in any network namespace, and after the device is gone.
func (h *Held) Close() error {
	err := errors.Join(h.attachment.unhook(h.host, true), h.attachment.Close())
	h.host.nl.Close()
	return err
}
