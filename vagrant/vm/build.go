package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The packages whose tests go into the image.
var tested = []string{"maps", "loader", "pcaptest"}

// largest is the largest file of the data folder beside the checkout that goes into the image.
const largest = 512 << 10

// buildTools builds, without cgo, what runs in the machine: the command, the first process and the tests.
func buildTools(bin string) error {
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return err
	}
	tests := []string{"test", "-c", "-ldflags", "-s -w", "-o", bin + "/"}
	for _, name := range tested {
		tests = append(tests, "./"+name)
	}
	for _, args := range [][]string{
		{"build", "-trimpath", "-ldflags", "-s -w", "-o", bin + "/", "./cmd/tricolor", "./vagrant/guest"},
		tests,
	} {
		c := exec.Command("go", args...)
		c.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	return nil
}

// writeImage writes the initramfs of a kernel: tools, modules, the steps, and the data that tests read.
func writeImage(path, bin, kernel, list string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	i := newImage(file)
	i.copy("init", filepath.Join(bin, "guest"))
	i.copyAll("bin", bin, func(name string, _ fs.FileInfo) bool { return name != "guest" })
	i.copyAll("modules", filepath.Join(kernel, "modules"), func(string, fs.FileInfo) bool { return true })
	i.add("steps", []byte(list), 0o644)
	// Tests find the module's root by its go.mod, and the shared data beside it.
	i.copyAll("test/repository", ".", func(name string, _ fs.FileInfo) bool {
		return name == "go.mod" || strings.HasPrefix(name, "examples/") || strings.Contains("/"+name, "/testdata/")
	})
	shared, err := filepath.EvalSymlinks("../shared")
	if err != nil {
		return err
	}
	i.copyAll("test/shared", shared, func(_ string, info fs.FileInfo) bool { return info.Size() <= largest })
	return i.finish()
}
