package testutils

import (
	"fmt"
	"os/exec"
	"testing"
)

// requirePrometheus names the variable that turns the skipping of tests without Prometheus into failures, when 1.
const requirePrometheus = "TRICOLOR_REQUIRE_PROMETHEUS"

// Prometheus returns the paths of the server and of promtool. Where one is missing it skips t with the reason;
// under TRICOLOR_REQUIRE_PROMETHEUS=1 it fails t instead.
func Prometheus(t testing.TB) (server, promtool string) {
	t.Helper()
	for name, path := range map[string]*string{"prometheus": &server, "promtool": &promtool} {
		found, err := exec.LookPath(name)
		if err != nil {
			settle(t, fmt.Sprintf("needs %s: %v (apt install prometheus)", name, err), requirePrometheus)
		}
		*path = found
	}
	return server, promtool
}
