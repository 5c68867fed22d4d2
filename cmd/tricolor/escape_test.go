package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/tricolor-policer/tricolor/internal/testutils"
)

// hostile is what nobody would call a file: it clears the screen, sets the title, begins a line of its own
// (with forged), goes back to the line's start, and turns the writing direction round. Some is no UTF-8.
const (
	forged  = "FORGED: all is well"
	hostile = "a\x1b[2J\x1b]0;title\x07\n" + forged + "\rb\u009b31mc\u202ed\x7fe\xffz"
)

// wantHarmless runs a command, whose output must be fit for a terminal: no byte of it that a terminal would
// obey, and no line that somebody else wrote.
func wantHarmless(t *testing.T, args ...string) {
	t.Helper()
	var out, errs bytes.Buffer
	code := run(args, &out, &errs)
	for name, text := range map[string]string{"stdout": out.String(), "stderr": errs.String()} {
		for line := range strings.Lines(text) {
			line = strings.TrimSuffix(line, "\n")
			if printable(line) != line || strings.HasPrefix(strings.TrimPrefix(line, "tricolor: "), forged) {
				t.Errorf("%q prints to %s what a terminal obeys, or a line that is forged: %q", strings.ReplaceAll(strings.Join(args, " "), hostile, "HOSTILE"), name, line)
				break
			}
		}
	}
	if out.Len()+errs.Len() == 0 {
		t.Errorf("%q prints nothing, and exits with %d: this test sees nothing", args, code)
	}
}

// hostileFiles are files of each kind whose paths and contents are hostile.
type hostileFiles struct {
	dir, policy, other, faulty, prefixes, capture, trace, missing string
}

func newHostileFiles(t *testing.T) hostileFiles {
	t.Helper()
	dir := filepath.Join(t.TempDir(), hostile)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) string {
		path := filepath.Join(dir, hostile+name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	// YAML takes these as a double-quoted word.
	word := `"a\e[2J\e]0;title\a\n` + forged + `\rb\x9b31mc\u202Ed\x7fe"`
	f := hostileFiles{dir: dir, missing: filepath.Join(dir, hostile+"missing")}
	f.prefixes = write("prefixes", "192.0.2.0/24 "+hostile+"\n"+hostile+"\n")
	policy := "version: 1\nflows: 64\nprofiles: {p: {meter: token, cir: 1mbit, cbs: 2kB}}\nclasses: [{name: c, meters: [{profile: p, per: flow}]}]\n"
	f.policy = write("policy.yaml", policy)
	f.other = write("other.yaml", strings.ReplaceAll(policy, "1mbit", "2mbit"))
	f.faulty = write("faulty.yaml", "version: 1\n"+word+": 1\nprofiles: {"+word+": {meter: "+word+", cir: "+word+", cbs: "+word+"}}\n"+
		"classes: [{name: "+word+", match: {src: {file: "+strconv.Quote(filepath.Base(f.prefixes))+"}, proto: "+word+"}, meters: [{profile: "+word+", per: "+word+"}]}]\n")
	captures := filepath.Join(testutils.ModuleRoot(t), "testdata", "captures", "07-cesnet-ntp-af11-ef-cs6.pcap")
	data, err := os.ReadFile(captures)
	if err != nil {
		t.Fatal(err)
	}
	f.capture = write("capture.pcap", string(data))
	f.trace = write("trace.csv", "time_ns,bytes,color\n1,"+hostile+",green\n")
	return f
}

// Whatever files are called, and hold, no command prints what moves a cursor or forges a line.
func TestHostileFiles(t *testing.T) {
	f := newHostileFiles(t)
	meter := []string{"--meter", "token", "--cir", "1mbit", "--cbs", "2kB", "--flows", "64"}
	with := func(args ...string) []string { return append(args, meter...) }
	untried := map[string]bool{}
	for _, command := range newRoot().Commands() {
		untried[command.Name()] = !command.Hidden
	}
	for _, args := range [][]string{
		{hostile}, {"--" + hostile}, {"show", hostile, hostile}, {"dump", hostile},
		{"check", "-f", f.policy}, {"check", "-f", f.faulty}, {"check", "-f", f.missing}, {"check", "-f", f.dir},
		{"check", "-f", f.policy, "-o", "json"}, {"check", "-f", f.faulty, "-o", "json"}, {"check", "-f", f.missing, "-o", "json"},
		{"check", "-f", f.policy, "-o", hostile}, {"check", "-f", f.prefixes}, {"check", "-f", f.policy, "--speed", hostile},
		with("replay", f.capture), with("replay", f.trace), with("replay", f.missing), with("replay", f.dir), with("replay", f.prefixes),
		with("replay", f.capture, f.missing, f.trace, "-o", "json"),
		with("replay", f.capture, "--write", f.missing), with("replay", f.capture, "--write", f.dir),
		with("replay", f.capture, "--packets", f.dir), with("replay", f.capture, "--packets", filepath.Join(f.missing, hostile)),
		{"replay", f.capture, "-f", f.policy}, {"replay", f.capture, "-f", f.faulty}, {"replay", f.capture, "-f", f.missing},
		{"replay", f.capture, "-f", f.policy, "--then", "1=" + f.other}, {"replay", f.capture, "-f", f.policy, "--then", "1=" + f.faulty},
		{"replay", f.capture, "-f", f.policy, "--then", hostile}, {"replay", f.capture, "-f", f.policy, "--then", hostile + "=" + f.other},
		{"replay", f.capture, "--meter", hostile}, {"replay", f.capture, "--meter", "token", "--cir", hostile},
		with("replay", f.capture, "--per", hostile), with("replay", f.capture, "--yellow", hostile), with("replay", f.capture, "--seed", hostile),
		with("explain", f.capture, "--packet", "7"), with("explain", f.missing, "--packet", "7"), with("explain", f.capture, "--packet", hostile),
		{"explain", f.capture, "--packet", "7", "-f", f.policy, "--then", "1=" + f.other}, {"explain", f.capture, "--packet", "7", "-f", f.faulty},
		with("explain", f.capture, "--packet", "7", "-o", "json"), with("explain", f.trace, "--packet", "7"),
		with("verify", f.capture), with("verify", f.missing, f.trace, f.dir), {"verify", f.capture, "-f", f.faulty},
		{"compare", f.capture, "--rate", "1mbit", "--burst", "2kB", "--per", "flow"}, {"compare", f.missing, f.capture, f.trace, "--rate", "1mbit", "--burst", "2kB", "-o", "json"},
		{"compare", hostile, "--audit"}, {"compare", "--scenario", hostile}, {"compare", "--scenario", "edge", "--rate", hostile}, {"compare", f.trace, "--rate", "1pps", "--burst", "2pkt", "--per", hostile},
		with("attach", hostile), {"attach", "lo", "-f", f.faulty}, {"attach", "lo", "-f", f.missing}, with("attach", "lo", "--hook", hostile),
		{"diff", hostile, "-f", f.policy}, {"diff", "lo", "-f", f.faulty},
		{"apply", hostile, "-f", f.policy}, {"apply", "lo", "-f", f.faulty}, {"apply", "lo", "-f", f.policy, "--confirm", hostile},
		{"confirm", hostile}, {"detach", hostile}, {"detach", "lo", "--direction", hostile}, {"upgrade", hostile},
		with("attach", "lo", "--before", hostile), with("attach", "lo", "--prio", hostile), {"detach", hostile, "--all"}, {"gc", hostile},
		{"show", hostile}, {"dump", "flows", hostile}, {"dump", "maps", hostile}, {"dump", "flows", "lo", "--sort", hostile},
		{"save", hostile, "--to", f.missing}, {"save", "lo", "--to", f.dir}, {"restore", hostile, "--from", f.policy}, {"restore", "lo", "--from", f.missing}, {"run", "--config", f.missing},
		{"fit", f.capture}, {"fit", f.missing, f.capture, f.trace}, {"fit", f.capture, "-f", f.faulty}, {"fit", f.capture, "--per", hostile}, {"fit", f.capture, "-o", "json"},
		{"whatif", f.policy, f.other, f.capture}, {"whatif", f.policy, f.faulty, f.capture}, {"whatif", f.policy, f.other, f.missing}, {"whatif", f.missing, f.other, f.capture},
		{"certify", f.missing}, {"certify", f.prefixes}, {"certify", f.dir}, {"certify", f.capture, "-f", f.policy}, {"certify", f.capture, "-f", f.faulty},
		{"record", hostile, "-w", f.missing}, {"record", "lo", "-w", f.dir}, {"monitor", hostile}, {"monitor", "lo", "--only", hostile},
		{"top", hostile, "--once"}, {"top", "--sort", hostile}, {"exporter", hostile}, {"exporter", "--once", "--web.config.file", f.faulty}, {"exporter", "--web.listen-address", hostile},
		{"doctor", hostile}, {"demo", hostile}, {"version", hostile},
	} {
		wantHarmless(t, args...)
		delete(untried, args[0])
	}
	for name, shown := range untried {
		if shown {
			t.Errorf("%s is not tried: give it a hostile file or word", name)
		}
	}
}

// Nor does any that meets a device of such a name.
func TestHostileDevice(t *testing.T) {
	testutils.RequireRoot(t)
	const name, alias = "d\x1b[2J\u009b\x7f", "x\x1b]0;title\x07\u009b\x7f" // no white space: the kernel refuses it
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	device := &netlink.Veth{LinkAttrs: attrs, PeerName: "peer0"}
	if err := netlink.LinkAdd(device); err != nil {
		t.Fatal(err)
	}
	defer netlink.LinkDel(device)
	if err := errors.Join(netlink.LinkAddAltName(device, alias), netlink.LinkSetAlias(device, hostile)); err != nil {
		t.Fatal(err)
	}
	f := newHostileFiles(t)
	for _, hook := range []string{"auto", "clsact"} {
		for _, args := range [][]string{
			{"attach", name, "-f", f.policy, "--hook", hook}, {"attach", alias, "-f", f.policy},
			{"show"}, {"show", alias}, {"show", "-o", "json"}, {"show", "nosuch"},
			{"dump", "flows", name}, {"dump", "flows", name, "-o", "json"}, {"dump", "maps", name}, {"dump", "maps", alias, "-o", "json"},
			{"diff", name, "-f", f.policy}, {"diff", alias, "-f", f.other}, {"diff", name, "-f", f.other, "-o", "json"},
			{"confirm", name}, {"upgrade", name}, {"apply", name, "-f", f.other, "--confirm", "60s"}, {"show"}, {"confirm", alias}, {"apply", name, "-f", f.policy},
			{"detach", name}, {"detach", name}, {"attach", "nosuch", "-f", f.policy},
		} {
			wantHarmless(t, args...)
		}
	}
}

// JSON for a terminal is still the same JSON.
func TestPrintJSON(t *testing.T) {
	want := map[string]string{"name": strings.ToValidUTF8(hostile, "") + "é監\U000e0001<&>"}
	var out bytes.Buffer
	if err := printJSON(&out, want); err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(out.String(), "\n") {
		if printable(line) != line {
			t.Errorf("a terminal obeys %q", line)
		}
	}
	if !strings.Contains(out.String(), "é監") || !strings.Contains(out.String(), "<&>") {
		t.Errorf("what is harmless is escaped too: %s", out.String())
	}
	var got map[string]string
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got["name"] != want["name"] {
		t.Errorf("%q reads as %q (%v)", want, got, err)
	}
}
