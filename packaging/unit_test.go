// Package packaging holds the tests of what is packaged.
package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// analyze returns the path of a copy of the unit whose command is there, and skips where there is no systemd-analyze.
func analyze(t *testing.T) (unit string) {
	t.Helper()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skipf("needs systemd-analyze: %v", err)
	}
	text, err := os.ReadFile("tricolor.service")
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	unit = filepath.Join(t.TempDir(), "tricolor.service")
	if err := os.WriteFile(unit, []byte(strings.ReplaceAll(string(text), "/usr/bin/tricolor", self)), 0o600); err != nil {
		t.Fatal(err)
	}
	return unit
}

// systemd finds nothing to say about the unit.
func TestUnit(t *testing.T) {
	out, err := exec.Command("systemd-analyze", "--man=no", "verify", analyze(t)).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
}

// The service has no more than it needs: systemd's measure of its exposure, from 0 to 10, is 2.0 at most.
func TestUnitIsHardened(t *testing.T) {
	unit := analyze(t)
	out, err := exec.Command("systemd-analyze", "security", "--offline=true", "--threshold=20", unit).CombinedOutput()
	if strings.Contains(string(out), "unrecognized option") {
		t.Skipf("needs a newer systemd-analyze: %s", out)
	}
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
