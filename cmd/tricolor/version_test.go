package main

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/tricolor-policer/tricolor/bpf"
	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/maps"
)

// What "make build" makes runs without an interpreter or a library, and says what it is.
func TestBuild(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "tricolor")
	cmd := exec.Command("make", "--no-print-directory", "-C", testutils.ModuleRoot(t), "build",
		"BINARY="+binary, "VERSION=1.2.3~rc4", "COMMIT=0123abc")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make build: %v\n%s", err, out)
	}

	file, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("not static: it has a %v segment", p.Type)
		}
	}

	out, err := exec.Command(binary, "version", "-o", "json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var got build
	d := json.NewDecoder(bytes.NewReader(out))
	d.DisallowUnknownFields()
	if err := d.Decode(&got); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	want := thisBuild()
	want.Version, want.Commit = "1.2.3~rc4", "0123abc"
	if got != want {
		t.Errorf("tricolor version -o json gives\n%+v; want\n%+v", got, want)
	}
	if got.Object.Layout != maps.LayoutVersion || got.Object.MinKernel != bpf.MinKernel ||
		!regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(got.Object.SHA256) {
		t.Errorf("a kernel program that is none of this build's: %+v", got.Object)
	}
}

// Without a linker's word the version and commit are unknown or Go's; they are never empty.
func TestVersionUnset(t *testing.T) {
	if versionText() == "" || commitText() == "" {
		t.Errorf("version %q, commit %q; want words", versionText(), commitText())
	}
}
