package loader

import (
	"errors"
	"fmt"
	"math"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/tricolor-policer/tricolor/maps"
)

const (
	filterName   = "tricolor"
	filterHandle = 1      // of the one filter at our priority
	filterFirst  = 0xc000 // priority of the first filter, as the kernel chooses it
	dumpTries    = 10     // how often a listing is taken again that changed meanwhile
)

// planFilter chooses the place of a clsact filter, at the wanted priority or, where that is 0, after all
// that are there, and writes it to about.
// sibling is the attachment in the other direction, or nil. addQdisc says that the device has no clsact
// qdisc yet.
func (h *host) planFilter(device netlink.Link, d Direction, sibling *Attachment, wanted uint16, about *maps.About) (addQdisc bool, err error) {
	kind, err := h.ingressQdisc(device)
	switch {
	case err != nil:
		return false, err
	case kind == "":
		addQdisc, about.OwnQdisc = true, true
	case kind == "ingress" && d == Egress:
		return false, fmt.Errorf("%s has an ingress qdisc, which has no egress side and bars clsact, which does: "+
			"take it off (tc qdisc del dev %[1]s ingress) and add clsact in its place", device.Attrs().Name)
	default:
		// Where ours in the other direction added it, the last of the two takes it off.
		about.OwnQdisc = sibling != nil && sibling.Mechanism == Clsact && sibling.State == Attached && sibling.About.OwnQdisc
	}
	filters, err := h.filters(device, d)
	if err != nil {
		return false, err
	}
	if wanted != 0 {
		for _, f := range filters {
			if f.Attrs().Priority == wanted {
				return false, fmt.Errorf("%w: on %s %v priority %d is taken: %v; say another", ErrPlace, device.Attrs().Name, d, wanted, onClsact(f))
			}
		}
		about.Handle, about.Priority = filterHandle, wanted
		return addQdisc, nil
	}
	taken := map[int]bool{}
	priority := filterFirst
	for _, f := range filters {
		taken[int(f.Attrs().Priority)] = true
		priority = max(priority, int(f.Attrs().Priority)+1)
	}
	for priority = min(priority, math.MaxUint16); taken[priority]; {
		priority-- // the very last place is taken: the next one before it
	}
	if priority == 0 {
		return false, fmt.Errorf("%s has a tc filter at every priority: no place is left", device.Attrs().Name)
	}
	about.Handle, about.Priority = filterHandle, uint16(priority)
	return addQdisc, nil
}

// addClsact adds the clsact qdisc; false if somebody else just did.
func (h *host) addClsact(device netlink.Link) (added bool, err error) {
	err = h.nl.QdiscAdd(clsact(device))
	if errors.Is(err, unix.EEXIST) {
		return false, nil
	}
	if err != nil {
		return false, explain("add a clsact qdisc to "+device.Attrs().Name, err)
	}
	return true, nil
}

// addFilter puts the program on the device, where about says. It takes nobody's place: where another
// filter has it meanwhile, it fails.
func (h *host) addFilter(device netlink.Link, d Direction, p *ebpf.Program, about maps.About) error {
	err := h.nl.FilterAdd(filter(device, d, p, about))
	if errors.Is(err, unix.EOPNOTSUPP) { // the kernel's word for that
		return fmt.Errorf("%w: the tc filters of %s %v are shared with other devices (a shared block, as tc qdisc show says), "+
			"and would police all of them as one: attach by tcx", ErrPlace, device.Attrs().Name, d)
	}
	if err != nil {
		return explain(fmt.Sprintf("add a tc filter to %s %v, priority %d", device.Attrs().Name, d, about.Priority), err)
	}
	return nil
}

// filter is the filter that runs p on the device, where about says.
func filter(device netlink.Link, d Direction, p *ebpf.Program, about maps.About) *netlink.BpfFilter {
	return &netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{
			LinkIndex: device.Attrs().Index,
			Parent:    d.parent(),
			Handle:    about.Handle,
			Priority:  about.Priority,
			Protocol:  unix.ETH_P_ALL,
		},
		Fd:           p.FD(),
		Name:         filterName,
		DirectAction: true,
	}
}

// removeFilter takes the filter that runs program id off the device, and the clsact qdisc with it where
// we added that and nobody else uses it. A filter or device that is gone is no error. half says that
// the attachment was only being made: its qdisc may stand there without its filter.
func (h *host) removeFilter(i ident, about maps.About, id ebpf.ProgramID, half bool) error {
	device, err := h.deviceAt(i.ifindex)
	if err != nil || device == nil {
		return err
	}
	kind, err := h.ingressQdisc(device)
	if err != nil {
		return err
	}
	filters, err := h.filters(device, i.direction)
	if err != nil {
		return err
	}
	mine := filterOf(filters, id)
	if about.OwnQdisc && kind == "clsact" && (mine != nil || half) {
		others, err := h.filters(device, i.direction.other())
		if err != nil {
			return err
		}
		for _, f := range filters {
			if f != netlink.Filter(mine) {
				others = append(others, f)
			}
		}
		if len(others) == 0 { // the qdisc takes the filter with it, in one step
			return explainIf("remove the clsact qdisc of "+device.Attrs().Name, h.nl.QdiscDel(clsact(device)))
		}
	}
	if mine == nil {
		return nil
	}
	return explainIf("remove the tc filter of "+device.Attrs().Name, h.nl.FilterDel(mine))
}

// hasFilter reports whether the filter that runs program id is on the device.
func (h *host) hasFilter(device netlink.Link, d Direction, id ebpf.ProgramID) (bool, error) {
	filters, err := h.filters(device, d)
	return filterOf(filters, id) != nil, err
}

// filterOf finds the filter that runs program id; nil if none does.
func filterOf(filters []netlink.Filter, id ebpf.ProgramID) *netlink.BpfFilter {
	for _, f := range filters {
		if b, ok := f.(*netlink.BpfFilter); ok && b.Handle != 0 && b.Id == int(id) {
			return b
		}
	}
	return nil
}

func clsact(device netlink.Link) *netlink.Clsact {
	return &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: device.Attrs().Index,
		Handle:    netlink.MakeHandle(0xffff, 0),
		Parent:    netlink.HANDLE_CLSACT,
	}}
}

// ingressQdisc returns the kind of the qdisc that the device's filters hang on: clsact, ingress, or none.
func (h *host) ingressQdisc(device netlink.Link) (kind string, err error) {
	qdiscs, err := whole(func() ([]netlink.Qdisc, error) { return h.nl.QdiscList(device) })
	if err != nil {
		return "", explain("list the qdiscs of "+device.Attrs().Name, err)
	}
	for _, q := range qdiscs {
		if q.Attrs().Parent == netlink.HANDLE_CLSACT {
			return q.Type(), nil
		}
	}
	return "", nil
}

// filters lists the tc filters of one direction.
func (h *host) filters(device netlink.Link, d Direction) ([]netlink.Filter, error) {
	filters, err := whole(func() ([]netlink.Filter, error) { return h.nl.FilterList(device, d.parent()) })
	if err != nil {
		return nil, explain(fmt.Sprintf("list the tc filters of %s %v", device.Attrs().Name, d), err)
	}
	return filters, nil
}

// whole takes a listing again where it changed while it was taken.
func whole[T any](list func() ([]T, error)) (all []T, err error) {
	for range dumpTries {
		all, err = list()
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return all, err
}
