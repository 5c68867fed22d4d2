package loader

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/tricolor-policer/tricolor/bpf"
)

// release is a version of Linux. The zero one is unknown.
type release struct{ major, minor int }

// Versions that matter.
var (
	oldest        = parseRelease(bpf.MinKernel)
	withTCX       = release{6, 6}  // has TCX hooks
	withoutLocked = release{5, 11} // counts maps against no bound on locked memory
)

// String returns "6.1".
func (r release) String() string {
	if r == (release{}) {
		return "of unknown version"
	}
	return fmt.Sprintf("%d.%d", r.major, r.minor)
}

// before reports whether the version is known, and older than another.
func (r release) before(other release) bool {
	return r != release{} && (r.major < other.major || r.major == other.major && r.minor < other.minor)
}

// parseRelease reads what uname says: "6.1.0-28-amd64".
func parseRelease(s string) (r release) {
	if n, _ := fmt.Sscanf(s, "%d.%d", &r.major, &r.minor); n != 2 {
		return release{}
	}
	return r
}

// kernelRelease is what uname says.
func kernelRelease() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return ""
	}
	return unix.ByteSliceToString(name.Release[:])
}
