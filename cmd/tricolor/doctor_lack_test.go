package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/tricolor-policer/tricolor/bpf"
	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/loader"
)

// lackVariable names what a command is to do without, with commas.
const lackVariable = "TRICOLOR_TEST_LACK"

// lacks take something away from this process, which is root, in a mount namespace of its own.
var lacks = map[string]func() error{
	"cap_bpf":             func() error { return dropCaps(unix.CAP_BPF, unix.CAP_SYS_ADMIN) },
	"cap_perfmon":         func() error { return dropCaps(unix.CAP_PERFMON, unix.CAP_SYS_ADMIN) },
	"cap_net_admin":       func() error { return dropCaps(unix.CAP_NET_ADMIN, unix.CAP_SYS_ADMIN) },
	"cap_net_admin_alone": func() error { return dropCaps(unix.CAP_NET_ADMIN) },
	"cap_all": func() error {
		for n := range uintptr(unix.CAP_LAST_CAP + 1) {
			if err := dropCaps(n); err != nil {
				return err
			}
		}
		return nil
	},
	"bpffs": func() error { return cover("/sys/fs/bpf") },
	"bpffs_write": func() error {
		return unix.Mount("", "/sys/fs/bpf", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")
	},
	"sysfs": func() error { return cover("/sys") },
	"btf":   func() error { return cover("/sys/kernel/btf") },
	"jit": func() error {
		const settings = "/proc/sys/net/core" // of this network namespace, which has no such setting
		if err := cover(settings); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(settings, "bpf_jit_enable"), []byte("0\n"), 0o600)
	},
	"memlock": func() error {
		return errors.Join(unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{}), dropCaps(unix.CAP_SYS_RESOURCE))
	},
}

// lack takes away what the environment says, and becomes the command anew.
func lack() {
	names := os.Getenv(lackVariable)
	if names == "" {
		return
	}
	err := func() error {
		runtime.LockOSThread() // it is this thread that becomes the command
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return err
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return err
		}
		self, err := os.Executable()
		if err != nil {
			return err
		}
		for _, name := range strings.Split(names, ",") {
			if err := lacks[name](); err != nil {
				return fmt.Errorf("take away %s: %w", name, err)
			}
		}
		return unix.Exec(self, os.Args, environment())
	}()
	fmt.Fprintln(os.Stderr, "set up the test:", err)
	os.Exit(99)
}

// environment is this process's, without what tests have put there.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "TRICOLOR_TEST_") })
}

// dropCaps keeps what this thread executes next from having capabilities.
func dropCaps(numbers ...uintptr) error {
	for _, n := range numbers {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, n, 0, 0, 0); err != nil {
			return err
		}
	}
	return nil
}

// cover hides what is in a folder.
func cover(dir string) error { return unix.Mount("none", dir, "tmpfs", 0, "") }

// outcome is what a command did.
type outcome struct {
	code           int
	stdout, stderr string
}

// command runs tricolor as root that lacks some things.
func command(tb testing.TB, lacks string, args ...string) outcome {
	tb.Helper()
	return runChild(tb, &syscall.SysProcAttr{}, append(environment(), lackVariable+"="+lacks), args)
}

// asNobody runs tricolor as a user who has nothing but capabilities.
func asNobody(tb testing.TB, caps []uintptr, args ...string) outcome {
	tb.Helper()
	const nobody = 65534
	return runChild(tb, &syscall.SysProcAttr{
		Credential:  &syscall.Credential{Uid: nobody, Gid: nobody},
		AmbientCaps: caps,
	}, environment(), args)
}

func runChild(tb testing.TB, attr *syscall.SysProcAttr, env, args []string) outcome {
	tb.Helper()
	var stdout, stderr bytes.Buffer
	c := exec.CommandContext(tb.Context(), "/proc/self/exe", args...)
	c.Args[0] = "tricolor"
	c.Dir, c.Env, c.SysProcAttr, c.Stdout, c.Stderr = "/", env, attr, &stdout, &stderr
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		tb.Fatal(err)
	}
	return outcome{c.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// objects are maps, programs and links of the kernel, such as "map 12".
type objects map[string]bool

// ourObjects are those of the whole machine that have names as tricolor's have; links have none.
func ourObjects(tb testing.TB) objects {
	tb.Helper()
	spec, err := bpf.LoadPolicer()
	if err != nil {
		tb.Fatal(err)
	}
	all := objects{}
	for id := ebpf.MapID(0); ; {
		if id, err = ebpf.MapGetNextID(id); err != nil {
			break
		}
		m, err := ebpf.NewMapFromID(id)
		if err != nil {
			continue // it is gone
		}
		info, err := m.Info()
		if err == nil && (spec.Maps[info.Name] != nil || strings.HasSuffix(info.Name, ".rodata")) {
			all[fmt.Sprint("map ", id)] = true
		}
		m.Close()
	}
	for id := ebpf.ProgramID(0); ; {
		if id, err = ebpf.ProgramGetNextID(id); err != nil {
			break
		}
		p, err := ebpf.NewProgramFromID(id)
		if err != nil {
			continue
		}
		info, err := p.Info()
		if err == nil && spec.Programs[info.Name] != nil {
			all[fmt.Sprint("prog ", id)] = true
		}
		p.Close()
	}
	links := new(link.Iterator)
	defer links.Close()
	for links.Next() {
		all[fmt.Sprint("link ", links.ID)] = true
	}
	return all
}

// heldObjects are those that a process has open: they are that process's.
func heldObjects(tb testing.TB) objects {
	tb.Helper()
	held := objects{}
	files, err := filepath.Glob("/proc/[0-9]*/fdinfo/*")
	if err != nil {
		tb.Fatal(err)
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			continue // it was closed
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			kind, id, _ := strings.Cut(lines.Text(), "_id:")
			if n, err := strconv.Atoi(strings.TrimSpace(id)); err == nil {
				held[fmt.Sprint(kind, " ", n)] = true
			}
		}
		f.Close()
	}
	return held
}

// left lists objects that are newer than before and that nobody has open. The kernel frees some only
// after a moment, and others may use tricolor on this machine at the same time: it waits.
func left(tb testing.TB, before objects, patience time.Duration) []string {
	tb.Helper()
	suspects := ourObjects(tb)
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		now, held := ourObjects(tb), heldObjects(tb)
		var left []string
		for o := range suspects {
			if now[o] && !before[o] && !held[o] {
				left = append(left, o)
			}
		}
		if len(left) == 0 || time.Now().After(deadline) {
			slices.Sort(left)
			return left
		}
	}
}

// wantNothingLeft checks that a command that had loopback's ingress to police left nothing at all.
func wantNothingLeft(tb testing.TB, before objects) {
	tb.Helper()
	if pins, err := os.ReadDir(loader.Root); !errors.Is(err, fs.ErrNotExist) {
		tb.Errorf("%s is left, with %v (%v)", loader.Root, pins, err)
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		tb.Fatal(err)
	}
	qdiscs, err := netlink.QdiscList(lo)
	if err != nil {
		tb.Fatal(err)
	}
	for _, q := range qdiscs {
		if q.Attrs().Parent == netlink.HANDLE_CLSACT {
			tb.Errorf("a qdisc is left: %v", q)
		}
	}
	if !testutils.KernelBefore(tb, 6, 6) {
		on, err := link.QueryPrograms(link.QueryOptions{Target: lo.Attrs().Index, Attach: ebpf.AttachTCXIngress})
		if err != nil || len(on.Programs) > 0 {
			tb.Errorf("programs are left on the hook: %v, %v", on, err)
		}
	}
	if left := left(tb, before, time.Minute); len(left) > 0 {
		tb.Errorf("left in the kernel: %v", left)
	}
}
