// Package packaging holds the tests of what is packaged.
package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// units are the services that are packaged.
var units = []string{"tricolor.service", "tricolor-exporter.service"}

// analyze returns the path of a copy of a unit whose command is there, and skips where there is no systemd-analyze.
func analyze(t *testing.T, name string) (unit string) {
	t.Helper()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skipf("needs systemd-analyze: %v", err)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	unit = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(unit, []byte(strings.ReplaceAll(string(text), "/usr/bin/tricolor", self)), 0o600); err != nil {
		t.Fatal(err)
	}
	return unit
}

// systemd finds nothing to say about the units.
func TestUnit(t *testing.T) {
	for _, name := range units {
		out, err := exec.Command("systemd-analyze", "--man=no", "verify", analyze(t, name)).CombinedOutput()
		if err != nil || len(out) > 0 {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
}

// The services have no more than they need: systemd's measure of their exposure, from 0 to 10, is 2.0 at most.
func TestUnitIsHardened(t *testing.T) {
	for _, name := range units {
		out, err := exec.Command("systemd-analyze", "security", "--offline=true", "--threshold=20", analyze(t, name)).CombinedOutput()
		if strings.Contains(string(out), "unrecognized option") {
			t.Skipf("needs a newer systemd-analyze: %s", out)
		}
		if err != nil {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
}
