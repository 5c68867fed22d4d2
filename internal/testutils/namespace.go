package testutils

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// namespaced marks the process that runs in namespaces of its own.
const namespaced = "TRICOLOR_TEST_NAMESPACED"

// bpffs is where BPF objects are pinned.
const bpffs = "/sys/fs/bpf"

// Namespaced runs a package's tests and ends the process with their exit code. Call it from TestMain.
// As root it runs them in a process of their own, which has its own mount and network namespace and
// a fresh bpffs at /sys/fs/bpf: what they pin and attach meets nobody else's, and is gone with that
// process, however it ends. Else it runs them right here, where those that need root skip.
//
// Not for packages with fuzz tests: their workers would not find each other.
func Namespaced(m *testing.M) {
	switch {
	case os.Getenv(namespaced) != "":
		if err := freshBPFFS(); err != nil {
			fmt.Fprintln(os.Stderr, "set up the tests' namespaces:", err)
			os.Exit(1)
		}
	case rootLack() == "":
		os.Exit(runNamespaced())
	}
	os.Exit(m.Run())
}

// runNamespaced runs this very process again, in new namespaces, and returns its exit code.
func runNamespaced() int {
	runtime.LockOSThread() // the child is killed when the thread that started it ends
	defer runtime.UnlockOSThread()
	c := exec.Command("/proc/self/exe", os.Args[1:]...)
	c.Args[0] = os.Args[0]
	c.Env = append(os.Environ(), namespaced+"=1")
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.SysProcAttr = &unix.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWNET,
		Pdeathsig:  unix.SIGKILL,
	}
	err := c.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit) && exit.Exited():
		return exit.ExitCode()
	default:
		fmt.Fprintln(os.Stderr, "run the tests in their own namespaces:", err)
		return 1
	}
}

// freshBPFFS mounts a bpffs that only this process's mount namespace sees.
func freshBPFFS() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts to this namespace: %w", err)
	}
	if err := unix.Mount("bpf", bpffs, "bpf", 0, "mode=0700"); err != nil {
		return fmt.Errorf("mount a bpffs at %s: %w", bpffs, err)
	}
	return nil
}
