package steps

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	text := `
# a remark
allow  clsact  needs  TCX
old    clsact  test loader TestA
new    tcx     test pcaptest -short TestB TestC/d
both   all     run  tricolor version
`
	for release, want := range map[string]string{
		"6.1.0-57-cloud-amd64":         "old loader [TestA] []; both  [] [tricolor version]; allowed 1",
		"6.5.13":                       "old loader [TestA] []; both  [] [tricolor version]; allowed 1",
		"6.6.0":                        "new pcaptest [TestB TestC/d] [short]; both  [] [tricolor version]; allowed 0",
		"6.12.117+deb12-cloud-amd64\n": "new pcaptest [TestB TestC/d] [short]; both  [] [tricolor version]; allowed 0",
		"7.0.0-rc1":                    "new pcaptest [TestB TestC/d] [short]; both  [] [tricolor version]; allowed 0",
	} {
		list, err := Parse(text, release)
		if err != nil {
			t.Errorf("%s: %v", release, err)
			continue
		}
		var got strings.Builder
		for _, s := range list.Steps {
			fmt.Fprintf(&got, "%s %s %v %v; ", s.Name, s.Package, s.Tests, s.Args)
		}
		fmt.Fprintf(&got, "allowed %d", len(list.Allowed))
		if got.String() != want {
			t.Errorf("%s: %s; want %s", release, &got, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "no step is for Linux 6.1",
		"# nothing":                  "no step is for Linux 6.1",
		"a tcx test loader TestA":    "no step is for Linux 6.1",
		"allow all anything":         "no step is for Linux 6.1",
		"a all":                      "line 1",
		"\na sometimes test p TestA": "line 2 of the steps: \"sometimes\"",
		"a all try p TestA":          "neither test nor run",
		"a all test loader":          "names no test",
		"a all test loader -short":   "names no test",
		"a all test":                 "names no test",
		"a all run":                  "runs no command",
		"a all test loader Test(":    "no pattern",
		"allow all (":                "no regular expression",
	} {
		if _, err := Parse(text, "6.1.0"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %s", text, err, want)
		}
	}
	if _, err := Parse("a all run b", "unknown"); err == nil {
		t.Error("a release that is none is taken")
	}
}

// The list that is run says something for either hook.
func TestTheList(t *testing.T) {
	text, err := os.ReadFile("../steps.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, release := range []string{"6.1.0", "6.12.0"} {
		if _, err := Parse(string(text), release); err != nil {
			t.Error(err)
		}
	}
}

// What a test binary prints, and what is made of it.
func TestRun(t *testing.T) {
	const end = "echo PASS\n"
	passes := `echo '=== RUN   TestA
=== RUN   TestA/one
    a_test.go:7: something
    a_test.go:8: figures: 7 packets on 2 CPUs
=== RUN   TestA/two
--- PASS: TestA (0.10s)
    --- PASS: TestA/one (0.05s)
    --- PASS: TestA/two (0.05s)'
`
	skips := `echo '=== RUN   TestB
    b_test.go:9: needs %s
--- SKIP: TestB (0.00s)'
`
	failed := `echo '--- FAIL: TestC (0.00s)'; echo FAIL; exit 1`
	for _, c := range []struct {
		name, script, tests, kind string
		run, skipped              int
		want                      string // in the error; empty: none
	}{
		{name: "passes", script: passes + end, tests: "TestA", run: 2},
		{name: "part of it", script: passes + end, tests: "TestA/two", run: 2},
		{name: "allowed to skip", script: passes + fmt.Sprintf(skips, "TCX") + end, tests: "TestA", run: 2, skipped: 1},
		{name: "skips", script: passes + fmt.Sprintf(skips, "root") + end, tests: "TestA", run: 2, skipped: 1, want: "TestB: needs root"},
		{name: "nothing but skips", script: fmt.Sprintf(skips, "TCX") + end, tests: "TestB", skipped: 1, want: "ran no test of TestB"},
		{name: "fails", script: passes + failed, tests: "TestA", run: 3, want: "1 tests failed: TestC"},
		{name: "ends well with a failed test", script: passes + "echo '--- FAIL: TestC (0.00s)'\n", tests: "TestA", run: 3, want: "TestC"},
		{name: "ends badly with no failed test", script: passes + "exit 2", tests: "TestA", run: 2, want: "exit status 2"},
		{name: "runs nothing", script: "echo 'testing: warning: no tests to run'\n" + end, tests: "TestA", want: "ran no test of TestA"},
		{name: "runs another", script: passes + end, tests: "Test TestA", run: 2, want: "ran no test of Test"},
		{name: "crashes", script: "kill -9 $$", tests: "TestA", want: "killed"},
		{name: "hangs", script: "sleep 100", tests: "TestA", want: "did not end within"},
		{name: "command", kind: "run", script: "echo hello", run: 1},
		{name: "command fails", kind: "run", script: "echo hello; exit 3", run: 1, want: "exit status 3"},
		{name: "command is silent", kind: "run", script: "true", want: "printed nothing"},
		{name: "command is absent", kind: "run", want: "no such file"},
		{name: "no file for a command", kind: "run", script: "echo hello", tests: "none*", want: "no file matches none*"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			list := "x all test p " + c.tests
			program := "p.test"
			if c.kind == "run" {
				list, program = "x all run p.test "+c.tests, "p.test"
			}
			if c.script != "" {
				if err := os.WriteFile(filepath.Join(dir, program), []byte("#!/bin/sh\n"+c.script), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Mkdir(filepath.Join(dir, "p"), 0o755); err != nil {
				t.Fatal(err)
			}
			parsed, err := Parse(list+"\nallow all needs TCX", "6.1.0")
			if err != nil {
				t.Fatal(err)
			}
			each := time.Minute
			if c.name == "hangs" {
				each = 100 * time.Millisecond
			}
			var out bytes.Buffer
			place := Place{Bin: dir, Root: dir, Each: each, Out: &out}
			r := place.run(parsed.Steps[0], parsed.Allowed)
			if r.Run != c.run || r.Skipped != c.skipped {
				t.Errorf("%d run, %d skipped; want %d, %d", r.Run, r.Skipped, c.run, c.skipped)
			}
			if (r.Err != nil) != (c.want != "") || r.Err != nil && !strings.Contains(r.Err.Error(), c.want) {
				t.Errorf("error %v; want %q", r.Err, c.want)
			}
			if _, err := parsed.Run(place); (err != nil) != (c.want != "") {
				t.Errorf("the list's error: %v", err)
			}
			if strings.HasPrefix(c.script, passes) && !strings.Contains(out.String(), "\nvm: x: 7 packets on 2 CPUs\n") {
				t.Errorf("the figures are not printed:\n%s", &out)
			}
			if c.skipped > 0 && !strings.Contains(out.String(), "vm: x: skipped 1 (TestB): needs ") {
				t.Errorf("the reason to skip is not printed:\n%s", &out)
			}
		})
	}
}
