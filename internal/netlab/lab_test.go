package netlab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// childEnv has this test program play the child of TestKillLeavesNothing.
const childEnv = "NETLAB_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		if err := beKilled(); err != nil {
			fmt.Println(err)
		}
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// newLab returns a laboratory that the test's end closes. On a machine where
// namespaces cannot be made it skips the test, unless the kernel is required.
func newLab(t *testing.T, opts Options) *Lab {
	t.Helper()
	lab, err := New(opts)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOSYS) {
		if os.Getenv("TRICOLOR_REQUIRE_KERNEL") == "1" {
			t.Fatalf("TRICOLOR_REQUIRE_KERNEL=1, but: %v", err)
		}
		t.Skipf("needs root: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	return lab
}

// bounded returns a context that ends long after the test should have.
func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func watch(t *testing.T, h *Host, opts WatchOptions) *Watch {
	t.Helper()
	w, err := h.Watch(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Stop() })
	return w
}

// stop returns what w saw, once that is at least the given number of packets, and
// fails the test if the capture is not complete.
func stop(t *testing.T, w *Watch, packets uint64) Seen {
	t.Helper()
	if err := w.Wait(bounded(t), packets); err != nil {
		t.Error(err)
	}
	seen, err := w.Stop()
	if err != nil {
		t.Fatal(err)
	}
	if seen.Dropped != 0 {
		t.Fatalf("the capture lost %d frames", seen.Dropped)
	}
	return seen
}

func TestOptionsRefused(t *testing.T) {
	for _, mtu := range []int{-1, 1279, 65536} {
		_, err := New(Options{MTU: mtu})
		if err == nil || !strings.Contains(err.Error(), fmt.Sprint(mtu)) {
			t.Errorf("MTU %d: error %v does not name it", mtu, err)
		}
	}
}

func TestHosts(t *testing.T) {
	lab := newLab(t, Options{MTU: 9000})
	for _, h := range []*Host{lab.Left, lab.Right} {
		link, err := h.nl.LinkByName(h.Device)
		if err != nil {
			t.Fatal(err)
		}
		a := link.Attrs()
		if a.Index != h.Ifindex || a.MTU != 9000 || a.HardwareAddr.String() != h.MAC.String() {
			t.Errorf("%s is number %d, MTU %d, MAC %s", h.Device, a.Index, a.MTU, a.HardwareAddr)
		}
		addresses, err := h.nl.AddrList(link, netlink.FAMILY_ALL)
		if err != nil {
			t.Fatal(err)
		}
		if len(addresses) != 2 {
			t.Errorf("%s has the addresses %v, want one IPv4 and one IPv6", h.Device, addresses)
		}
	}
}

// A laboratory that is left alone must stay silent, whatever the kernel likes to
// announce when a device comes up.
func TestQuiet(t *testing.T) {
	lab := newLab(t, Options{})
	for _, h := range []*Host{lab.Left, lab.Right} {
		link, err := h.nl.LinkByName(h.Device)
		if err != nil {
			t.Fatal(err)
		}
		if s := link.Attrs().Statistics; s.TxPackets != 0 || s.RxPackets != 0 {
			t.Errorf("%s sent %d packets and received %d before anyone used it", h.Device, s.TxPackets, s.RxPackets)
		}
	}
}

func TestDo(t *testing.T) {
	lab := newLab(t, Options{})
	home := currentNamespace(t)

	want := errors.New("f's own")
	if err := lab.Left.Do(func() error { return want }); !errors.Is(err, want) {
		t.Errorf("Do returned %v, want f's error", err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("f's panic did not come through")
			}
		}()
		lab.Left.Do(func() error { panic("f") })
	}()
	if now := currentNamespace(t); now != home {
		t.Errorf("back in %s after Do, want %s", now, home)
	}

	var group sync.WaitGroup
	for range 8 {
		for _, h := range []*Host{lab.Left, lab.Right} {
			group.Go(func() {
				for range 20 {
					err := h.Do(func() error {
						if inside := currentNamespace(t); inside != h.NS.UniqueId() {
							t.Errorf("Do of %s ran in %s", h.Device, inside)
						}
						return h.Peer().Do(func() error { return nil })
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	group.Wait()
	if now := currentNamespace(t); now != home {
		t.Errorf("back in %s after Do, want %s", now, home)
	}
}

func currentNamespace(t *testing.T) string {
	t.Helper()
	ns, err := netns.Get()
	if err != nil {
		t.Error(err)
		return ""
	}
	defer ns.Close()
	return ns.UniqueId()
}

func TestCloseLeavesNothing(t *testing.T) {
	newLab(t, Options{}) // skips here if it must; also opens what the runtime keeps open
	links, files := countLinks(t), countFiles(t)
	for range 3 {
		lab, err := New(Options{})
		if err != nil {
			t.Fatal(err)
		}
		if n := countLinks(t); n != links {
			t.Errorf("%d links in the caller's namespace while a laboratory is open, %d before", n, links)
		}
		if err := errors.Join(lab.Close(), lab.Close()); err != nil {
			t.Error(err)
		}
		if err := lab.Left.Do(func() error { return nil }); !errors.Is(err, ErrClosed) {
			t.Errorf("Do after Close: %v, want ErrClosed", err)
		}
	}
	if n := countLinks(t); n != links {
		t.Errorf("%d links after, %d before", n, links)
	}
	if n := countFiles(t); n != files {
		t.Errorf("%d open files after, %d before", n, files)
	}
}

func countLinks(t *testing.T) int {
	t.Helper()
	links, err := netlink.LinkList()
	if err != nil {
		t.Fatal(err)
	}
	return len(links)
}

func countFiles(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

// The child's laboratory has a second veth whose other end, the canary, lies in a
// namespace of ours. The canary dies with the child's namespace, and only then.
func TestKillLeavesNothing(t *testing.T) {
	nest := newLab(t, Options{})
	file := os.NewFile(uintptr(mustDup(t, int(nest.Left.NS))), "nest")
	defer file.Close()

	child := exec.CommandContext(bounded(t), os.Args[0])
	child.Env = append(os.Environ(), childEnv+"=1")
	child.ExtraFiles = []*os.File{file} // descriptor 3
	output, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 256)
	n, _ := output.Read(said)
	canaryLives := func() bool {
		_, err := nest.Left.nl.LinkByName("canary")
		return err == nil
	}
	if !canaryLives() {
		t.Errorf("the child made no canary, and says %q", said[:n])
	}
	if err := child.Process.Kill(); err != nil {
		t.Error(err)
	}
	child.Wait()
	for ctx := bounded(t); canaryLives(); { // the kernel clears namespaces away in its own time
		if ctx.Err() != nil {
			t.Fatal("the namespace of a killed process is still there")
		}
		time.Sleep(time.Millisecond)
	}
}

func mustDup(t *testing.T, fd int) int {
	t.Helper()
	fd, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

// beKilled makes a laboratory and the canary, says so, and waits for the end.
func beKilled() error {
	lab, err := New(Options{})
	if err != nil {
		return err
	}
	err = lab.Left.nl.LinkAdd(&netlink.Veth{
		LinkAttrs:     netlink.LinkAttrs{Name: "cage"},
		PeerName:      "canary",
		PeerNamespace: netlink.NsFd(3),
	})
	if err != nil {
		return err
	}
	fmt.Println("ready")
	time.Sleep(time.Minute)
	return errors.New("nobody killed me")
}
