package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/loader"
	"github.com/tricolor-policer/tricolor/marker"
)

// eventually waits until something holds. The minute is for a machine that hangs.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it never came to that: %s", what)
		}
	}
}

// lines is what a process says, and a service manager would hear.
type lines struct {
	sync.Mutex
	bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.Lock()
	defer l.Unlock()
	return l.Buffer.Write(b)
}

func (l *lines) count(word string) int {
	l.Lock()
	defer l.Unlock()
	return strings.Count(l.String(), word)
}

// service is "tricolor run" in a process of its own.
type service struct {
	config, saved string
	cmd           *exec.Cmd
	log, heard    *lines
}

func (s *service) start(t *testing.T) {
	t.Helper()
	address := &net.UnixAddr{Name: filepath.Join(t.TempDir(), "notify"), Net: "unixgram"}
	socket, err := net.ListenUnixgram("unixgram", address)
	if err != nil {
		t.Fatal(err)
	}
	s.log, s.heard = new(lines), new(lines)
	heard := s.heard
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := socket.Read(b)
			if err != nil {
				return
			}
			fmt.Fprintf(heard, "%s\n", b[:n])
		}
	}()
	s.cmd = exec.Command("/proc/self/exe", "run", "--config", s.config, "--save-dir", s.saved)
	s.cmd.Args[0] = "tricolor"
	s.cmd.Stderr = s.log
	s.cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+address.Name)
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	running := s.cmd
	t.Cleanup(func() {
		_ = running.Process.Kill()
		socket.Close()
		if t.Failed() {
			t.Logf("it said:\n%s\nand told:\n%s", s.log, s.heard)
		}
	})
	eventually(t, "ready", func() bool { return s.heard.count("READY=1") == 1 })
}

func (s *service) signal(t *testing.T, signal os.Signal) {
	t.Helper()
	if err := s.cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

// reload has it read its files again, and waits until it has.
func (s *service) reload(t *testing.T) {
	t.Helper()
	before := s.heard.count("READY=1")
	s.signal(t, syscall.SIGHUP)
	eventually(t, "reloaded", func() bool { return s.heard.count("READY=1") > before })
}

// stop ends it, and checks its exit code.
func (s *service) stop(t *testing.T, want int) {
	t.Helper()
	s.signal(t, syscall.SIGTERM)
	_ = s.cmd.Wait()
	if got := s.cmd.ProcessState.ExitCode(); got != want {
		t.Errorf("it exits with %d, want %d: %s", got, want, s.log)
	}
}

func (s *service) write(t *testing.T, name, rate string) {
	t.Helper()
	text := "version: 1\nflows: 64\nprofiles: { p: { meter: token, cir: " + rate + ", cbs: 4GB } }\nclasses: [ { name: all, meters: [ { profile: p, per: flow } ] } ]\n"
	if err := os.WriteFile(filepath.Join(s.config, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// attached is a device's policer: its rate, and a counter that tests have it keep. ok: there is one.
func attached(t *testing.T, device string, d loader.Direction, mark uint64) (rate, marked uint64, ok bool) {
	t.Helper()
	a, err := loader.Find(device, d)
	if errors.Is(err, loader.ErrNotAttached) || errors.Is(err, loader.ErrNoDevice) {
		return 0, 0, false
	}
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	plan, _, err := a.InForce()
	if err != nil {
		t.Fatal(err)
	}
	s, err := a.Maps.AllStats()
	if err == nil && mark != 0 {
		err = a.Maps.WriteStats(&marker.Stats{Port: marker.PortStats{Malformed: mark}})
	}
	if err != nil {
		t.Fatal(err)
	}
	return plan.Profiles[0].CIR, s.Port.Malformed, a.State == loader.Attached
}

func addPair(t *testing.T) *netlink.Veth {
	t.Helper()
	device := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "run0"}, PeerName: "run1"}
	if err := netlink.LinkAdd(device); err != nil {
		t.Fatal(err)
	}
	return device
}

// The daemon polices a device from when it appears, again when it comes back, with its buckets, and by what the files
// say; and leaves it policed when it ends.
func TestRun(t *testing.T) {
	testutils.RequireRoot(t)
	s := &service{config: t.TempDir(), saved: filepath.Join(t.TempDir(), "saved")}
	policed := func(what string, d loader.Direction, rate, marked uint64) {
		t.Helper()
		var gotRate, gotMarked uint64
		eventually(t, what, func() (ok bool) {
			gotRate, gotMarked, ok = attached(t, "run0", d, 0)
			return ok && gotRate == rate
		})
		if gotMarked != marked {
			t.Errorf("%s: its counter is %d, want %d", what, gotMarked, marked)
		}
	}
	t.Cleanup(func() {
		if device, err := netlink.LinkByName("run0"); err == nil {
			_ = netlink.LinkDel(device)
		}
	})
	s.write(t, "run0.yaml", "1kB/s")
	s.write(t, "run0.egress.yaml", "2kB/s")
	s.write(t, "bad.yaml", "none")
	s.write(t, "notes.txt", "none")
	s.start(t)
	if s.log.count("waiting for the device") != 2 || s.log.count("a policy is refused") != 1 {
		t.Errorf("it says %s", s.log)
	}
	device := addPair(t)
	policed("it appeared", loader.Ingress, 1000, 0)
	policed("it appeared", loader.Egress, 2000, 0)

	attached(t, "run0", loader.Ingress, 7)
	if err := netlink.LinkDel(device); err != nil {
		t.Fatal(err)
	}
	device = addPair(t)
	policed("it came back", loader.Ingress, 1000, 7)
	policed("it came back", loader.Egress, 2000, 0)

	if err := netlink.LinkSetName(device, "other0"); err != nil {
		t.Fatal(err)
	}
	if _, _, ok := attached(t, "other0", loader.Ingress, 0); !ok {
		t.Error("renamed it is policed no longer")
	}
	if err := netlink.LinkSetName(device, "run0"); err != nil {
		t.Fatal(err)
	}

	s.write(t, "run0.yaml", "3kB/s")
	s.reload(t)
	policed("another policy", loader.Ingress, 3000, 7)
	s.write(t, "run0.yaml", "none")
	if err := os.Remove(filepath.Join(s.config, "run0.egress.yaml")); err != nil {
		t.Fatal(err)
	}
	s.reload(t)
	policed("a bad policy", loader.Ingress, 3000, 7)
	policed("no policy", loader.Egress, 2000, 0)
	if s.log.count("its policy file is gone") != 1 {
		t.Errorf("it says %s", s.log)
	}
	s.stop(t, exitFailed)
	policed("it ended", loader.Ingress, 3000, 7)

	// From here on as after a boot: nothing is refused, and what is attached goes.
	if err := os.Remove(filepath.Join(s.config, "bad.yaml")); err != nil {
		t.Fatal(err)
	}
	s.write(t, "run0.yaml", "3kB/s")
	s.start(t)
	policed("it was policed already", loader.Ingress, 3000, 7)
	s.stop(t, exitDone)
	var out bytes.Buffer
	if code := run([]string{"save", "--all", "--to", s.saved}, &out, &out); code != exitDone {
		t.Fatal(out.String())
	}
	s.write(t, "run0.yaml", "4kB/s") // changed while it was down
	s.start(t)
	policed("restored", loader.Ingress, 4000, 7)
	if left, _ := filepath.Glob(filepath.Join(s.saved, "*.ingress.*")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	s.stop(t, exitDone)

	// After a crash nothing was saved.
	if code := run([]string{"detach", "run0"}, &out, &out); code != exitDone {
		t.Fatal(out.String())
	}
	s.start(t)
	policed("drained", loader.Ingress, 4000, 0)
	s.stop(t, exitDone)
	a, err := loader.Find("run0", loader.Ingress)
	if err != nil {
		t.Fatal(err)
	}
	err = a.Maps.Memory(func(sets []marker.Set) error {
		plan, _, err := a.InForce()
		if err == nil && (sets[plan.Profiles[0].Overflow][0].Tags == 0 || sets[plan.Profiles[0].Overflow][0].Bucket != marker.Bucket{}) {
			err = errors.New("new buckets do not start empty, as of boot")
		}
		return err
	})
	if err := errors.Join(err, a.Detach(), a.Close()); err != nil {
		t.Error(err)
	}
}

// Without its folder there is nothing to do, and it says so.
func TestRunRefused(t *testing.T) {
	var out bytes.Buffer
	if code := run([]string{"run", "--config", filepath.Join(t.TempDir(), "none")}, &out, &out); code != exitFailed || !strings.Contains(out.String(), "put eth0.yaml there") {
		t.Errorf("exits with %d: %s", code, out.String())
	}
}
