// Command guest runs a list of steps (package steps) inside a virtual machine.
//
// As the machine's first process, in the initramfs that command vm makes, it mounts what tests expect, loads
// the modules in /modules in the order of their names, runs the steps of /steps, and ends the machine with a
// verdict: a line on the console, and a code for QEMU's isa-debug-exit device.
//
// In a distribution's machine it only runs the steps and ends with status 0 where all passed:
//
//	guest [-bin FOLDER] [-root FOLDER] [-each DURATION] STEPS
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tricolor-policer/tricolor/vagrant/steps"
)

func main() {
	if os.Getpid() == 1 {
		endMachine(boot())
	}
	bin := flag.String("bin", "bin/vm/tools", "folder of the command and of each package's tests, PACKAGE.test")
	root := flag.String("root", ".", "the module's root")
	each := flag.Duration("each", 5*time.Minute, "bound of each step")
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	text, err := runSteps(flag.Arg(0), *bin, *root, *each)
	if err != nil {
		fmt.Fprintln(os.Stderr, "guest:", err)
		os.Exit(1)
	}
	fmt.Println("guest:", text)
}

// runSteps runs the steps of a file that are for this kernel, and returns how many there were.
func runSteps(file, bin, root string, each time.Duration) (done string, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	list, err := steps.Parse(string(text), release())
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	if bin, err = filepath.Abs(bin); err != nil {
		return "", err
	}
	tests, err := list.Run(steps.Place{
		Bin: bin, Root: root, Each: each, Out: os.Stdout,
		Env: append(os.Environ(), "TRICOLOR_REQUIRE_KERNEL=1", "TRICOLOR_REQUIRE_SHARED=1"),
	})
	return steps.Passed(len(list.Steps), tests), err
}

// release returns the running kernel's.
func release() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return err.Error()
	}
	return unix.ByteSliceToString(name.Release[:])
}
