package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/loader"
	"github.com/tricolor-policer/tricolor/marker"
)

// must runs a command line that must succeed, and returns what it prints.
func must(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if code := run(args, &out, &errs); code != exitDone {
		t.Fatalf("%v exits with %d: %s", args, code, errs.String())
	}
	return out.String()
}

// topPolicy has a class a port, the second of two meters.
const topPolicy = `version: 1
flows: 64
profiles: { p: { meter: srtcm, cir: 1B/s, cbs: 300B, ebs: 200B }, wide: { meter: token, cir: 1gbit, cbs: 1MB } }
classes:
  - { name: first, match: { dport: 5001 }, meters: [ { profile: p, per: flow } ] }
  - { name: second, match: { dport: 5002 }, meters: [ { profile: p, per: flow }, { profile: wide, per: class } ] }
`

// policedLo has what leaves lo be policed by a policy, and returns who sends packets of 100 bytes to a port.
func policedLo(t *testing.T, policy string) (send func(port, packets int)) {
	t.Helper()
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, "attach", "lo", "--direction", "egress", "-f", file)
	t.Cleanup(func() { must(t, "detach", "--all") })
	senders := map[int]net.Conn{}
	for _, port := range []int{5001, 5002, 5003} {
		receiver, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { receiver.Close() })
		if senders[port], err = net.Dial("udp4", receiver.LocalAddr().String()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { senders[port].Close() })
	}
	return func(port, packets int) {
		t.Helper()
		for range packets {
			if _, err := senders[port].Write(make([]byte, 72)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// What a reading tells is, to the packet, what show counted meanwhile, and what each bucket did; whatever happens to
// the policy and the attachment is said.
func TestTopReads(t *testing.T) {
	testutils.RequireRoot(t)
	send := policedLo(t, topPolicy)
	send(5001, 2)
	r, err := newTopReader([]string{"lo"}, "both", true)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.close(); err != nil {
			t.Error(err)
		}
	}()
	choice := &topChoice{order: "red", only: marker.Colors}
	read := func() *topHook {
		t.Helper()
		frame := r.read(choice)
		if frame.fault != nil || len(frame.hooks) != 1 {
			t.Fatalf("%d attachments, %v", len(frame.hooks), frame.fault)
		}
		return frame.hooks[0]
	}
	if h := r.last()[0]; h.elapsed != 0 || len(h.keys) != 0 || h.stages[0].Used != 1 || h.classes[0].all.Packets[0] != 2 {
		t.Errorf("at first it tells %+v", h)
	}
	send(5001, 6) // one green packet is left, two yellow: three are red
	send(5002, 1)
	send(5003, 4)
	h := read()
	var shown struct{ Attachments []statsJSON }
	if err := json.Unmarshal([]byte(must(t, "show", "lo", "-o", "json")), &shown); err != nil {
		t.Fatal(err)
	}
	for i, want := range shown.Attachments[0].Classes {
		if got := colorsOf(h.classes[i].all.Packets, h.classes[i].all.Bytes); got != want.Colors {
			t.Errorf("class %s has %+v, show says %+v", want.Name, got, want.Colors)
		}
	}
	if got := h.classes[0].counted; got.Packets != (counts{1, 2, 3}) || got.Bytes != (counts{100, 200, 300}) || h.port.Unmatched != 4 || h.elapsed == 0 {
		t.Errorf("the first class counted %+v; %d unmatched", got, h.port.Unmatched)
	}
	if h.active != 3 || len(h.keys) != 3 || h.keys[0].Class != "first" || h.keys[0].packets != (counts{1, 2, 3}) || h.keys[0].bytes != (counts{100, 200, 300}) {
		t.Errorf("the buckets are %+v", h.keys)
	}
	if k := h.keys[0]; k.CBS != 300*marker.Nano || k.Tc > 200*marker.Nano || k.EBS != 200*marker.Nano {
		t.Errorf("the bucket holds %d of %d", k.Tc, k.CBS)
	}
	choice.filter = newTopFilter("second")
	send(5001, 1)
	send(5002, 1)
	if h = read(); h.active != 3 || len(h.keys) != 2 || h.keys[0].Class != "second" || h.keys[1].Class != "second" {
		t.Errorf("the buckets wanted are %+v", h.keys)
	}
	choice.filter = topFilter{}

	// Another policy: what its classes had counted goes on.
	file := filepath.Join(t.TempDir(), "next.yaml")
	next := strings.ReplaceAll(strings.ReplaceAll(topPolicy, "name: second", "name: third"), "300B", "400B")
	if err := os.WriteFile(file, []byte(next), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, "apply", "lo", "--direction", "egress", "-f", file)
	send(5001, 1)
	send(5002, 1)
	h = read()
	if !strings.Contains(h.event, "the policy changed") || h.classes[1].name != "third" {
		t.Errorf("a changed policy is told so: %+v", h)
	}
	for i := range h.classes {
		if got := total(h.classes[i].counted.Packets); got != 1 {
			t.Errorf("class %s counted %d packets, want 1", h.classes[i].name, got)
		}
	}

	// Counters that are set back.
	a, err := loader.Find("lo", loader.Egress)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(a.Maps.WriteStats(&marker.Stats{Classes: make([]marker.ClassStats, 64)}), a.Close()); err != nil {
		t.Fatal(err)
	}
	send(5001, 1)
	if h = read(); !strings.Contains(h.event, "counters began anew") || total(h.classes[0].counted.Packets) != 1 {
		t.Errorf("counters set back are told so: %+v", h)
	}

	// It goes, and another comes.
	must(t, "detach", "--all")
	if frame := r.read(choice); len(frame.hooks) != 1 || frame.hooks[0].state != "not policed any longer" {
		t.Errorf("detached it is told so: %+v", frame)
	}
	must(t, "attach", "lo", "--direction", "egress", "-f", file)
	send(5001, 1)
	if h = read(); !strings.Contains(h.event, "attached anew") || h.state != "" || h.elapsed != 0 {
		t.Errorf("attached anew it is told so: %+v", h)
	}
	send(5001, 1)
	if h = read(); total(h.classes[0].counted.Packets) != 1 {
		t.Errorf("then it counts on: %+v", h)
	}
}

// terminal is a tricolor on a terminal of its own.
type terminal struct {
	t      *testing.T
	master *os.File
	cmd    *exec.Cmd
	before unix.Termios
	sync.Mutex
	said bytes.Buffer
}

func startOn(t *testing.T, env []string, args ...string) *terminal {
	t.Helper()
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()
	if err := pty.Setsize(master, &pty.Winsize{Rows: 24, Cols: 80}); err != nil {
		t.Fatal(err)
	}
	term := &terminal{t: t, master: master, cmd: exec.Command("/proc/self/exe", args...)}
	before, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	term.before = *before
	term.cmd.Args[0] = "tricolor"
	term.cmd.Env = append(append(os.Environ(), "TERM=xterm-256color", "LANG=C.UTF-8", "LC_ALL=", "COLORTERM=", "NO_COLOR="), env...)
	term.cmd.Stdin, term.cmd.Stdout, term.cmd.Stderr = slave, slave, slave
	term.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := term.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = term.cmd.Process.Kill()
		master.Close()
	})
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := master.Read(b)
			term.Lock()
			term.said.Write(b[:n])
			term.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return term
}

func (s *terminal) text() string {
	s.Lock()
	defer s.Unlock()
	return s.said.String()
}

// waitFor waits until the terminal was sent a text.
func (s *terminal) waitFor(text string) {
	s.t.Helper()
	eventually(s.t, text+" in "+s.text(), func() bool { return strings.Contains(s.text(), text) })
}

// redrawn waits until the whole screen, as it is drawn anew for another width, has a text: else only what changes is sent.
func (s *terminal) redrawn(text string) {
	s.t.Helper()
	from, width := len(s.text()), uint16(80)
	eventually(s.t, text+" on the screen", func() bool {
		width ^= 1
		if err := pty.Setsize(s.master, &pty.Winsize{Rows: 24, Cols: width}); err != nil {
			s.t.Fatal(err)
		}
		return strings.Contains(s.text()[from:], text)
	})
}

// ends waits until the process has ended well, and sees that it left the terminal as it was.
func (s *terminal) ends(restored bool) {
	s.t.Helper()
	if err := s.cmd.Wait(); err != nil {
		s.t.Errorf("it ends with %v: %q", err, s.text())
	}
	if !restored {
		return
	}
	after, err := unix.IoctlGetTermios(int(s.master.Fd()), unix.TCGETS)
	if err != nil {
		s.t.Fatal(err)
	}
	if *after != s.before {
		s.t.Errorf("the terminal is %+v, was %+v", *after, s.before)
	}
	s.waitFor("\x1b[?1049l") // the screen from before
	s.waitFor("\x1b[?25h")   // the cursor
}

// The real screen on a real terminal: it draws, answers keys, sends little, and however it ends the terminal is as before.
func TestTopScreen(t *testing.T) {
	testutils.RequireRoot(t)
	send := policedLo(t, topPolicy)
	start := func(t *testing.T, env ...string) *terminal {
		t.Helper()
		s := startOn(t, env, "top", "lo", "--interval", "100ms")
		s.waitFor("no bucket counted a packet")
		return s
	}
	key := func(s *terminal, keys string) {
		s.t.Helper()
		if _, err := s.master.WriteString(keys); err != nil {
			s.t.Fatal(err)
		}
	}
	t.Run("q", func(t *testing.T) {
		s := start(t)
		first := len(s.text())
		send(5001, 20)
		s.waitFor("first/1 udp 127.0.0.1")
		t.Logf("the first screen took %d bytes, the next ones %d", first, len(s.text())-first)
		key(s, "ssss")
		s.redrawn("most red")
		if !strings.Contains(s.text(), "\x1b[31m") {
			t.Error("a terminal with colours is sent none")
		}
		key(s, " ")
		s.redrawn("PAUSED")
		key(s, " /second\r")
		s.redrawn("filter second")
		key(s, "q")
		s.ends(true)
	})
	t.Run("ctrl-c", func(t *testing.T) {
		s := start(t, "NO_COLOR=1")
		send(5001, 20)
		s.waitFor("first/1 udp 127.0.0.1")
		key(s, "\x03")
		s.ends(true)
		for _, color := range []string{"\x1b[31m", "\x1b[32m", "\x1b[33m"} {
			if strings.Contains(s.text(), color) {
				t.Errorf("NO_COLOR: it sends %q", color)
			}
		}
	})
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		t.Run(signal.String(), func(t *testing.T) {
			s := start(t)
			if err := s.cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			s.ends(true)
		})
	}
	t.Run("terminal gone", func(t *testing.T) {
		s := start(t)
		s.master.Close()
		s.ends(false)
	})
	t.Run("dumb", func(t *testing.T) {
		s := startOn(t, []string{"TERM=dumb"}, "top", "lo", "--interval", "100ms")
		s.waitFor("0 buckets counted a packet")
		if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		_ = s.cmd.Wait()
		if strings.Contains(s.text(), "\x1b") {
			t.Errorf("a dumb terminal is sent %q", s.text())
		}
	})
}
