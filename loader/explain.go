package loader

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Errors that a person meets; what they wrap says more.
var (
	ErrPrivilege = errors.New("not permitted") // no root, no capability
	ErrKernel    = errors.New("the kernel lacks a feature")
	ErrBPFFS     = errors.New("no bpffs to pin to") // or none to be seen from here
)

// explain tells a person why the kernel said no.
func explain(what string, err error) error {
	switch {
	case errors.Is(err, unix.EACCES): // of a file: what a capability lacks is EPERM
		return fmt.Errorf("%s: %w: %s: %w", what, ErrPrivilege, ownerAdvice, err)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("%s: %w: %s: %w", what, ErrPrivilege, advice(missing(effective())), err)
	case errors.Is(err, unix.EROFS):
		return fmt.Errorf("%s: %w: it is read-only: %s: %w", what, ErrBPFFS, remount(bpffs), err)
	case errors.Is(err, ebpf.ErrNotSupported):
		return fmt.Errorf("%s: %w: Linux %v or newer is needed: %w", what, ErrKernel, oldest, err)
	default:
		return fmt.Errorf("%s: %w", what, err)
	}
}

// explainIf is explain where there is an error.
func explainIf(what string, err error) error {
	if err == nil {
		return nil
	}
	return explain(what, err)
}

// loadError is explainLoad for this process and the running kernel.
func loadError(what string, err error) error {
	return explainLoad(what, err, effective(), parseRelease(kernelRelease()))
}

// explainLoad is explain for the program and its maps. What the verifier says to one without capabilities,
// or of an old kernel, would lead astray.
func explainLoad(what string, err error, caps uint64, running release) error {
	lacks := missing(forPrograms(caps))
	var refused *ebpf.VerifierError
	switch {
	case len(lacks) > 0:
		return fmt.Errorf("%s: %w: %s", what, ErrPrivilege, advice(lacks))
	case running.before(oldest):
		return fmt.Errorf("%s: %w: this is Linux %v, and %v or newer is needed: %w", what, ErrKernel, running, oldest, err)
	case errors.As(err, &refused):
		return fmt.Errorf("%s: %w: its verifier refuses the program, which is a fault of tricolor's: please report it with this: %w", what, ErrKernel, err)
	default:
		return explain(what, err)
	}
}

const ownerAdvice = "the pins are root's own: run it as root; another user needs CAP_DAC_OVERRIDE too"

// advice says how to get the capabilities that are missing; with none, what else may be in the way.
func advice(missing []string) string {
	if len(missing) == 0 {
		return "run it as root, and in the host's user namespace (not in a rootless container's)"
	}
	verb := " is missing"
	if len(missing) > 1 {
		verb = " are missing"
	}
	return strings.Join(missing, ", ") + verb + ": run it as root, or give it " + strings.Join(capabilityNames(), ", ")
}
