package loader

import (
	"os"

	"golang.org/x/sys/unix"
)

// capability is one that policing takes.
type capability struct {
	number uint
	name   string
	use    string
}

// capabilities are those that load and attach the program; without any one of them the kernel refuses.
var capabilities = []capability{
	{unix.CAP_BPF, "CAP_BPF", "makes maps and loads programs"},
	{unix.CAP_NET_ADMIN, "CAP_NET_ADMIN", "loads programs that see packets, and attaches them"},
	{unix.CAP_PERFMON, "CAP_PERFMON", "the verifier refuses the program without it"},
}

func capabilityNames() (names []string) {
	for _, c := range capabilities {
		names = append(names, c.name)
	}
	return names
}

// held reports whether the capability is among caps, by itself or as a part of CAP_SYS_ADMIN.
func (c capability) held(caps uint64) bool {
	return has(caps, c.number) || c.number != unix.CAP_NET_ADMIN && has(caps, unix.CAP_SYS_ADMIN)
}

// forPrograms adds what CAP_SYS_ADMIN stands in for where a program is loaded, or hung on TCX: for
// CAP_NET_ADMIN too, as it does not on clsact.
func forPrograms(caps uint64) uint64 {
	if has(caps, unix.CAP_SYS_ADMIN) {
		caps |= 1 << unix.CAP_NET_ADMIN
	}
	return caps
}

// missing names those capabilities that are not among caps.
func missing(caps uint64) (names []string) {
	for _, c := range capabilities {
		if !c.held(caps) {
			names = append(names, c.name)
		}
	}
	return names
}

func has(caps uint64, number uint) bool { return caps>>number&1 == 1 }

// effective returns the calling thread's effective capabilities, a bit each.
func effective() uint64 {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return 0 // it fails on no kernel that has these capabilities
	}
	return uint64(data[1].Effective)<<32 | uint64(data[0].Effective)
}

// hostUsers is the inode of the first user namespace, the same on every machine (PROC_USER_INIT_INO).
const hostUsers = "user:[4026531837]"

// foreignUsers reports whether this process is in another user namespace than the host's, as in a rootless
// container. Capabilities that it has there do not count for BPF.
func foreignUsers() bool {
	users, err := os.Readlink("/proc/self/ns/user")
	return err == nil && users != hostUsers
}
