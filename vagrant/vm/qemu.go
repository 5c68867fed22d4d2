package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tricolor-policer/tricolor/vagrant/steps"
)

// A machine is one virtual machine, from its boot to its verdict.
type machine struct {
	kernel, initrd string // files
	cpus           int
	memory         int           // MiB
	each, bound    time.Duration // of a step, and of all
	console        io.Writer     // takes all that the machine says
	report         func(line string)
}

// Errors of a machine that did not pass.
var (
	errFailed    = errors.New("the machine says that it failed")
	errNoVerdict = errors.New("the machine ended without a verdict")
	errBound     = errors.New("the machine did not end in time")
)

// boots is how often a machine is booted that never comes up.
const boots = 3

// boot is run, again where the kernel ended before the first step began, so that nothing of ours had run:
// an emulated machine may panic for reasons of its own.
func (m machine) boot(ctx context.Context) (verdict string, err error) {
	report := m.report
	for i := range boots {
		up := false
		m.report = func(line string) {
			up = true
			report(line)
		}
		verdict, err = m.run(ctx)
		if up || !errors.Is(err, errNoVerdict) {
			break
		}
		report(fmt.Sprintf("boot %d of at most %d did not come up: %v", i+1, boots, err))
	}
	return verdict, err
}

// run boots the machine once and returns its verdict, without the word that makes it this boot's. It has passed
// only where it said so twice: by QEMU's status, which no other end of QEMU gives, and by its last line.
// Returns errFailed, errNoVerdict or errBound.
func (m machine) run(ctx context.Context) (verdict string, err error) {
	ctx, cancel := context.WithTimeout(ctx, m.bound)
	defer cancel()
	word := rand.Text()
	c := exec.CommandContext(ctx, "qemu-system-x86_64", m.arguments(word)...)
	c.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	out, err := c.StdoutPipe()
	if err != nil {
		return "", err
	}
	c.Stderr = m.console
	if err := c.Start(); err != nil {
		return "", fmt.Errorf("start QEMU: %w", err)
	}
	_ = unix.Setpriority(unix.PRIO_PROCESS, c.Process.Pid, 10) // tests of this machine come first
	verdict, read := m.listen(out, steps.Verdict(word, ""))
	status := exitStatus(c.Wait())
	switch {
	case ctx.Err() != nil:
		return verdict, fmt.Errorf("%w: it was ended after %s", errBound, m.bound)
	case read != nil:
		return verdict, fmt.Errorf("read the console: %w", read)
	default:
		return verdict, judge(status, verdict)
	}
}

// judge says why a machine has not passed.
func judge(status int, verdict string) error {
	const passed, failed = 2*steps.ExitPassed + 1, 2*steps.ExitFailed + 1
	switch {
	case status == passed && strings.HasPrefix(verdict, "PASS: "):
		return nil
	case status == failed && verdict != "":
		return fmt.Errorf("%w: %s", errFailed, verdict)
	default:
		return fmt.Errorf("%w: QEMU's status is %d, where %d means passed and %d failed; the verdict on the console is %q",
			errNoVerdict, status, passed, failed, verdict)
	}
}

// listen passes on what the machine says, until it ends, and returns what follows the last line's start.
func (m machine) listen(out io.Reader, start string) (verdict string, err error) {
	lines := bufio.NewReader(out)
	for {
		text, err := lines.ReadString('\n')
		if _, failed := io.WriteString(m.console, text); failed != nil {
			return verdict, failed
		}
		line := strings.TrimRight(text, "\r\n")
		if rest, ok := strings.CutPrefix(line, start); ok && text != line {
			verdict = rest
		} else if strings.HasPrefix(line, steps.Mark) {
			m.report(strings.TrimPrefix(line, steps.Mark))
		}
		if err == io.EOF {
			return verdict, nil
		}
		if err != nil {
			return verdict, err
		}
	}
}

func (m machine) arguments(word string) []string {
	// Emulated CPUs take turns: in threads of their own they may meet code that the kernel patches half done,
	// and panic; with two machines at once threads gain nothing; and a CPU that waits stalls all the more.
	accel, cpu, cores := "tcg,thread=single", "max", 1
	if hasKVM() {
		accel, cpu, cores = "kvm", "host", runtime.NumCPU()
	}
	return []string{
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-M", "q35", "-accel", accel, "-cpu", cpu, "-smp", fmt.Sprint(m.cpus), "-m", fmt.Sprint(m.memory),
		"-device", fmt.Sprintf("isa-debug-exit,iobase=%#x,iosize=0x04", steps.ExitPort),
		"-kernel", m.kernel, "-initrd", m.initrd, "-serial", "stdio",
		"-append", fmt.Sprintf("console=ttyS0 panic=-1 oops=panic loglevel=2 sysctl.net.core.bpf_jit_enable=1 tricolor.each=%s tricolor.cores=%d tricolor.word=%s", m.each, cores, word),
	}
}

// hasKVM reports whether KVM is usable: /dev/kvm being there proves nothing.
func hasKVM() bool {
	cpus, err := os.ReadFile("/proc/cpuinfo")
	return err == nil && regexp.MustCompile(`\b(vmx|svm)\b`).Match(cpus) && unix.Access("/dev/kvm", unix.W_OK) == nil
}

// exitStatus returns a process's status, or -1 where a signal ended it or it never ran.
func exitStatus(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	default:
		return -1
	}
}
