package main

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/tricolor-policer/tricolor/internal/testutils"
)

// policedLoopback polices what leaves the loopback device until the test ends: 300 bytes pass.
func policedLoopback(t *testing.T) {
	t.Helper()
	testutils.RequireRoot(t)
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		t.Fatal(err)
	}
	commanded(t, "attach", "lo", "--direction", "egress", "--meter", "srtcm", "--cir", "1B/s", "--cbs", "300B", "--ebs", "100B", "--flows", "64")
	t.Cleanup(func() { commanded(t, "detach", "lo", "--direction", "egress") })
}

// commanded runs a command that must succeed, and returns what it printed.
func commanded(t *testing.T, args ...string) string {
	t.Helper()
	var stdout, stderr lines
	if code := run(args, &stdout, &stderr); code != 0 {
		t.Fatalf("%v exits with %d: %s", args, code, stderr.String())
	}
	return stdout.String()
}

// sent sends packets of 100 bytes of IP over the loopback device.
func sent(t *testing.T, packets int) {
	t.Helper()
	receiver, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 5000})
	if err != nil {
		t.Fatal(err)
	}
	defer receiver.Close()
	sender, err := net.DialUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4000}, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 5000})
	if err != nil {
		t.Fatal(err)
	}
	defer sender.Close()
	for range packets {
		if _, err := sender.Write(make([]byte, 72)); err != nil {
			t.Fatal(err)
		}
	}
}

// process is a command in a process of its own.
type process struct {
	*exec.Cmd
	stdout, stderr lines
}

// began starts a command, and returns once it says that it began.
func began(t *testing.T, word string, args ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command("/proc/self/exe", args...)}
	p.Args[0] = "tricolor"
	p.Stdout, p.Stderr = &p.stdout, &p.stderr
	p.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Process.Kill() }) // where it has not ended
	eventually(t, "it begins", func() bool { return p.stderr.count(word) > 0 })
	return p
}

// end has it end as ^C does.
func (p *process) end(t *testing.T) {
	t.Helper()
	if err := p.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		t.Fatalf("%v: %s", err, p.stderr.String())
	}
}

// What is recorded is proven; a recorder that is killed leaves no file, and hinders no other.
func TestRecordCommand(t *testing.T) {
	policedLoopback(t)
	file := filepath.Join(t.TempDir(), "decisions.rec")
	killed := began(t, "recording lo egress", "record", "lo", "--direction", "egress", "-w", file)
	var stdout, stderr lines
	if code := run([]string{"record", "lo", "--direction", "egress", "-w", file + "2"}, &stdout, &stderr); code != exitFailed || stderr.count("somebody does that already") == 0 {
		t.Errorf("a second recorder exits with %d: %s", code, stderr.String())
	}
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.Wait() // it was killed
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("a killed recorder left its file: %v", err)
	}
	sent(t, 1) // the program finds that nobody is there

	p := began(t, "recording lo egress", "record", "lo", "--direction", "egress", "-w", file)
	sent(t, 5)
	eventually(t, "five packets more met it", func() bool {
		return regexp.MustCompile(`red +2 +200`).MatchString(commanded(t, "show", "lo"))
	})
	p.end(t)
	if p.stderr.count(file+": 5 decisions") != 1 {
		t.Errorf("it says %q", p.stderr.String())
	}
	text := commanded(t, "certify", file)
	for _, want := range []string{": 5 decisions of lo egress: 2 green, 1 yellow, 2 red; 1 bucket\n", "\nPROVEN: ", "\ntightest: default: udp 127.0.0.1:"} {
		if !strings.Contains(text, want) {
			t.Errorf("certify does not say %q:\n%s", want, text)
		}
	}
	// One that ends in the middle proves nothing.
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data[:len(data)-10], 0o600); err != nil {
		t.Fatal(err)
	}
	stdout = lines{}
	if code := run([]string{"certify", file}, &stdout, &stderr); code != exitIncomplete || stdout.count("INCOMPLETE") != 1 || stdout.count("cut short") != 1 {
		t.Errorf("cut short, it exits with %d: %s", code, stdout.String())
	}
}

// Each red packet is told, with what it lacked; what is beyond --max is counted.
func TestMonitorCommand(t *testing.T) {
	policedLoopback(t)
	sent(t, 4)
	p := began(t, "watching lo egress", "monitor", "lo", "--direction", "egress", "--count", "2")
	sent(t, 2)
	eventually(t, "it has told two", func() bool { return p.stdout.count("\n") >= 2 })
	if err := p.Wait(); err != nil {
		t.Fatalf("%v: %s", err, p.stderr.String())
	}
	line := regexp.MustCompile(`^\d\d:\d\d:\d\d\.\d{6} red    default udp 127\.0\.0\.1:4000 > 127\.0\.0\.1:5000: 100 B; Tc .* B, Te .* B \(short: Te .* B\); would be yellow .* later$`)
	said := strings.Split(strings.TrimSpace(p.stdout.String()), "\n")
	for _, text := range said {
		if !line.MatchString(text) {
			t.Errorf("it says %q", text)
		}
	}
	if len(said) != 2 {
		t.Errorf("it says %q", said)
	}

	p = began(t, "watching lo egress", "monitor", "lo", "--direction", "egress", "-o", "json", "--max", "1", "--only", "red,yellow,green")
	all := uint64(0)
	eventually(t, "it tells of packets, and what was left out", func() bool { // the second's budget may be used up already
		sent(t, 5)
		all += 5
		return p.stdout.count(`{"left_out":`) > 0 && p.stdout.count(`"cost":100`) > 0
	})
	p.end(t)
	var left uint64
	packets := 0
	for text := range strings.Lines(p.stdout.String()) {
		var got struct {
			LeftOut uint64 `json:"left_out"`
			seenPacket
		}
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		left += got.LeftOut
		if got.LeftOut > 0 {
			continue
		}
		packets++
		if got.Class != "default" || got.Cost != 100 || len(got.Meters) != 1 || got.Meters[0].Key == "" {
			t.Errorf("%+v", got)
		}
	}
	if uint64(packets)+left != all {
		t.Errorf("%d packets are told, and %d left out, of %d", packets, left, all)
	}
}
