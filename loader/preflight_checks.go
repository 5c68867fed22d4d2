package loader

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Files that checks read.
const (
	jitSetting  = "/proc/sys/net/core/bpf_jit_enable" // of the host's network namespace only
	kernelTypes = "/sys/kernel/btf/vmlinux"
)

// others is what to do about a check that could not be made, since another failed.
const others = "put right what fails above first"

func checkKernel(running string) Check {
	c := Check{Name: "kernel", Found: fmt.Sprintf("Linux %s; %v or newer is needed", running, oldest)}
	switch version := parseRelease(running); {
	case version == release{}:
		c.Status, c.Do = Warning, fmt.Sprintf("its version cannot be told: see that it is %v or newer", oldest)
	case version.before(oldest):
		c.Status, c.lacks = Failed, ErrKernel
		c.Do = fmt.Sprintf("boot Linux %v or newer", oldest)
	}
	return c
}

// check judges a capability by those held. foreign says that they are those of another user namespace than
// the host's.
func (c capability) check(caps uint64, foreign bool) Check {
	switch {
	case !c.held(caps) && c.held(forPrograms(caps)):
		return Check{
			Name: c.name, Status: Warning, Found: "missing: CAP_SYS_ADMIN stands in for it with TCX, not with clsact",
			Do: "for attach --hook clsact run it as root, or give it " + c.name,
		}
	case !c.held(caps):
		return Check{
			Name: c.name, Status: Failed, Found: "missing: " + c.use,
			Do: "run it as root, or give it " + c.name, lacks: ErrPrivilege,
		}
	case foreign:
		return Check{
			Name: c.name, Status: Failed, Found: "held, but in a user namespace where it does not count for BPF",
			Do: "run it on the host, not in a rootless container", lacks: ErrPrivilege,
		}
	default:
		return Check{Name: c.name, Found: "held: " + c.use}
	}
}

// checkBPFFS judges the place for pins: root, in the bpffs at dir. private says that this mount namespace is
// not the host's, mayMount that this process may mount.
func checkBPFFS(dir, root string, private, mayMount bool) Check {
	fail := func(lacks error, found, do string) Check {
		return Check{Name: "bpffs", Status: Failed, Found: found, Do: do, lacks: lacks}
	}
	mounted, err := isBPFFS(dir)
	switch {
	case err != nil:
		return fail(ErrBPFFS, "there is no "+dir, "mount the kernel's sysfs (mount -t sysfs none /sys)")
	case !mounted && private:
		return fail(ErrBPFFS, "none is mounted at "+dir+" in this mount namespace, which is not the host's",
			"ip netns exec makes such a one: use nsenter --net=/run/netns/NAME; or, where policing may end with this mount namespace: "+byHand(dir))
	case !mounted && mayMount:
		return Check{Name: "bpffs", Found: "not mounted at " + dir + " yet: attach does it"}
	case !mounted:
		return fail(ErrBPFFS, "none is mounted at "+dir, "as root: "+byHand(dir))
	}
	const write = unix.W_OK | unix.X_OK
	err = unix.Faccessat(unix.AT_FDCWD, dir, write, unix.AT_EACCESS)
	if err == nil {
		var stat unix.Stat_t
		switch err = unix.Lstat(root, &stat); {
		case errors.Is(err, unix.ENOENT):
			err = nil
		case err == nil && stat.Mode&unix.S_IFMT != unix.S_IFDIR:
			found, do := noFolder(root)
			return fail(ErrBPFFS, found, do)
		case err == nil && !ownFolder(&stat):
			return fail(ErrBPFFS, root+" is open to others", "look at the pins in it, and then: "+closeFolder(root))
		case err == nil:
			err = unix.Faccessat(unix.AT_FDCWD, root, write, unix.AT_EACCESS)
		}
	}
	switch {
	case errors.Is(err, unix.EROFS):
		return fail(ErrBPFFS, dir+" is read-only", "as root: "+remount(dir))
	case err != nil:
		return fail(ErrPrivilege, fmt.Sprintf("%s cannot be written to: %v", dir, err), "run it as root, or give it CAP_DAC_OVERRIDE")
	}
	return Check{Name: "bpffs", Found: "mounted at " + dir + ", and open to this user"}
}

// checkProgram judges the trial of the program: what loading it said.
func checkProgram(err error) Check {
	switch {
	case err == nil:
		return Check{Name: "program", Found: "the verifier takes it: loaded with its maps, and let go of"}
	case errors.Is(err, ErrPrivilege):
		return Check{Name: "program", Status: Failed, Found: "the kernel refuses it to one who lacks a capability", Do: others, lacks: ErrPrivilege}
	case errors.Is(err, fs.ErrNotExist): // of sysfs
		return Check{Name: "program", Status: Failed, Found: firstLine(err), Do: others, lacks: ErrKernel}
	default:
		return Check{
			Name: "program", Status: Failed, Found: firstLine(err),
			Do: "attach says more; on a kernel that is new enough it is a fault of tricolor's: please report it", lacks: ErrKernel,
		}
	}
}

// checkTCX judges the newer hook, which the older one can stand in for.
func checkTCX(t trial, running release) Check {
	c := Check{Name: "TCX"}
	switch {
	case t.load != nil && running.before(withTCX):
		c.Found = fmt.Sprintf("not in Linux %v: it comes with %v", running, withTCX)
	case t.load != nil:
		c.Status, c.Found, c.Do = Warning, fmt.Sprintf("not tried; Linux %v has it by its version", running), others
	case errors.Is(t.tcx, errAbsent):
		c.Found = fmt.Sprintf("not in this kernel: Linux has it from %v on; clsact does instead", withTCX)
	case t.tcx != nil:
		c.Status, c.Found = Warning, "cannot be told: "+firstLine(t.tcx)
		c.Do = "try attach --hook tcx, which says more, or --hook clsact"
	default:
		c.Found = "this kernel has it"
	}
	return c
}

// checkClsact judges the older hook: sch_ingress and cls_bpf.
func checkClsact(t trial) Check {
	const modules = "load its modules (modprobe -a sch_ingress cls_bpf), or boot a kernel that has " +
		"CONFIG_NET_SCH_INGRESS and CONFIG_NET_CLS_BPF, or one with TCX"
	c := Check{Name: "clsact"}
	switch {
	case t.load != nil:
		c.Status, c.Found, c.Do = Warning, "not tried", others
	case t.tcx == nil:
		c.Found = "not needed, and not tried: there is TCX"
	case errors.Is(t.clsact, unix.ENOENT), errors.Is(t.clsact, unix.EOPNOTSUPP):
		c.Status, c.lacks, c.Found, c.Do = Failed, ErrKernel, "missing: "+firstLine(t.clsact), modules
	case errors.Is(t.clsact, ErrPrivilege):
		c.Status, c.lacks, c.Found = Failed, ErrPrivilege, "refused to one without CAP_NET_ADMIN"
		c.Do = "run it as root, or give it CAP_NET_ADMIN"
	case t.clsact != nil:
		c.Status, c.Found = Warning, "cannot be told: "+firstLine(t.clsact)
		c.Do = "run it as root, which tries it in a network namespace of its own"
	default:
		c.Found = "this kernel has it: tried in a network namespace of its own"
	}
	return c
}

// checkJIT judges whether programs are compiled to machine code: by the setting at path, and where that is
// not there by what became of the program.
func checkJIT(path string, t trial) Check {
	const slow = "switch it on, or packets take several times as long: sysctl net.core.bpf_jit_enable=1"
	c := Check{Name: "JIT"}
	setting, err := os.ReadFile(path)
	switch value := strings.TrimSpace(string(setting)); {
	case err == nil && value == "0":
		c.Status, c.Found, c.Do = Warning, "off: the kernel interprets the program", slow
	case err == nil:
		c.Found = "on"
	case t.load != nil:
		c.Status, c.Found, c.Do = Warning, "cannot be told: "+firstLine(err), others
	case t.machineCode == 0:
		c.Status, c.Found, c.Do = Warning, "the program was not compiled to machine code", slow
	default:
		c.Found = "on: the program was compiled to machine code"
	}
	return c
}

// checkMemlock judges the bound on locked memory, which old kernels count maps against.
func checkMemlock(running release, unbounded bool) Check {
	c := Check{Name: "memlock"}
	switch {
	case !running.before(withoutLocked):
		c.Found = fmt.Sprintf("not needed: since Linux %v maps count against no bound on locked memory", withoutLocked)
	case unbounded:
		c.Found = "unbounded, or may be made so"
	default:
		c.Status, c.lacks = Failed, ErrPrivilege
		c.Found = fmt.Sprintf("bounded, and Linux before %v counts maps against it", withoutLocked)
		c.Do = "ulimit -l unlimited; in a unit of systemd LimitMEMLOCK=infinity"
	}
	return c
}

// lockedMemory reports whether this process can lock memory without bound.
func lockedMemory() bool {
	var bound unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &bound)
	return err == nil && bound.Cur == unix.RLIM_INFINITY || has(effective(), unix.CAP_SYS_RESOURCE)
}

// checkBTF tells of the kernel's own types, which the program does without: it reads no structure of the
// kernel but __sk_buff, whose layout is fixed.
func checkBTF(path string) Check {
	c := Check{Name: "BTF", Found: "the kernel's is there (not needed)"}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		c.Found = "the kernel's is not there, nor needed: the program reads no structures of the kernel's"
	} else if err != nil {
		c.Found = "the kernel's cannot be looked at, nor is it needed"
	}
	return c
}

// firstLine is an error without what a verifier has to say at length.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
