package loader

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
)

// Direction says which packets of a device are policed.
type Direction uint8

// The directions.
const (
	Ingress Direction = iota // those that arrive
	Egress                   // those that leave
)

var directionNames = []string{"ingress", "egress"}

// String returns the direction's name.
func (d Direction) String() string {
	if int(d) < len(directionNames) {
		return directionNames[d]
	}
	return fmt.Sprintf("direction(%d)", uint8(d))
}

// ParseDirection reads a direction's name.
func ParseDirection(s string) (Direction, error) {
	for d, name := range directionNames {
		if s == name {
			return Direction(d), nil
		}
	}
	return 0, fmt.Errorf("%q is no direction: say ingress (packets that arrive) or egress (packets that leave)", s)
}

// attachType is the direction's TCX hook.
func (d Direction) attachType() ebpf.AttachType {
	if d == Egress {
		return ebpf.AttachTCXEgress
	}
	return ebpf.AttachTCXIngress
}

// parent is where the direction's filters hang on a clsact qdisc.
func (d Direction) parent() uint32 {
	if d == Egress {
		return netlink.HANDLE_MIN_EGRESS
	}
	return netlink.HANDLE_MIN_INGRESS
}

// other is the opposite direction.
func (d Direction) other() Direction { return d ^ 1 }

// Mechanism is how a program hangs on a device.
type Mechanism uint8

// The mechanisms.
const (
	Auto   Mechanism = iota // TCX where the kernel has it, else clsact
	TCX                     // a BPF link. Requires Linux 6.6
	Clsact                  // a filter of the clsact qdisc
)

var mechanismNames = []string{"auto", "tcx", "clsact"}

// String returns the mechanism's name.
func (m Mechanism) String() string {
	if int(m) < len(mechanismNames) {
		return mechanismNames[m]
	}
	return fmt.Sprintf("mechanism(%d)", uint8(m))
}

// ParseMechanism reads a mechanism's name.
func ParseMechanism(s string) (Mechanism, error) {
	for m, name := range mechanismNames {
		if s == name {
			return Mechanism(m), nil
		}
	}
	return 0, fmt.Errorf("%q is no way to attach: say auto, tcx (Linux 6.6 or newer) or clsact", s)
}

// State says whether an attachment still polices.
type State uint8

// The states.
const (
	Attached State = iota
	Stale          // no packet meets it: its device is gone, or somebody took it off the hook
	Unseen         // a clsact filter in another network namespace: to be told only from there
	Moved          // it polices, but its device was moved to another network namespace
)

// String returns the state's name.
func (s State) String() string {
	switch s {
	case Attached:
		return "attached"
	case Stale:
		return "stale"
	case Unseen:
		return "unseen"
	case Moved:
		return "moved"
	default:
		return fmt.Sprintf("state(%d)", uint8(s))
	}
}
