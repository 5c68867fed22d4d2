package loader

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// OnHook is one that hangs on a device's hook, be it a policer or anybody else's.
type OnHook struct {
	Mechanism Mechanism      // TCX or Clsact
	Kind      string         // of a tc filter: bpf, flower, …; with TCX bpf
	ProgramID ebpf.ProgramID // 0: it runs none
	// The program's with TCX, the filter's with clsact. The kernel keeps 15 bytes of a program's, and tells it
	// only those with CAP_SYS_ADMIN; empty: it has none, or it cannot be told.
	Name    string
	Policer bool // a policer of tricolor

	// With clsact only.
	Priority uint16
	Handle   uint32
	Chain    uint32 // packets start in chain 0, and come to others by a filter's action
	Protocol uint16 // EtherType; 3 is all (ETH_P_ALL)
}

// ListHook lists who is on the hook of a device of the calling thread's network namespace, by any name
// it has, in the order in which packets meet them: all of TCX, then the tc filters by chain and priority.
// Returns an error that wraps ErrNoDevice or ErrPrivilege. Requires CAP_NET_ADMIN, and CAP_SYS_ADMIN to
// tell the names of programs.
func ListHook(device string, d Direction) ([]OnHook, error) {
	h, err := openHost()
	if err != nil {
		return nil, err
	}
	defer h.close()
	dev, err := h.device(device)
	if err != nil {
		return nil, err
	}
	return h.onHook(dev, d)
}

// ListHook lists who else, besides the attachment, is on its hook, itself included; nil where its device is gone
// or in another network namespace. Errors and requirements are those of the function ListHook.
func (a *Attachment) ListHook() ([]OnHook, error) {
	if !a.Here {
		return nil, nil
	}
	h, err := openHost()
	if err != nil {
		return nil, err
	}
	defer h.close()
	dev, err := h.deviceAt(a.ifindex)
	if err != nil || dev == nil {
		return nil, err
	}
	return h.onHook(dev, a.Direction())
}

func (h *host) onHook(device netlink.Link, d Direction) ([]OnHook, error) {
	all, err := onTCX(device, d)
	if err != nil && !errors.Is(err, ErrKernel) { // without TCX nobody is on it
		return nil, err
	}
	kind, err := h.ingressQdisc(device)
	if err != nil || kind == "" || kind == "ingress" && d == Egress {
		return all, err
	}
	filters, err := h.filters(device, d)
	if err != nil {
		return nil, err
	}
	for _, f := range filters {
		if !isHead(f, filters) {
			all = append(all, onClsact(f))
		}
	}
	slices.SortStableFunc(all, func(a, b OnHook) int { return int(a.Chain) - int(b.Chain) })
	return all, nil
}

// onTCX lists the programs of the TCX hook, in their order. Returns an error that wraps ErrKernel where the
// kernel has none.
func onTCX(device netlink.Link, d Direction) (all []OnHook, err error) {
	result, err := queryTCX(device.Attrs().Index, d)
	if err != nil {
		return nil, explain(fmt.Sprintf("list the TCX hook of %s %v", device.Attrs().Name, d), err)
	}
	for _, p := range result {
		on := OnHook{Mechanism: TCX, Kind: "bpf", ProgramID: p.program}
		on.Name, on.Policer = describe(p.program)
		all = append(all, on)
	}
	return all, nil
}

// maxTCX is how many programs a TCX hook takes (BPF_MPROG_MAX).
const maxTCX = 64

// tcxEntry is one on a TCX hook.
type tcxEntry struct {
	program ebpf.ProgramID
	link    link.ID // stays the same when its program is replaced; 0: it hangs there without a link
}

// queryTCX returns who is on a TCX hook of the calling thread's network namespace.
// Returns an error that wraps ErrKernel on a kernel without TCX. The library's QueryPrograms takes any error
// for a lack of the kernel, once it was called without privilege.
func queryTCX(ifindex int, d Direction) (all []tcxEntry, err error) {
	var programs [maxTCX]ebpf.ProgramID
	var links [maxTCX]link.ID
	var pinner runtime.Pinner
	pinner.Pin(&programs)
	pinner.Pin(&links)
	defer pinner.Unpin()
	attr := struct { // of BPF_PROG_QUERY
		ifindex, attachType, flags, attachFlags uint32
		programs                                uint64
		count, _                                uint32
		programFlags, links, linkFlags          uint64
		revision                                uint64
	}{
		ifindex: uint32(ifindex), attachType: uint32(d.attachType()),
		programs: uint64(uintptr(unsafe.Pointer(&programs[0]))), links: uint64(uintptr(unsafe.Pointer(&links[0]))), count: maxTCX,
	}
	_, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_QUERY, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	switch errno {
	case 0:
		for i := range min(attr.count, maxTCX) {
			all = append(all, tcxEntry{programs[i], links[i]})
		}
		return all, nil
	case unix.EINVAL: // a hook that it does not know
		return nil, noTCX(errno)
	default:
		return nil, errno
	}
}

func onClsact(f netlink.Filter) OnHook {
	a := f.Attrs()
	on := OnHook{Mechanism: Clsact, Kind: f.Type(), Priority: a.Priority, Handle: a.Handle, Protocol: a.Protocol}
	if a.Chain != nil {
		on.Chain = *a.Chain
	}
	if b, ok := f.(*netlink.BpfFilter); ok {
		on.Name, on.ProgramID = b.Name, ebpf.ProgramID(b.Id)
		_, on.Policer = describe(on.ProgramID)
		on.Policer = on.Policer || b.Name == filterName
	}
	return on
}

// isHead reports whether what the kernel listed is not a filter, but the head of those at a priority.
func isHead(f netlink.Filter, all []netlink.Filter) bool {
	a := f.Attrs()
	if f.Type() == "u32" && a.Handle&0xfff == 0 {
		return true // or a hash table of them
	}
	return a.Handle == 0 && slices.ContainsFunc(all, func(other netlink.Filter) bool {
		return other != f && other.Attrs().Priority == a.Priority && other.Attrs().Handle != 0
	})
}

// describe tells a program's name, and whether it is a policer of tricolor. Where that is not to be told,
// for want of CAP_SYS_ADMIN or since the program is gone, it has no name.
func describe(id ebpf.ProgramID) (name string, policer bool) {
	p, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return "", false
	}
	defer p.Close()
	info, err := p.Info()
	if err != nil {
		return "", false
	}
	if info.Name != programName {
		return info.Name, false
	}
	// Others may call theirs so too, but hardly with such a map.
	ids, _ := info.MapIDs()
	return info.Name, slices.ContainsFunc(ids, func(id ebpf.MapID) bool {
		m, err := ebpf.NewMapFromID(id)
		if err != nil {
			return false
		}
		defer m.Close()
		info, err := m.Info()
		return err == nil && info.Name == scratchName
	})
}

// Names that the kernel keeps of our program, and of a map that it uses.
const (
	programName = "policer"
	scratchName = "scratch_map"
)

// String says what it is, for an error: `12 (cil_from_netdev)`, or "bpf priority 7 handle 0x1 (foreign)".
func (o OnHook) String() string {
	name := ""
	if o.Name != "" {
		name = " (" + strings.ReplaceAll(o.Name, "\n", `\n`) + ")" // of a filter it may be any text
	}
	if o.Mechanism == TCX {
		return fmt.Sprintf("%d%s", o.ProgramID, name)
	}
	return fmt.Sprintf("%s priority %d handle %#x%s", o.Kind, o.Priority, o.Handle, name)
}

// refuseSecond returns an error that wraps ErrAttached where a policer is on the hook already, though not
// under the pins of this device: its packets would be policed twice.
func (h *host) refuseSecond(device netlink.Link, d Direction) error {
	all, err := h.onHook(device, d)
	if err != nil || len(all) == 0 {
		return err
	}
	// It may have come here with its device. One that cannot be opened is a policer all the same.
	if moved, _ := h.pick(h.movedTo(device, d)); moved != nil {
		return errors.Join(moved.already(), moved.Close())
	}
	name := device.Attrs().Name
	for _, on := range all {
		if !on.Policer {
			continue
		}
		if on.Mechanism == TCX {
			return fmt.Errorf("%w: %s %v, by program %v, whose pins are not to be seen from here: another process holds it, until it ends, "+
				"or it was attached in another mount namespace; detach it there", ErrAttached, name, d, on)
		}
		return fmt.Errorf("%w: %s %v, by a tc filter (priority %d) whose pins are gone, or not to be seen from here: "+
			"detach it in the mount namespace that it was attached in, or by hand: tc filter del dev %[2]s %[3]v prio %[4]d handle %#[5]x bpf",
			ErrAttached, name, d, on.Priority, on.Handle)
	}
	return nil
}
