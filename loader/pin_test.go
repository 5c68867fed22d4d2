package loader

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tricolor-policer/tricolor/internal/testutils"
)

func TestParseIdent(t *testing.T) {
	for name, want := range map[string]ident{
		"4026531840-2-ingress":                   {4026531840, 2, Ingress},
		"0-1-egress":                             {0, 1, Egress},
		"18446744073709551615-2147483647-egress": {1<<64 - 1, 1<<31 - 1, Egress},
	} {
		if got, ok := parseIdent(name); !ok || got != want || got.String() != name {
			t.Errorf("%s reads as %+v, %t", name, got, ok)
		}
	}
	for _, name := range []string{
		"", "-", "--", "1-2", "1-2-", "1-2-up", "01-2-egress", "1-02-egress", "1-2-egress-", "1-2-Egress", "+1-2-egress",
		"1-2147483648-egress", "18446744073709551616-2-egress", "1-2-egress/", " 1-2-egress", making + "1", removing + "1-2-egress",
	} {
		if got, ok := parseIdent(name); ok {
			t.Errorf("%q reads as %+v", name, got)
		}
	}
}

// A bpffs that is missing is mounted; but in a mount namespace of one's own pins would end with it: that
// is said, and nothing is mounted.
func TestNeedBPFFS(t *testing.T) {
	testutils.RequireRoot(t)
	dir := t.TempDir()
	for _, private := range []bool{true, false, true} {
		err := needBPFFS(dir, private)
		is, err2 := isBPFFS(dir)
		if err2 != nil {
			t.Fatal(err2)
		}
		if is {
			defer unix.Unmount(dir, 0)
		}
		if is != (err == nil) {
			t.Errorf("private %t: mounted is %t, and the error %v", private, is, err)
		}
		if err != nil && (!private || !strings.Contains(err.Error(), "nsenter --net") || !strings.Contains(err.Error(), "mount -t bpf none "+dir)) {
			t.Errorf("private %t: %v", private, err)
		}
	}
	if is, _ := isBPFFS(dir); !is {
		t.Error("nothing was mounted")
	}
	if err := mountBPFFS(dir + "/missing"); err == nil || !strings.Contains(err.Error(), "mount -t bpf none "+dir) {
		t.Errorf("mounting nowhere: %v", err)
	}
	if err := needBPFFS(dir+"/missing", false); err == nil || !strings.Contains(err.Error(), dir+"/missing") {
		t.Errorf("nowhere to mount: %v", err)
	}
}

// The tests run in a mount namespace of their own, and come from a process that does not.
func TestPrivateMounts(t *testing.T) {
	testutils.RequireRoot(t)
	if !privateMounts() {
		t.Error("this mount namespace is not told apart from that of the process it comes from")
	}
	if got := parentOf(os.Getpid()); got != os.Getppid() {
		t.Errorf("parent %d, not %d", got, os.Getppid())
	}
	if got := parentOf(-1); got != 0 {
		t.Errorf("no process has the parent %d", got)
	}
	dir := t.TempDir()
	if err := seesPins(dir, true); err == nil || !strings.Contains(err.Error(), "nsenter --net") {
		t.Errorf("what cannot be seen: %v", err)
	}
	if err := seesPins(dir, false); err != nil {
		t.Errorf("on the host: %v", err)
	}
}

// The folder is there only while it is locked or holds something, and one that others could write to is
// not trusted.
func TestLockRoot(t *testing.T) {
	testutils.RequireRoot(t)
	unlock, err := lockRoot()
	if err != nil {
		t.Fatal(err)
	}
	// The second waits for the first, and finds the folder removed.
	second := make(chan error)
	go func() {
		unlock, err := lockRoot()
		if err == nil {
			_, err = os.Stat(Root)
			unlock()
		}
		second <- err
	}()
	unlock()
	if err := <-second; err != nil {
		t.Error(err)
	}
	wantNothing(t)

	if err := os.Mkdir(Root, 0o700); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(Root)
	// While one waits for the lock, the folder may be removed and made anew.
	waiting, err := os.Open(Root)
	if err != nil {
		t.Fatal(err)
	}
	defer waiting.Close()
	if same, err := holdRoot(waiting); !same || err != nil {
		t.Errorf("the folder at its place: %t, %v", same, err)
	}
	if err := os.Remove(Root); err != nil {
		t.Fatal(err)
	}
	if same, err := holdRoot(waiting); same || err != nil {
		t.Errorf("the folder removed: %t, %v", same, err)
	}
	if err := os.Mkdir(Root, 0o700); err != nil {
		t.Fatal(err)
	}
	if same, err := holdRoot(waiting); same || err != nil {
		t.Errorf("another folder in its place: %t, %v", same, err)
	}
	if err := os.Chmod(Root, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := lockRoot(); err == nil || !strings.Contains(err.Error(), "chmod 700 "+Root) {
		t.Errorf("a folder open to all: %v", err)
	}
}

// Whoever waits for a command that hangs can give up, though the process takes its signals itself.
func TestLockInterrupted(t *testing.T) {
	testutils.RequireRoot(t)
	unlock, err := lockRoot()
	if err != nil {
		t.Fatal(err)
	}
	for _, sig := range []unix.Signal{unix.SIGINT, unix.SIGTERM} {
		taken := make(chan os.Signal, 1)
		signal.Notify(taken, sig)
		waited := make(chan error)
		go func() {
			_, err := lockRoot()
			waited <- err
		}()
		for done := false; !done; { // one that comes before the wait does not end it
			if err := unix.Kill(os.Getpid(), sig); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-waited:
				if !errors.Is(err, context.Canceled) {
					t.Errorf("%v: %v", sig, err)
				}
				done = true
			case <-time.After(10 * time.Millisecond):
			}
		}
		signal.Stop(taken)
	}
	unlock()
	wantNothing(t)
}

// Anybody may put a link into a bpffs: it is not followed, nor is there advice that would change what it leads to.
func TestLockRootLink(t *testing.T) {
	testutils.RequireRoot(t)
	if err := os.Symlink(t.TempDir(), Root); err != nil {
		t.Fatal(err)
	}
	_, err := lockRoot()
	wantError(t, "a link", err, ErrBPFFS, "rm "+Root)
	if err := os.Remove(Root); err != nil {
		t.Fatal(err)
	}
	wantNothing(t)
}
