package main

import (
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/tricolor-policer/tricolor/vagrant/steps"
)

// exitQEMU writes a code to QEMU's isa-debug-exit device, which ends QEMU with status 2 × code + 1.
func exitQEMU(code uint8) {
	runtime.LockOSThread() // the right to ports is a thread's
	if unix.Iopl(3) == nil {
		out(steps.ExitPort, code)
	}
}

// out writes a byte to an I/O port.
func out(port uint16, value uint8)
