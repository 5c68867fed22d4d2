package testutils

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// requireShared names the variable that turns the skipping of tests on shared data into failures,
// when 1.
const requireShared = "TRICOLOR_REQUIRE_SHARED"

// ModuleRoot returns the absolute path of the folder that holds the module's go.mod. It fails t where
// the test does not run inside the module.
func ModuleRoot(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatalf("finding the module's root: %v", err)
	}
	root, err := moduleRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// SharedDir returns the absolute path of the folder "shared" beside the checkout, which holds captures
// and vectors too large or too foreign to commit. Where it is absent it skips t with the reason; under
// TRICOLOR_REQUIRE_SHARED=1 it fails t instead.
func SharedDir(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(filepath.Dir(ModuleRoot(t)), "shared")
	settle(t, dirLack(dir), requireShared)
	return dir
}

// moduleRoot returns the nearest of dir and its parents that holds a go.mod.
func moduleRoot(dir string) (string, error) {
	for parent := dir; ; parent = filepath.Dir(parent) {
		if _, err := os.Stat(filepath.Join(parent, "go.mod")); err == nil {
			return parent, nil
		}
		if parent == filepath.Dir(parent) {
			return "", fmt.Errorf("no go.mod in %s or above it: run the test inside the module", dir)
		}
	}
}

// dirLack says why dir is no folder to read data from; empty if it is one.
func dirLack(dir string) string {
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return fmt.Sprintf("needs the data folder beside the checkout: %v", err)
	case !info.IsDir():
		return fmt.Sprintf("needs the data folder beside the checkout: %s is a file", dir)
	}
	return ""
}
