// Command vm runs the integration tests on other kernels: Debian's 6.1 (clsact) and 6.12 (TCX), each in a
// QEMU machine of its own with nothing in it but a small first process, the tests and their data. Run it
// from the module's root, as "make test-vm" does; it needs no root and no KVM.
//
// It ends with 0 where both passed. Where QEMU, the kernels or the data folder cannot be had it says so and
// ends with 0 too, or with 1 under TRICOLOR_REQUIRE_VM=1.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/tricolor-policer/tricolor/vagrant/steps"
)

// requireVM names the variable that turns skipping into failure, when 1.
const requireVM = "TRICOLOR_REQUIRE_VM"

// work is the folder, below the module's root, of kernels, tools and logs.
const work = "bin/vm"

var series = []string{"6.1", "6.12"}

// errLack says that the machines cannot be had here.
var errLack = errors.New("no virtual machines here")

func main() {
	only := flag.String("only", strings.Join(series, ","), "the kernels' series")
	list := flag.String("steps", "vagrant/steps.txt", "the list of steps")
	cpus := flag.Int("cpus", 4, "virtual CPUs of each machine; more than the host has makes lock holders stall")
	memory := flag.Int("memory", 2048, "memory of each machine, MiB")
	each := flag.Duration("each", 3*time.Minute, "bound of each step")
	bound := flag.Duration("bound", 10*time.Minute, "bound of each machine")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	err := run(ctx, strings.Split(*only, ","), *list, machine{cpus: *cpus, memory: *memory, each: *each, bound: *bound})
	switch {
	case errors.Is(err, errLack) && os.Getenv(requireVM) != "1":
		fmt.Printf("vm: SKIPPED: %v; %s=1 makes this a failure\n", err, requireVM)
	case err != nil:
		fmt.Fprintln(os.Stderr, "vm: FAILED:", err)
		os.Exit(1)
	}
}

// run runs the list on each kernel, all at once.
func run(ctx context.Context, kernels []string, listFile string, like machine) error {
	start := time.Now()
	if err := lack(); err != nil {
		return err
	}
	list, err := os.ReadFile(listFile)
	if err != nil {
		return err
	}
	bin := filepath.Join(work, "tools")
	if err := buildTools(bin); err != nil {
		return err
	}
	fmt.Printf("vm: built, %.0f s\n", time.Since(start).Seconds())
	summary := make([]string, len(kernels))
	failed := make([]error, len(kernels))
	var machines sync.WaitGroup
	for i, kernel := range kernels {
		machines.Go(func() {
			booted := time.Now()
			verdict, err := runOn(ctx, kernel, bin, string(list), like)
			if err != nil {
				verdict, failed[i] = "FAILED: "+err.Error(), fmt.Errorf("on Linux %s: %w", kernel, err)
			}
			summary[i] = fmt.Sprintf("Linux %-5s %4.0f s  %s; console in %s", kernel, time.Since(booted).Seconds(), verdict, logOf(kernel))
		})
	}
	machines.Wait()
	fmt.Printf("\n%s\n", strings.Join(summary, "\n"))
	fmt.Printf("vm: %.0f s in all\n", time.Since(start).Seconds())
	return errors.Join(failed...)
}

func logOf(kernel string) string { return filepath.Join(work, kernel+".log") }

// runOn runs the list on one kernel.
func runOn(ctx context.Context, kernel, bin, list string, m machine) (verdict string, err error) {
	folder := filepath.Join(work, kernel)
	release, err := os.ReadFile(filepath.Join(folder, "release"))
	if err != nil {
		return "", err
	}
	parsed, err := steps.Parse(list, string(release)) // here, as a wrong list needs no machine
	if err != nil {
		return "", err
	}
	m.kernel, m.initrd = filepath.Join(folder, "vmlinuz"), filepath.Join(folder, "initrd")
	if err := writeImage(m.initrd, bin, folder, list); err != nil {
		return "", fmt.Errorf("make the machine's image: %w", err)
	}
	defer os.Remove(m.initrd)
	log, err := os.Create(logOf(kernel))
	if err != nil {
		return "", err
	}
	defer log.Close()
	m.console = log
	m.report = func(line string) { fmt.Printf("%-5s %s\n", kernel, line) }
	verdict, err = m.boot(ctx)
	if want := fmt.Sprintf("PASS: %d steps, ", len(parsed.Steps)); err == nil && !strings.HasPrefix(verdict, want) {
		err = fmt.Errorf("%w: %q, but %d steps were asked for", errNoVerdict, verdict, len(parsed.Steps))
	}
	return verdict, err
}

// lack returns errLack, with the reason, where something is missing that is not this module's. It fetches
// the kernels.
func lack() error {
	if _, err := exec.LookPath("qemu-system-x86_64"); err != nil {
		return fmt.Errorf("%w: %w (Debian: qemu-system-x86)", errLack, err)
	}
	if _, err := os.Stat("../shared"); err != nil {
		return fmt.Errorf("%w: the data folder beside the checkout: %w", errLack, err)
	}
	c := exec.Command("vagrant/kernels", work)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	if err := c.Run(); err != nil {
		return fmt.Errorf("%w: vagrant/kernels: %w", errLack, err)
	}
	return nil
}
