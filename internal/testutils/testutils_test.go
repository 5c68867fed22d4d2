package testutils

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// recorder stands in for the test that a rule is asked about: it notes what the rule does to it.
type recorder struct {
	testing.TB
	skipped, failed, logged string
}

func (*recorder) Helper() {}

func (r *recorder) Skipf(format string, args ...any)  { r.skipped = fmt.Sprintf(format, args...) }
func (r *recorder) Fatalf(format string, args ...any) { r.failed = fmt.Sprintf(format, args...) }
func (r *recorder) Logf(format string, args ...any)   { r.logged = fmt.Sprintf(format, args...) }

func TestSettle(t *testing.T) {
	const variable = "TRICOLOR_TEST_REQUIRE"
	for _, test := range []struct {
		name, lack, value string
		skips, fails      bool
	}{
		{name: "nothing lacks", lack: "", value: ""},
		{name: "nothing lacks, required", lack: "", value: "1"},
		{name: "lacks", lack: "no kernel", value: "", skips: true},
		{name: "lacks, not required", lack: "no kernel", value: "0", skips: true},
		{name: "lacks, required", lack: "no kernel", value: "1", fails: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv(variable, test.value)
			var r recorder
			settle(&r, test.lack, variable)
			if skips := r.skipped != ""; skips != test.skips {
				t.Errorf("skips is %t (%q), want %t", skips, r.skipped, test.skips)
			}
			if fails := r.failed != ""; fails != test.fails {
				t.Errorf("fails is %t (%q), want %t", fails, r.failed, test.fails)
			}
			if said := r.skipped + r.failed; test.lack != "" &&
				(!strings.Contains(said, test.lack) || !strings.Contains(said, variable)) {
				t.Errorf("%q names not both the reason %q and the variable %s", said, test.lack, variable)
			}
		})
	}
}

// TestLackMatchesPrivilege holds the probes against the user id: who is not root lacks root, and the
// probe of the kernel is what RequireKernel acts on.
func TestLackMatchesPrivilege(t *testing.T) {
	if lack := rootLack(); os.Geteuid() != 0 && lack == "" {
		t.Errorf("user %d lacks nothing that root has", os.Geteuid())
	}
	for _, value := range []string{"0", "1"} {
		t.Setenv(requireKernel, value)
		var r recorder
		RequireKernel(&r)
		lack := kernelLack()
		if acted := r.skipped + r.failed; (acted != "") != (lack != "") {
			t.Errorf("%s=%s: RequireKernel said %q where the kernel's lack is %q", requireKernel, value, acted, lack)
		}
		if lack != "" && (r.failed != "") != (value == "1") {
			t.Errorf("%s=%s: RequireKernel failed the test: %q", requireKernel, value, r.failed)
		}
	}
}

func TestModuleRoot(t *testing.T) {
	root := ModuleRoot(t)
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "module github.com/tricolor-policer/tricolor\n"; !strings.HasPrefix(string(text), want) {
		t.Errorf("%s/go.mod does not begin with %q", root, want)
	}

	outside := t.TempDir()
	if found, err := moduleRoot(outside); err == nil {
		t.Errorf("moduleRoot(%s) = %s, want an error", outside, found)
	} else if !strings.Contains(err.Error(), outside) {
		t.Errorf("error %q does not name %s", err, outside)
	}
}

func TestDirLack(t *testing.T) {
	dir := t.TempDir()
	if lack := dirLack(dir); lack != "" {
		t.Errorf("a folder that is there lacks: %s", lack)
	}
	absent := filepath.Join(dir, "shared")
	if lack := dirLack(absent); !strings.Contains(lack, absent) {
		t.Errorf("an absent folder: %q does not name %s", lack, absent)
	}
	if err := os.WriteFile(absent, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if lack := dirLack(absent); !strings.Contains(lack, "is a file") {
		t.Errorf("a file in its place: %q does not say so", lack)
	}
}

func TestSeed(t *testing.T) {
	t.Setenv("TRICOLOR_SEED", "0x2a")
	var r recorder
	if seed := Seed(&r); seed != 42 || r.failed != "" {
		t.Errorf("Seed = %d (%s), want 42", seed, r.failed)
	}
	if !strings.Contains(r.logged, "TRICOLOR_SEED=42") {
		t.Errorf("log %q does not say how to repeat the run", r.logged)
	}

	t.Setenv("TRICOLOR_SEED", "seven")
	r = recorder{}
	Seed(&r)
	if !strings.Contains(r.failed, "seven") {
		t.Errorf("a seed that is no number: failure %q does not name it", r.failed)
	}

	if err := os.Unsetenv("TRICOLOR_SEED"); err != nil {
		t.Fatal(err)
	}
	if a, b := Seed(&r), Seed(&r); a == b {
		t.Errorf("two random seeds are both %d", a)
	}
}
