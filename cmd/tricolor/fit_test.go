package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tricolor-policer/tricolor/internal/browsertest"
	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/policy"
)

// runs has a command run in this process, and is what it prints.
func runs(t interface {
	Helper()
	Fatalf(string, ...any)
}, args ...string,
) []byte {
	t.Helper()
	root := newRoot()
	root.SetArgs(args)
	var stdout, stderr bytes.Buffer
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	if err := root.Execute(); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, stderr.Bytes())
	}
	return stdout.Bytes()
}

// redBy is how many packets of each class are red in a replay by a policy.
func redBy(t *testing.T, file, text string) map[string]uint64 {
	t.Helper()
	if !strings.Contains(text, "flows:") { // a small table is made faster
		text = strings.Replace(text, "version: 1\n", "version: 1\nflows: 4k\n", 1)
	}
	path := filepath.Join(t.TempDir(), "fitted.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var report struct {
		Files []struct {
			Classes []struct {
				Name   string
				Colors struct{ Red struct{ Packets uint64 } }
			}
		}
	}
	if err := json.Unmarshal(runs(t, "replay", file, "-f", path, "-o", "json", "--top", "0"), &report); err != nil {
		t.Fatal(err)
	}
	red := map[string]uint64{}
	for _, c := range report.Files[0].Classes {
		red[c.Name] = c.Colors.Red.Packets
	}
	return red
}

// proveFit fits a capture, and replays it with what was found, and with one byte (or packet) less in each class.
func proveFit(t *testing.T, file string, args ...string) {
	t.Helper()
	var report fitReport
	if err := json.Unmarshal(runs(t, append([]string{"fit", file, "-o", "json"}, args...)...), &report); err != nil {
		t.Fatal(err)
	}
	if _, err := policy.Parse("fitted.yaml", []byte(report.Policy), nil); err != nil {
		t.Fatalf("the policy is refused: %v\n%s", err, report.Policy)
	}
	for class, red := range redBy(t, file, report.Policy) {
		for _, c := range report.Classes {
			if c.Class == class && c.CBS > 0 && red > 0 {
				t.Errorf("%s %v: class %s: %d red with\n%s", file, args, class, red, report.Policy)
			}
		}
	}
	for _, c := range report.Classes {
		if c.CBS < 2 {
			continue
		}
		unit := "B"
		if c.Count == "packets" {
			unit = "pkt"
		}
		name := "fit-" + c.Class + ":"
		var less []string
		for line := range strings.Lines(report.Policy) {
			if at := strings.Index(line, "cbs: "); at >= 0 && strings.Contains(line, name) {
				line = fmt.Sprintf("%scbs: %d%s }\n", line[:at], c.CBS-1, unit)
			}
			less = append(less, line)
		}
		if strings.Join(less, "") == report.Policy {
			t.Fatalf("no %q in\n%s", name, report.Policy)
		}
		if redBy(t, file, strings.Join(less, ""))[c.Class] == 0 {
			t.Errorf("%s %v: class %s: nothing is red with one %s less than\n%s", file, args, c.Class, unit, report.Policy)
		}
	}
}

var fitCases = [][]string{
	{}, {"--cir", "20kbit"}, {"--per", "flow"}, {"--per", "src"}, {"--per", "dst/16,48", "--count", "l2"},
	{"--count", "packets", "--per", "flow"}, {"--count", "l1", "--overhead", "-4", "--cir", "1234B/s"}, {"--count", "packets", "--cir", "7pps"},
}

// Real captures: nothing is red, and with one byte less something is.
func TestFitIsTheLeast(t *testing.T) {
	for _, name := range []string{ntpCapture, "10-pcapng-suite-be-test102.pcapng", "11-zeek-ipv6-http-atomic-frag.pcap", "12-pcpp-nanosec-bigendian.pcap", "zeek__linux_dlt_sll2.pcap"} {
		for _, args := range fitCases {
			proveFit(t, committed(t, name), args...)
		}
		proveFit(t, committed(t, name), "-f", filepath.Join(testutils.ModuleRoot(t), "testdata", "policies", "chains.yaml"))
	}
}

func TestFitIsTheLeastOfSharedCaptures(t *testing.T) {
	dir := filepath.Join(testutils.SharedDir(t), "pcaps")
	for _, name := range []string{"02-trex-video-call.pcap", "03-zeek-ssh-mlkem-af21-ef.pcap", "06-pcpp-ip4-fragments.pcap", "08-tcpdump-zoo-A.pcap"} {
		for _, args := range fitCases[:4] {
			proveFit(t, filepath.Join(dir, name), args...)
		}
		proveFit(t, filepath.Join(dir, name), "--per", "src", "-f", filepath.Join(testutils.ModuleRoot(t), "testdata", "policies", "chains.yaml"))
	}
}

// Drawn captures, with bursts, pauses and steps back in time.
func TestFitIsTheLeastOfDrawnCaptures(t *testing.T) {
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(r *rapid.T) {
		n++
		file := filepath.Join(dir, fmt.Sprintf("%d.pcap", n))
		if err := os.WriteFile(file, drawCapture(r), 0o600); err != nil {
			r.Fatalf("%v", err)
		}
		args := rapid.SampledFrom(fitCases).Draw(r, "args")
		proveFit(t, file, args...)
		if t.Failed() {
			r.Fatalf("see above")
		}
	})
}

// drawCapture draws a pcap of UDP packets over IPv4, without link headers, in nanoseconds.
func drawCapture(r *rapid.T) []byte {
	out := binary.LittleEndian.AppendUint32(nil, 0xa1b23c4d)
	out = append(out, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 101, 0, 0, 0)
	now := uint64(1_700_000_000_000_000_000)
	for range rapid.IntRange(1, 40).Draw(r, "n") {
		gap := rapid.OneOf(rapid.Just(uint64(0)), rapid.Uint64Range(0, 1e6), rapid.Uint64Range(0, 1e10)).Draw(r, "gap")
		if now += gap; rapid.IntRange(0, 9).Draw(r, "back") == 0 {
			now -= 2 * gap
		}
		length := rapid.IntRange(28, 1500).Draw(r, "length")
		header := make([]byte, 28)
		header[0], header[8], header[9] = 0x45, 64, 17
		binary.BigEndian.PutUint16(header[2:], uint16(length))
		header[12], header[15] = 10, byte(rapid.IntRange(1, 3).Draw(r, "source"))
		header[16], header[19] = 10, 9
		header[20], header[21], header[22], header[23] = 1, 2, 3, 4
		binary.BigEndian.PutUint16(header[24:], uint16(length-20))
		out = binary.LittleEndian.AppendUint32(out, uint32(now/1e9))
		out = binary.LittleEndian.AppendUint32(out, uint32(now%1e9))
		out = binary.LittleEndian.AppendUint32(out, 28)
		out = binary.LittleEndian.AppendUint32(out, uint32(length))
		out = append(out, header...)
	}
	return out
}

// What --loss finds loses no more in a replay, and one byte less loses more.
func TestFitLoss(t *testing.T) {
	file := committed(t, "11-zeek-ipv6-http-atomic-frag.pcap")
	for _, args := range [][]string{{"--cir", "2kbit"}, {"--cir", "2kbit", "--per", "src"}, {"--cir", "8kbit", "--loss-of", "bytes"}} {
		var report fitReport
		if err := json.Unmarshal(runs(t, append([]string{"fit", file, "-o", "json", "--loss", "20%"}, args...)...), &report); err != nil {
			t.Fatal(err)
		}
		c := report.Classes[0]
		if c.Loss == nil || c.Loss.Packets == 0 || c.CBS >= c.Chosen.Burst {
			t.Fatalf("%v: nothing is lost: %+v", args, c)
		}
		red := redBy(t, file, report.Policy)["default"]
		if red != c.Loss.Packets || c.Loss.Of == "packets" && red > c.Packets/5 {
			t.Errorf("%v: %d of %d red, said %d", args, red, c.Packets, c.Loss.Packets)
		}
		less := strings.Replace(report.Policy, fmt.Sprintf("cbs: %dB", c.CBS), fmt.Sprintf("cbs: %dB", c.CBS-1), 1)
		if more := redBy(t, file, less)["default"]; less == report.Policy || more <= red && c.Loss.Of == "packets" {
			t.Errorf("%v: one byte less has %d red, not more than %d", args, more, red)
		}
	}
}

func TestFitPageDraws(t *testing.T) {
	page := browsertest.Open(t, plotted(t, ".html", "fit", committed(t, ntpCapture), "--per", "flow", "--rtt", "40ms"))
	page.Drew(t, 1)
	if shot := os.Getenv("TRICOLOR_SHOTS"); shot != "" {
		if err := os.WriteFile(filepath.Join(shot, "fit.png"), page.Shot(t), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
