package loader

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// gracePeriod returns when every packet that is being policed now is done: programs run in RCU read
// sections, and it waits for an RCU grace period.
func gracePeriod() error {
	const commandGlobal = 1 // MEMBARRIER_CMD_GLOBAL
	_, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, commandGlobal, 0, 0)
	switch errno {
	case 0:
		return nil
	case unix.EINVAL, unix.ENOSYS, unix.EPERM: // CPUs without a tick (nohz_full); built without; a sandbox
		return gracePeriodByMap()
	default:
		return fmt.Errorf("wait for packets under way: %w", errno)
	}
}

// gracePeriodByMap is gracePeriod where there is no membarrier: an update of a map of maps waits for all
// programs that may still use the map it replaces.
func gracePeriodByMap() (err error) {
	inner := &ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1}
	outer := &ebpf.MapSpec{Type: ebpf.ArrayOfMaps, KeySize: 4, ValueSize: 4, MaxEntries: 1, InnerMap: inner}
	maps, err := ebpf.NewMap(outer)
	if err != nil {
		return explain("wait for packets under way", err)
	}
	defer func() { err = errors.Join(err, maps.Close()) }()
	value, err := ebpf.NewMap(inner)
	if err != nil {
		return explain("wait for packets under way", err)
	}
	defer func() { err = errors.Join(err, value.Close()) }()
	return explainIf("wait for packets under way", maps.Put(uint32(0), value))
}
