package loader

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/tricolor-policer/tricolor/internal/testutils"
)

const allCaps = 1<<unix.CAP_BPF | 1<<unix.CAP_NET_ADMIN | 1<<unix.CAP_PERFMON

func TestRelease(t *testing.T) {
	for text, want := range map[string]release{
		"6.1.0-28-amd64": {6, 1}, "6.18.44": {6, 18}, "7.0-rc1": {7, 0}, "10.2": {10, 2},
		"": {}, "6": {}, "six.one": {}, ".1": {},
	} {
		if got := parseRelease(text); got != want {
			t.Errorf("%q is Linux %v, want %v", text, got, want)
		}
	}
	for _, test := range []struct {
		r, other release
		want     bool
	}{
		{release{6, 1}, release{6, 1}, false}, {release{6, 0}, release{6, 1}, true}, {release{5, 19}, release{6, 1}, true},
		{release{7, 0}, release{6, 1}, false}, {release{6, 10}, release{6, 6}, false}, {release{}, release{6, 1}, false},
	} {
		if got := test.r.before(test.other); got != test.want {
			t.Errorf("%v before %v: %t", test.r, test.other, got)
		}
	}
	if parseRelease(kernelRelease()) == (release{}) {
		t.Errorf("this kernel's version cannot be read: %q", kernelRelease())
	}
}

// Each rule, with what it judges made up.
func TestChecks(t *testing.T) {
	sysctl := func(text string) string {
		path := filepath.Join(t.TempDir(), "setting")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	nowhere := filepath.Join(t.TempDir(), "nowhere")
	refused := fmt.Errorf("load: %w", ErrPrivilege)
	bpfCap, netAdmin := capabilities[0], capabilities[1]
	for _, test := range []struct {
		what  string
		check Check
		want  Status
		lacks error
		says  string
	}{
		{"6.1", checkKernel("6.1.0-28-amd64"), OK, nil, "Linux 6.1.0-28-amd64"},
		{"5.15", checkKernel("5.15.0"), Failed, ErrKernel, "boot Linux 6.1 or newer"},
		{"no version", checkKernel("?"), Warning, nil, "cannot be told"},

		{"held", bpfCap.check(allCaps, false), OK, nil, "held"},
		{"not held", bpfCap.check(allCaps&^(1<<unix.CAP_BPF), false), Failed, ErrPrivilege, "give it CAP_BPF"},
		{"as a part", bpfCap.check(1<<unix.CAP_SYS_ADMIN, false), OK, nil, "held"},
		{"half as a part", netAdmin.check(1<<unix.CAP_SYS_ADMIN, false), Warning, nil, "not with clsact"},
		{"of another namespace", bpfCap.check(allCaps, true), Failed, ErrPrivilege, "rootless"},

		{"loads", checkProgram(nil), OK, nil, "the verifier takes it"},
		{"not permitted", checkProgram(refused), Failed, ErrPrivilege, others},
		{"no sysfs", checkProgram(fs.ErrNotExist), Failed, ErrKernel, others},
		{"refused", checkProgram(fmt.Errorf("%w: R1 !read_ok\nand more", ErrKernel)), Failed, ErrKernel, "report it"},

		{"TCX", checkTCX(trial{}, release{6, 6}), OK, nil, "has it"},
		{"no TCX", checkTCX(trial{tcx: errAbsent}, release{6, 1}), OK, nil, "6.6"},
		{"no TCX, not tried", checkTCX(trial{load: refused}, release{6, 1}), OK, nil, "6.6"},
		{"TCX, not tried", checkTCX(trial{load: refused}, release{6, 12}), Warning, nil, others},
		{"TCX, odd", checkTCX(trial{tcx: unix.EIO}, release{6, 12}), Warning, nil, "--hook clsact"},

		{"clsact not needed", checkClsact(trial{}), OK, nil, "not needed"},
		{"clsact", checkClsact(trial{tcx: errAbsent}), OK, nil, "has it"},
		{"no clsact", checkClsact(trial{tcx: errAbsent, clsact: unix.ENOENT}), Failed, ErrKernel, "modprobe -a sch_ingress cls_bpf"},
		{"clsact refused", checkClsact(trial{tcx: errAbsent, clsact: refused}), Failed, ErrPrivilege, "CAP_NET_ADMIN"},
		{"clsact not tried", checkClsact(trial{tcx: errAbsent, clsact: errUntried}), Warning, nil, "CAP_SYS_ADMIN"},
		{"nothing tried", checkClsact(trial{load: refused}), Warning, nil, others},

		{"JIT on", checkJIT(sysctl("1\n"), trial{}), OK, nil, "on"},
		{"JIT with traces", checkJIT(sysctl("2\n"), trial{}), OK, nil, "on"},
		{"JIT off", checkJIT(sysctl("0\n"), trial{machineCode: 1}), Warning, nil, "sysctl net.core.bpf_jit_enable=1"},
		{"JIT by its work", checkJIT(nowhere, trial{machineCode: 1}), OK, nil, "machine code"},
		{"no JIT by its work", checkJIT(nowhere, trial{}), Warning, nil, "sysctl"},
		{"JIT unknown", checkJIT(nowhere, trial{load: refused}), Warning, nil, others},

		{"memlock", checkMemlock(release{5, 11}, false), OK, nil, "not needed"},
		{"memlock, old", checkMemlock(release{5, 10}, false), Failed, ErrPrivilege, "ulimit -l unlimited"},
		{"memlock, old, lifted", checkMemlock(release{5, 10}, true), OK, nil, "unbounded"},

		{"BTF", checkBTF(sysctl("")), OK, nil, "not needed"},
		{"no BTF", checkBTF(nowhere), OK, nil, "nor needed"},
	} {
		c := test.check
		if c.Status != test.want || !errors.Is(c.lacks, test.lacks) || (c.lacks != nil) != (c.Status == Failed) {
			t.Errorf("%s: %v, %v; want %v, %v", test.what, c.Status, c.lacks, test.want, test.lacks)
		}
		if (c.Do == "") != (c.Status == OK) || c.Name == "" {
			t.Errorf("%s: %+v", test.what, c)
		}
		if said := c.Found + " / " + c.Do; !strings.Contains(said, test.says) || strings.Contains(said, "\n") {
			t.Errorf("%s says %q, without %q, or on two lines", test.what, said, test.says)
		}
	}
}

// The place for pins, as it can be.
func TestCheckBPFFS(t *testing.T) {
	testutils.RequireRoot(t)
	dir := t.TempDir()
	root := filepath.Join(dir, "tricolor")
	want := func(what string, private, mayMount bool, status Status, says string) {
		t.Helper()
		c := checkBPFFS(dir, root, private, mayMount)
		if c.Status != status || !strings.Contains(c.Found+" / "+c.Do, says) {
			t.Errorf("%s: %+v; want %v, %q", what, c, status, says)
		}
	}
	want("not mounted", false, true, OK, "attach does it")
	want("not mounted, and cannot be", false, false, Failed, "mount -t bpf none "+dir)
	want("hidden", true, true, Failed, "nsenter --net")
	if c := checkBPFFS(dir+"/missing", root, false, true); c.Status != Failed || !strings.Contains(c.Do, "sysfs") {
		t.Errorf("nowhere: %+v", c)
	}
	if err := mountBPFFS(dir); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(dir, 0)
	want("mounted", true, false, OK, "mounted")
	if err := os.Symlink(t.TempDir(), root); err != nil {
		t.Fatal(err)
	}
	want("a link in the place of the pins", false, false, Failed, "look at it, and then: rm "+root)
	if err := os.Remove(root); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err)
	}
	want("with pins", false, false, OK, "mounted")
	if err := os.Chmod(root, 0o777); err != nil {
		t.Fatal(err)
	}
	want("open to others", false, false, Failed, "chmod 700 "+root)
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	want("read-only", false, false, Failed, "mount -o remount,rw "+dir)
}

func TestReady(t *testing.T) {
	if err := Ready([]Check{{Name: "a"}, {Name: "b", Status: Warning}}); err != nil {
		t.Error(err)
	}
	err := Ready([]Check{{Name: "a", Status: Failed, lacks: ErrPrivilege}, {Name: "b"}, {Name: "c", Status: Failed, lacks: ErrKernel}})
	wantError(t, "two", err, ErrPrivilege, "a, c fail")
	wantError(t, "two", err, ErrKernel)
}

// Here it can be policed, and of the trial nothing is left; without TCX neither.
func TestPreflight(t *testing.T) {
	testutils.RequireRoot(t)
	if err := Ready(Preflight()); err != nil {
		t.Errorf("%v: %+v", err, Preflight())
	}
	defer func() { attachTCX = link.AttachTCX }()
	attachTCX = func(link.TCXOptions) (link.Link, error) { return nil, ebpf.ErrNotSupported }
	found := try()
	if found.load != nil || !errors.Is(found.tcx, errAbsent) || found.clsact != nil || found.machineCode == 0 {
		t.Errorf("the trial of a kernel without TCX: %+v", found)
	}
	wantNothing(t)
}

// What is said where the program does not load.
func TestExplainLoad(t *testing.T) {
	verifier := &ebpf.VerifierError{Cause: unix.EACCES, Log: []string{"R1 !read_ok"}}
	for _, test := range []struct {
		what    string
		err     error
		caps    uint64
		running release
		want    error
		says    []string
	}{
		{"no CAP_PERFMON", verifier, allCaps &^ (1 << unix.CAP_PERFMON), release{5, 10}, ErrPrivilege, []string{"CAP_PERFMON is missing: run it as root"}},
		{"no capability", unix.EPERM, 0, release{6, 1}, ErrPrivilege, []string{"CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON are missing"}},
		{"an old kernel", verifier, allCaps, release{5, 10}, ErrKernel, []string{"this is Linux 5.10, and 6.1 or newer is needed"}},
		{"the verifier", verifier, allCaps, release{6, 1}, ErrKernel, []string{"report it", "R1 !read_ok"}},
		{"another user namespace", unix.EPERM, allCaps, release{6, 1}, ErrPrivilege, []string{"rootless"}},
		{"no memory", unix.ENOMEM, allCaps, release{6, 1}, unix.ENOMEM, nil},
		{"no memory, by CAP_SYS_ADMIN", unix.ENOMEM, 1 << unix.CAP_SYS_ADMIN, release{6, 1}, unix.ENOMEM, nil},
	} {
		wantError(t, test.what, explainLoad("load", test.err, test.caps, test.running), test.want, test.says...)
	}
	wantError(t, "a pin", explain("open", unix.EACCES), ErrPrivilege, "CAP_DAC_OVERRIDE")
	wantError(t, "read-only", explain("make", unix.EROFS), ErrBPFFS, "mount -o remount,rw "+bpffs)
}
