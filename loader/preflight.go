package loader

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// Status says how a check came out.
type Status uint8

// The statuses.
const (
	OK      Status = iota
	Warning        // it can police, but not as well as it could, or it cannot be told
	Failed         // it cannot police
)

var statusNames = []string{"ok", "warn", "fail"}

// String returns the status's name.
func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return fmt.Sprintf("status(%d)", uint8(s))
}

// Check is what Preflight found of one thing that policing takes.
type Check struct {
	Name   string
	Status Status
	Found  string
	Do     string // what to do about it; empty where Status is OK

	lacks error // what Failed is: ErrPrivilege, ErrKernel or ErrBPFFS
}

// Preflight looks whether this process can police the devices of this machine, and tries it: the program
// is loaded, on no device of the machine. It leaves nothing, and changes nothing.
func Preflight() []Check {
	running, caps := kernelRelease(), effective()
	version := parseRelease(running)
	checks := []Check{checkKernel(running)}
	foreign := foreignUsers()
	for _, c := range capabilities {
		checks = append(checks, c.check(caps, foreign))
	}
	t := try()
	return append(checks,
		checkBPFFS(bpffs, Root, privateMounts(), has(caps, unix.CAP_SYS_ADMIN)),
		checkProgram(t.load),
		checkTCX(t, version),
		checkClsact(t),
		checkJIT(jitSetting, t),
		checkMemlock(version, lockedMemory()),
		checkBTF(kernelTypes),
	)
}

// Ready returns nil where no check failed: devices can be policed. Else it returns an error that names
// those that did, and wraps ErrPrivilege, ErrKernel or ErrBPFFS.
func Ready(checks []Check) error {
	var failed []string
	var lacks []error
	for _, c := range checks {
		if c.Status == Failed {
			failed = append(failed, c.Name)
			lacks = append(lacks, c.lacks)
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return &notReadyError{failed, errors.Join(lacks...)}
}

// notReadyError is the verdict on checks that failed.
type notReadyError struct {
	failed []string
	error  // which kinds
}

func (e *notReadyError) Error() string {
	verb := "fails"
	if len(e.failed) > 1 {
		verb = "fail"
	}
	return fmt.Sprintf("no device can be policed: %s %s", strings.Join(e.failed, ", "), verb)
}

func (e *notReadyError) Unwrap() error { return e.error }
