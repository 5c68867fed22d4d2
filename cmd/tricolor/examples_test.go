package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/spf13/cobra"
	"github.com/vishvananda/netlink"

	"github.com/tricolor-policer/tricolor/internal/testutils"
)

// walked calls visit for a command and all below it.
func walked(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, sub := range cmd.Commands() {
		walked(sub, visit)
	}
}

// Every command's help has an example of it, and every example does what it should, as it is typed.
func TestExamples(t *testing.T) {
	walked(newRoot(), func(cmd *cobra.Command) {
		t.Run(strings.ReplaceAll(cmd.CommandPath(), " ", "-"), func(t *testing.T) {
			own := false
			for line := range strings.Lines(cmd.Example) {
				line = strings.TrimSpace(line)
				own = own || strings.HasPrefix(strings.TrimPrefix(line, "sudo "), cmd.CommandPath())
				t.Run(line, func(t *testing.T) { runExample(t, line) })
			}
			if !own {
				t.Errorf("%q has no example of itself in its help", cmd.CommandPath())
			}
		})
	})
}

// exampleFiles are what examples find in their folder: each of these, and the captures of captureNames.
var exampleFiles = map[string]string{
	"policy.yaml":        examplePolicy,
	"old.yaml":           examplePolicy,
	"new.yaml":           strings.Replace(examplePolicy, "cir: 10mbit", "cir: 20mbit", 1),
	"policies/eth0.yaml": examplePolicy,
}

const examplePolicy = `version: 1
flows: 64
profiles: { bronze: { meter: srtcm, cir: 10mbit, cbs: 96KiB, ebs: 192KiB } }
classes:
  - { name: customers, meters: [ { profile: bronze, per: src } ] }
`

var captureNames = []string{"video.pcap", "monday.pcap", "tuesday.pcap"}

// prepared are the commands that come before an example, by how it begins: the most specific one holds. What an
// example needs, and no other command makes, is in exampleFiles.
var prepared = []struct{ start, before string }{
	{"sudo tricolor attach", ""},
	{"sudo tricolor run", ""},
	{"sudo tricolor confirm", attachEth0 + " && tricolor apply eth0 -f new.yaml --confirm 60s"},
	{"sudo tricolor restore", attachEth0 + " && tricolor save eth0 --to eth0.save"},
	{"tricolor certify decisions.rec", attachEth0 + " && tricolor record eth0 -w decisions.rec --for 100ms"},
	{"sudo ", attachEth0},
}

const attachEth0 = "tricolor attach eth0 -f policy.yaml"

// differs are the examples whose exit code tells something.
var differs = map[string]int{"sudo tricolor diff eth0 --direction ingress -f new.yaml": 1}

// endless are the examples that ^C ends, and what they say once they are at work.
var endless = map[string]string{
	"sudo tricolor record eth0 -w decisions.rec --for 10s":           "recording eth0 ingress",
	"sudo tricolor monitor eth0 --only yellow,red --for 10s -o json": "watching eth0 ingress",
	"sudo tricolor monitor eth0":                                     "watching eth0 ingress",
	"sudo tricolor exporter --web.listen-address 127.0.0.1:24115":    "Listening on",
	"sudo tricolor run --config policies --save-dir saved":           "msg=policed",
	"sudo tricolor top eth0":                                         "", // on a screen
}

// runExample runs a line in a folder of its own, with eth0, and policed where it must be.
func runExample(t *testing.T, line string) {
	before := ""
	for _, p := range prepared {
		if strings.HasPrefix(line, p.start) {
			before = p.before
			break
		}
	}
	if before != "" || strings.HasPrefix(line, "sudo ") {
		testutils.RequireRoot(t)
		makeEth0(t)
	}
	exampleFolder(t)
	if strings.Contains(line, " --before ") {
		testutils.RequireTCX(t)
		attachForeign(t, "cil_from_netdev")
	}
	if before != "" {
		shell(t, before)
	}
	word, forever := endless[line]
	switch args := strings.Fields(strings.TrimPrefix(line, "sudo tricolor ")); {
	case !forever:
		shell(t, line)
	case word == "":
		screen := startOn(t, nil, args...)
		screen.waitFor("eth0")
		if _, err := screen.master.WriteString("q"); err != nil {
			t.Fatal(err)
		}
		screen.ends(true)
	default:
		began(t, word, args...).end(t)
	}
}

// exampleFolder makes a folder of what examples name, and goes there until the test ends.
func exampleFolder(t *testing.T) {
	t.Helper()
	capture, err := os.ReadFile(filepath.Join(testutils.ModuleRoot(t), "testdata", "captures", "07-cesnet-ntp-af11-ef-cs6.pcap"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name string, data []byte) {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range captureNames {
		write(name, capture)
	}
	for name, text := range exampleFiles {
		write(name, []byte(text))
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	write("bin/sudo", []byte("#!/bin/sh\nexec \"$@\"\n")) // it is root already
	if err := os.Symlink(self, filepath.Join(dir, "bin", "tricolor")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Join(dir, "bin")+string(filepath.ListSeparator)+os.Getenv("PATH"))
	t.Chdir(dir)
}

// shell runs a line as a shell does.
func shell(t *testing.T, line string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, "sh", "-c", line)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := c.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v", line, err)
	}
	if got := c.ProcessState.ExitCode(); got != differs[line] {
		t.Errorf("%s: exits with %d, want %d\n%s", line, got, differs[line], out)
	}
}

// makeEth0 makes the devices that examples name; with the test they go, and what polices them.
func makeEth0(t *testing.T) {
	t.Helper()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "eth0"
	device := &netlink.Veth{LinkAttrs: attrs, PeerName: "peer0"}
	if err := netlink.LinkAdd(device); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		must(t, "detach", "--all")
		if err := netlink.LinkDel(device); err != nil {
			t.Error(err)
		}
	})
	for _, name := range []string{"lo", "eth0", "peer0"} {
		l, err := netlink.LinkByName(name)
		if err == nil {
			err = netlink.LinkSetUp(l)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

// attachForeign puts somebody else's program on eth0's ingress until the test ends.
func attachForeign(t *testing.T, name string) {
	t.Helper()
	program, err := newForeign(name)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	device, err := netlink.LinkByName("eth0")
	if err != nil {
		t.Fatal(err)
	}
	l, err := link.AttachTCX(link.TCXOptions{Interface: device.Attrs().Index, Program: program, Attach: ebpf.AttachTCXIngress})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
}

// Nothing that examples are tested by is out of use.
func TestExamplesPrepared(t *testing.T) {
	var lines []string
	walked(newRoot(), func(cmd *cobra.Command) {
		for line := range strings.Lines(cmd.Example) {
			lines = append(lines, strings.TrimSpace(line))
		}
	})
	for line := range differs {
		if !slices.Contains(lines, line) {
			t.Errorf("no help has the example %q", line)
		}
	}
	for line := range endless {
		if !slices.Contains(lines, line) {
			t.Errorf("no help has the example %q", line)
		}
	}
	for _, p := range prepared {
		if !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, p.start) }) {
			t.Errorf("no help has an example that begins with %q", p.start)
		}
	}
}
