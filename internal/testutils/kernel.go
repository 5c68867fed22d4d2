// Package testutils holds what the tests of several packages share: what a test does where the
// machine lacks something, where test data lies, and the seeds of random tests.
package testutils

import (
	"fmt"
	"os"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"
)

// requireKernel names the variable that turns the skipping of kernel tests into failures, when 1.
const requireKernel = "TRICOLOR_REQUIRE_KERNEL"

// RequireKernel skips t, with the reason, where BPF programs of the TC type cannot be loaded: without
// CAP_BPF and CAP_NET_ADMIN, or on a kernel that does not take them. Under TRICOLOR_REQUIRE_KERNEL=1
// it fails t instead. It lifts the process's memory lock bound, which kernels before 5.11 count maps
// against.
func RequireKernel(t testing.TB) {
	t.Helper()
	settle(t, kernelLack(), requireKernel)
}

// RequireRoot is RequireKernel for tests that also make network namespaces and devices or mount
// bpffs, and so need to be root with CAP_SYS_ADMIN.
func RequireRoot(t testing.TB) {
	t.Helper()
	lack := rootLack()
	if lack == "" {
		lack = kernelLack()
	}
	settle(t, lack, requireKernel)
}

// KernelBefore reports whether the running kernel is older than Linux major.minor.
func KernelBefore(t testing.TB, major, minor uint32) bool {
	t.Helper()
	code, err := features.LinuxVersionCode()
	if err != nil {
		t.Fatalf("read the kernel's version: %v", err)
	}
	return code < major<<16|minor<<8
}

// RequireTCX skips t where the kernel is too old for TCX hooks. Not even TRICOLOR_REQUIRE_KERNEL=1 makes
// this a failure: such a kernel is one to test on, and has another hook.
func RequireTCX(t testing.TB) {
	t.Helper()
	if KernelBefore(t, 6, 6) {
		t.Skip("needs TCX, which Linux has from 6.6 on")
	}
}

// settle lets t go on where nothing is lacking. Else it skips t with the reason, or fails it where
// the environment variable named by require is 1.
func settle(t testing.TB, lack, require string) {
	t.Helper()
	switch {
	case lack == "":
	case os.Getenv(require) == "1":
		t.Fatalf("%s; %s=1 forbids skipping", lack, require)
	default:
		t.Skipf("%s; %s=1 makes this a failure", lack, require)
	}
}

// kernelLack says why this process cannot load a TC program, by trying to; empty if it can.
func kernelLack() string {
	err := rlimit.RemoveMemlock()
	if err == nil {
		err = features.HaveProgramType(ebpf.SchedCLS)
	}
	if err != nil {
		return fmt.Sprintf("needs to load BPF TC programs (run as root, or with CAP_BPF and CAP_NET_ADMIN): %v", err)
	}
	return ""
}

// rootLack says why this process may not make namespaces and mounts; empty if it may.
func rootLack() string {
	if uid := os.Geteuid(); uid != 0 {
		return fmt.Sprintf("needs root to make network namespaces; the user id is %d", uid)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return fmt.Sprintf("needs CAP_SYS_ADMIN, and reading the capabilities failed: %v", err)
	}
	if data[0].Effective&(1<<unix.CAP_SYS_ADMIN) == 0 {
		return "needs CAP_SYS_ADMIN to make network namespaces; this root lacks it"
	}
	return ""
}
