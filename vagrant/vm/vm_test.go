package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tricolor-policer/tricolor/vagrant/steps"
)

// A machine passes in one way only, and every other way to end is told apart.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name    string
		status  int
		verdict string
		want    error
	}{
		{"passed", 33, steps.Passed(2, 5), nil},
		{"failed", 35, "FAIL: 1 of 2 steps failed: live", errFailed},
		{"failed without a word", 35, "", errNoVerdict},
		{"passed without a word", 33, "", errNoVerdict},
		{"says that it passed, ends as failed", 35, steps.Passed(2, 5), errFailed},
		{"says that it failed, ends as passed", 33, "FAIL: 1 of 2 steps failed: live", errNoVerdict},
		{"says that it passed, and is reset", 0, steps.Passed(2, 5), errNoVerdict},
		{"QEMU fails", 1, "", errNoVerdict},
		{"QEMU is killed", -1, steps.Passed(2, 5), errNoVerdict},
	} {
		if err := judge(c.status, c.verdict); !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: %v; want %v", c.name, err, c.want)
		}
	}
}

// The last line that begins as this boot's verdict does counts, and no other's.
func TestListen(t *testing.T) {
	var reported []string
	m := machine{console: &bytes.Buffer{}, report: func(line string) { reported = append(reported, line) }}
	start := steps.Verdict("WORD", "")
	for out, want := range map[string]string{
		"": "", "vm: live: started\r\nvm: verdict WORD: PASS: 1\r\n": "PASS: 1",
		"vm: verdict : PASS: 1\n":                             "",
		"vm: verdict OTHER: PASS: 1\n":                        "",
		"noise vm: verdict WORD: PASS: 1\n":                   "",
		"vm: verdict WORD: PASS: 1\nvm: verdict WORD: FAIL\n": "FAIL",
		"vm: verdict WORD: PASS: 1":                           "", // cut short, perhaps
	} {
		if got, err := m.listen(strings.NewReader(out), start); got != want || err != nil {
			t.Errorf("%q: %q, %v; want %q", out, got, err, want)
		}
	}
	slices.Sort(reported) // consoles come in any order
	want := []string{"live: started", "verdict : PASS: 1", "verdict OTHER: PASS: 1"}
	if got := slices.DeleteFunc(reported, func(line string) bool { return strings.HasPrefix(line, "verdict WORD") }); !slices.Equal(got, want) {
		t.Errorf("reported %q", got)
	}
}

// Machines that go wrong have failed: each boots, runs a program that misbehaves, and is judged.
func TestMachinesThatGoWrong(t *testing.T) {
	t.Chdir("../..")
	kernel := someKernel(t)
	bin := t.TempDir()
	for _, name := range []string{"./vagrant/guest", "./vagrant/vm/testdata/fault"} {
		c := exec.CommandContext(t.Context(), "go", "build", "-o", bin+"/", name)
		c.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", name, err, out)
		}
	}
	for _, c := range []struct {
		name, list string
		bound      time.Duration // 0: as long as it takes
		want       error         // nil: it passes
		says       string        // in the error
	}{
		{name: "passes", list: "well all run fault well"},
		{name: "a step fails", list: "bad all run fault fail\nwell all run fault well", want: errFailed, says: "1 of 2 steps failed: bad"},
		{name: "a program is not there", list: "absent all run absent", want: errFailed, says: "1 of 1 steps failed: absent"},
		{name: "nothing to run", list: "# nothing", want: errFailed, says: "no step is for Linux"},
		{name: "hangs", list: "bad all run fault hang", bound: 15 * time.Second, want: errBound},
		{name: "kernel panics", list: "bad all run fault panic\nwell all run fault well", want: errNoVerdict, says: "QEMU's status is 0,"},
		{name: "first process crashes", list: "bad all run fault kill-init", want: errNoVerdict, says: "QEMU's status is 0,"},
		{name: "is switched off", list: "bad all run fault poweroff", want: errNoVerdict, says: "QEMU's status is 0,"},
		{name: "lies", list: "bad all run fault claim", want: errNoVerdict, says: `the verdict on the console is ""`},
	} {
		t.Run(c.name, func(t *testing.T) {
			initrd := filepath.Join(t.TempDir(), "initrd")
			if err := writeImage(initrd, bin, kernel, c.list); err != nil {
				t.Fatal(err)
			}
			bound := c.bound
			if bound == 0 {
				bound = 3 * time.Minute // for a machine under load
			}
			var console bytes.Buffer
			m := machine{
				kernel: filepath.Join(kernel, "vmlinuz"), initrd: initrd, cpus: 2, memory: 512, each: time.Minute, bound: bound,
				console: &console, report: func(string) {},
			}
			verdict, err := m.run(t.Context())
			if (err != nil) != (c.want != nil) || !errors.Is(err, c.want) || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("verdict %q, error %v; want %v, %s", verdict, err, c.want, c.says)
			}
			if c.want == nil && verdict != steps.Passed(1, 1) {
				t.Errorf("verdict %q", verdict)
			}
			if t.Failed() {
				t.Logf("console:\n%s", &console)
			}
		})
	}
}

// A machine that never comes up has failed, after several boots; each is told of.
func TestBoots(t *testing.T) {
	t.Chdir("../..")
	kernel := someKernel(t)
	initrd := filepath.Join(t.TempDir(), "initrd")
	if err := os.WriteFile(initrd, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var console bytes.Buffer
	var reported []string
	m := machine{
		kernel: filepath.Join(kernel, "vmlinuz"), initrd: initrd, cpus: 2, memory: 512, each: time.Minute, bound: 3 * time.Minute,
		console: &console, report: func(line string) { reported = append(reported, line) },
	}
	verdict, err := m.boot(t.Context())
	if !errors.Is(err, errNoVerdict) || len(reported) != boots || !strings.Contains(reported[boots-1], "did not come up") {
		t.Errorf("verdict %q, error %v, reported %q\nconsole:\n%s", verdict, err, reported, &console)
	}
}

// someKernel returns the folder of a kernel that is there, or skips the test. Under TRICOLOR_REQUIRE_VM=1 it
// fails it instead.
func someKernel(t *testing.T) string {
	t.Helper()
	if found, err := filepath.Glob(filepath.Join(work, "*", "vmlinuz")); err != nil || len(found) > 0 {
		if _, err := exec.LookPath("qemu-system-x86_64"); err == nil {
			return filepath.Dir(found[0])
		}
	}
	skip := t.Skipf
	if os.Getenv(requireVM) == "1" {
		skip = t.Fatalf
	}
	skip("needs QEMU and a kernel in %s: \"make test-vm\" fetches them; %s=1 makes this a failure", work, requireVM)
	return ""
}
