package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/tricolor-policer/tricolor/internal/browsertest"
	"github.com/tricolor-policer/tricolor/internal/testutils"
)

// plotted runs a command with --plot, and is the path of what it drew.
func plotted(t *testing.T, suffix string, args ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "figure"+suffix)
	root := newRoot()
	root.SetArgs(append(args, "--plot", file))
	var stderr bytes.Buffer
	root.SetOut(io.Discard)
	root.SetErr(&stderr)
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, stderr.Bytes())
	}
	return file
}

// committed is a capture of testdata.
func committed(t *testing.T, name string) string {
	return filepath.Join(testutils.ModuleRoot(t), "testdata", "captures", name)
}

const ntpCapture = "07-cesnet-ntp-af11-ef-cs6.pcap"

var replayPlotArgs = []string{"--meter", "srtcm", "--cir", "400bit", "--cbs", "200B", "--ebs", "400B", "--per", "src", "--top", "0"}

// The page of a replay, in a browser.
func TestReplayPageDraws(t *testing.T) {
	page := browsertest.Open(t, plotted(t, ".html", append([]string{"replay", committed(t, ntpCapture)}, replayPlotArgs...)...))
	page.Drew(t, 3)
	if shot := os.Getenv("TRICOLOR_SHOTS"); shot != "" {
		if err := os.WriteFile(filepath.Join(shot, "replay.png"), page.Shot(t), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// The figure is of the bucket of which most was red, and its levels end where the bucket's do.
func TestReplayPlotLevels(t *testing.T) {
	for suffix, begin := range map[string]string{".png": "\x89PNG", ".svg": "<?xml"} {
		text, err := os.ReadFile(plotted(t, suffix, append([]string{"replay", committed(t, ntpCapture)}, replayPlotArgs...)...))
		if err != nil || !bytes.HasPrefix(text, []byte(begin)) {
			t.Errorf("%s: %.20q, %v", suffix, text, err)
		}
		if suffix == ".svg" && !bytes.Contains(text, []byte("Tokens of 192.168.0.30, of which most was red")) {
			t.Error("the figure does not name the worst bucket")
		}
	}
}
