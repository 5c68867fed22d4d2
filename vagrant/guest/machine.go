package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tricolor-policer/tricolor/vagrant/steps"
)

// boot makes the machine ready and runs its steps. It returns the verdict for the console.
func boot() (verdict string, passed bool) {
	if err := prepare(); err != nil {
		return "FAIL: " + err.Error(), false
	}
	done, err := runSteps("/steps", "/bin", "/test/repository", eachStep())
	if err != nil {
		return "FAIL: " + err.Error(), false
	}
	return done, true
}

// eachStep returns the bound of a step, which the kernel's command line sets: tricolor.each=DURATION.
func eachStep() time.Duration {
	if each, err := time.ParseDuration(bootParameter("tricolor.each")); err == nil {
		return each
	}
	return 5 * time.Minute
}

// endMachine says the verdict, with the word that this boot was given, and ends the machine.
func endMachine(verdict string, passed bool) {
	fmt.Println(steps.Verdict(bootParameter("tricolor.word"), verdict))
	_ = unix.IoctlSetInt(1, unix.TCSBRK, 1) // until the console has said all of it
	code := steps.ExitFailed
	if passed {
		code = steps.ExitPassed
	}
	exitQEMU(uint8(code)) // returns where there is no such device
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	select {}
}

// bootParameter returns the value of a word of the kernel's command line.
func bootParameter(name string) string {
	text, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return ""
	}
	for _, word := range strings.Fields(string(text)) {
		if value, ok := strings.CutPrefix(word, name+"="); ok {
			return value
		}
	}
	return ""
}

func prepare() error {
	for _, m := range []struct{ kind, at string }{
		{"devtmpfs", "/dev"}, {"proc", "/proc"}, {"sysfs", "/sys"}, {"tmpfs", "/tmp"}, {"tmpfs", "/run"},
		{"bpf", "/sys/fs/bpf"}, {"tracefs", "/sys/kernel/tracing"}, {"cgroup2", "/sys/fs/cgroup"},
	} {
		if err := os.MkdirAll(m.at, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.kind, m.at, m.kind, 0, ""); err != nil && !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("mount %s at %s: %w", m.kind, m.at, err)
		}
	}
	for name, value := range map[string]string{
		"PATH": "/bin", "HOME": "/", "TMPDIR": "/tmp",
		"TRICOLOR_HOST_CORES": bootParameter("tricolor.cores"), // that run this machine's CPUs
	} {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	modules, err := filepath.Glob("/modules/*.ko")
	if err != nil {
		return err
	}
	for _, path := range modules {
		if err := insert(path); err != nil {
			return fmt.Errorf("load the module %s: %w", path, err)
		}
	}
	return loopback()
}

// insert loads the module at path.
func insert(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	return nil
}

// loopback brings up lo.
func loopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	r, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	r.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, r)
}
