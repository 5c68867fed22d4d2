package main

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/cilium/ebpf"

	"github.com/tricolor-policer/tricolor/loader"
)

// hook is who is on a hook, in the order in which packets meet them.
type hook struct {
	device    string
	direction loader.Direction
	all       []loader.OnHook
}

// hooksBeside lists the hooks of a device that have somebody, but no policer of ours. They are only told of,
// so what cannot be listed is left out.
func hooksBeside(device string, policed []*view) (hooks []hook) {
	for _, d := range []loader.Direction{loader.Ingress, loader.Egress} {
		all, err := loader.ListHook(device, d)
		for _, v := range policed {
			if v.Direction() == d {
				all = nil // that is shown with it
			}
		}
		if err == nil && len(all) > 0 {
			hooks = append(hooks, hook{device, d, all})
		}
	}
	return hooks
}

func (h *hook) print(w io.Writer) error {
	fmt.Fprintf(w, "%s %v: not policed\n", printable(h.device), h.direction)
	return printOnHook(w, h.all, 0)
}

// printOnHook lists who is on a hook; ours is this policer's program.
func printOnHook(w io.Writer, all []loader.OnHook, ours ebpf.ProgramID) error {
	fmt.Fprintln(w, "  on the hook, in the order that packets meet them:")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, on := range all {
		place := ""
		if on.Mechanism == loader.Clsact {
			place = fmt.Sprintf("prio %d handle %#x", on.Priority, on.Handle)
			if on.Chain != 0 {
				place = fmt.Sprintf("chain %d %s", on.Chain, place)
			}
		}
		program := ""
		if on.ProgramID != 0 {
			program = fmt.Sprintf("program %d", on.ProgramID)
		}
		name := printable(on.Name)
		switch {
		case on.ProgramID == ours && ours != 0:
			name += " (this policer)"
		case on.Policer:
			name += " (another policer of tricolor)"
		}
		fmt.Fprintf(t, "    %v\t%s\t%s\t%s\t%s\n", on.Mechanism, printable(on.Kind), place, program, name)
	}
	return t.Flush()
}

// onHookJSON is one on a hook as -o json prints it.
type onHookJSON struct {
	Hook      string `json:"hook"` // tcx, clsact
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	ProgramID uint32 `json:"program_id,omitempty"`
	Priority  uint16 `json:"priority,omitempty"`
	Handle    uint32 `json:"handle,omitempty"`
	Chain     uint32 `json:"chain,omitempty"`
	Protocol  uint16 `json:"protocol,omitempty"` // EtherType; 3: all
	Policer   bool   `json:"policer"`            // one of tricolor
	Ours      bool   `json:"ours"`               // this attachment's
}

func onHookOf(all []loader.OnHook, ours ebpf.ProgramID) []onHookJSON {
	out := []onHookJSON{}
	for _, on := range all {
		out = append(out, onHookJSON{
			Hook: on.Mechanism.String(), Kind: on.Kind, Name: on.Name, ProgramID: uint32(on.ProgramID), Priority: on.Priority,
			Handle: on.Handle, Chain: on.Chain, Protocol: on.Protocol, Policer: on.Policer,
			Ours: on.ProgramID == ours && ours != 0,
		})
	}
	return out
}

// hookJSON is a hook without a policer as -o json prints it.
type hookJSON struct {
	Device    string       `json:"device"`
	Direction string       `json:"direction"`
	OnHook    []onHookJSON `json:"on_hook"`
}

func hooksOf(hooks []hook) []hookJSON {
	out := []hookJSON{}
	for _, h := range hooks {
		out = append(out, hookJSON{h.device, h.direction.String(), onHookOf(h.all, 0)})
	}
	return out
}

// hookOf lists who is on an attachment's hook; none where that cannot be told: its device is gone or in
// another network namespace, or there is no CAP_NET_ADMIN.
func hookOf(a *loader.Attachment) ([]loader.OnHook, error) {
	all, err := a.ListHook()
	if errors.Is(err, loader.ErrPrivilege) {
		return nil, nil
	}
	return all, err
}
