package main

import (
	"errors"
	"flag"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/vishvananda/netlink"

	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/loader"
)

var update = flag.Bool("update", false, "write what commands print into the scripts' golden files")

// TestMain is the command itself where the scripts call it.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "tricolor" {
		lack()
		main()
	}
	testutils.Namespaced(m)
}

// Scripts that need no privilege.
func TestScripts(t *testing.T) { runScripts(t, scripts(t, "testdata/script")...) }

// Scripts on live devices, in namespaces of their own; one at a time, since they share the pins.
func TestRootScripts(t *testing.T) {
	testutils.RequireRoot(t)
	for _, file := range scripts(t, "testdata/script/root") {
		t.Run(filepath.Base(file), func(t *testing.T) { runScripts(t, file) })
	}
}

// scripts are the script files in a folder.
func scripts(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts in %s (%v)", dir, err)
	}
	return files
}

func runScripts(t *testing.T, files ...string) {
	t.Helper()
	bin := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(bin, "tricolor")); err != nil {
		t.Fatal(err)
	}
	captures := filepath.Join(testutils.ModuleRoot(t), "testdata", "captures")
	testscript.Run(t, testscript.Params{
		Files:         files,
		UpdateScripts: *update,
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", bin+string(filepath.ListSeparator)+env.Getenv("PATH"))
			return os.Symlink(captures, filepath.Join(env.WorkDir, "captures"))
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"tricolor": tricolor, "exits": exits, "truncate": truncate, "unhex": unhex, "veth": veth, "remove": remove, "send": send,
			"another-build": anotherBuild, "rename": rename, "altname": altname, "foreign": foreign, "elsewhere": elsewhere,
		},
	})
}

// tricolor runs the command, which must succeed.
func tricolor(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(ts.Exec("tricolor", args...))
}

// anotherBuild has a device's attachment be that of another build.
func anotherBuild(ts *testscript.TestScript, _ bool, args []string) {
	a, err := loader.Find(args[0], loader.Ingress)
	ts.Check(err)
	about := a.About
	about.Version, about.Object = "0.0.1", [32]byte{}
	ts.Check(errors.Join(a.Maps.WriteAbout(about), a.Close()))
}

// exits runs a command that must exit with a code: exits 2 tricolor replay.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if exit, ok := err.(interface{ ExitCode() int }); ok {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("%v exits with %d, want %d", args[1:], got, want)
	}
}

// truncate copies the first bytes of a file: truncate in.pcap 100 out.pcap.
func truncate(ts *testscript.TestScript, _ bool, args []string) {
	size, err := strconv.Atoi(args[1])
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), []byte(ts.ReadFile(args[0]))[:size], 0o600))
}

// veth makes a pair of devices: veth d0 d1.
func veth(ts *testscript.TestScript, _ bool, names []string) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = names[0]
	device := &netlink.Veth{LinkAttrs: attrs, PeerName: names[1]}
	ts.Check(netlink.LinkAdd(device))
	ts.Defer(func() { _ = netlink.LinkDel(device) }) // where the script has not removed it
}

// remove removes a device: remove d0.
func remove(ts *testscript.TestScript, _ bool, names []string) {
	for _, name := range names {
		device, err := netlink.LinkByName(name)
		ts.Check(err)
		ts.Check(netlink.LinkDel(device))
	}
}

// send sends UDP over the loopback device: send 5 72 sends 5 packets of 72 bytes of data, from port
// 4000 to 5000.
func send(ts *testscript.TestScript, _ bool, args []string) {
	packets, err := strconv.Atoi(args[0])
	ts.Check(err)
	size, err := strconv.Atoi(args[1])
	ts.Check(err)
	lo, err := netlink.LinkByName("lo")
	ts.Check(err)
	ts.Check(netlink.LinkSetUp(lo))
	home := func(port int) *net.UDPAddr { return &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port} }
	receiver, err := net.ListenUDP("udp4", home(5000))
	ts.Check(err)
	defer receiver.Close()
	sender, err := net.DialUDP("udp4", home(4000), home(5000))
	ts.Check(err)
	defer sender.Close()
	for range packets {
		_, err := sender.Write(make([]byte, size))
		ts.Check(err)
	}
}
