package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"go.uber.org/goleak"

	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/loader"
	"github.com/tricolor-policer/tricolor/marker"
)

// childEnv has this test program play the child of TestKilled.
const childEnv = "TRICOLOR_TEST_DEMO_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		err := Run(context.Background(), io.Discard, Options{For: time.Minute, policed: func(p *loader.Held) {
			fmt.Println(p.ProgramID)
		}})
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	testutils.Namespaced(m)
}

// made is what a run made in the kernel, and what the process had before.
type made struct {
	program ebpf.ProgramID
	maps    []ebpf.MapID
	held    []string // descriptors that keep something of the kernel's alive
}

// watchRun returns options that note what the run makes; then is called with the policer too.
func watchRun(t *testing.T, o Options, then func(*loader.Held)) (Options, *made) {
	t.Helper()
	testutils.RequireRoot(t)
	m := &made{held: descriptors(t)}
	o.policed = func(p *loader.Held) {
		m.program = p.ProgramID
		for name, kernelMap := range p.Maps.Named() {
			info, err := (*kernelMap).Info()
			if err != nil {
				t.Errorf("look at the map %s: %v", name, err)
				continue
			}
			id, _ := info.ID()
			m.maps = append(m.maps, id)
		}
		if then != nil {
			then(p)
		}
	}
	return o, m
}

// wantGone checks that nothing of it is left.
func (m *made) wantGone(t *testing.T) {
	t.Helper()
	if m.program == 0 || len(m.maps) == 0 {
		t.Fatalf("the run made nothing: %+v", m)
	}
	deadline := time.Now().Add(freedWithin)
	wantNoProgram(t, m.program, deadline)
	for _, id := range m.maps {
		eventuallyGone(t, fmt.Sprintf("map %d", id), deadline, func() error {
			kernelMap, err := ebpf.NewMapFromID(id)
			kernelMap.Close()
			return err
		})
	}
	if after := descriptors(t); !slices.Equal(after, m.held) {
		t.Errorf("open after the run: %q, before: %q", after, m.held)
	}
	if _, err := os.Lstat(loader.Root); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is there: %v", loader.Root, err)
	}
	home, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	threads, err := filepath.Glob("/proc/self/task/*/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads {
		if ns, err := os.Readlink(thread); err == nil && ns != home {
			t.Errorf("%s is %s, not %s", thread, ns, home)
		}
	}
	goleak.VerifyNone(t)
}

// freedWithin bounds the time that the kernel takes to free what nothing refers to, which is milliseconds.
const freedWithin = 20 * time.Second

func wantNoProgram(t *testing.T, id ebpf.ProgramID, deadline time.Time) {
	t.Helper()
	eventuallyGone(t, fmt.Sprintf("program %d", id), deadline, func() error {
		program, err := ebpf.NewProgramFromID(id)
		program.Close()
		return err
	})
}

// eventuallyGone opens something until it does not exist.
func eventuallyGone(t *testing.T, what string, deadline time.Time, open func() error) {
	t.Helper()
	for ; ; time.Sleep(10 * time.Millisecond) {
		err := open()
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return
		case err != nil:
			t.Errorf("%s: %v", what, err)
			return
		case time.Now().After(deadline):
			t.Errorf("%s is still there", what)
			return
		}
	}
}

// descriptors lists the process's sockets, namespaces and BPF objects.
func descriptors(t *testing.T) (kinds []string) {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range all {
		target, err := os.Readlink(filepath.Join("/proc/self/fd", fd.Name()))
		kind, _, _ := strings.Cut(target, "[")
		if err == nil && (strings.HasPrefix(kind, "socket:") || strings.HasPrefix(kind, "net:") || strings.HasPrefix(kind, "anon_inode:bpf")) {
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	return kinds
}

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestDemo(t *testing.T) {
	for _, mechanism := range []loader.Mechanism{loader.Auto, loader.Clsact} {
		t.Run(mechanism.String(), func(t *testing.T) {
			o, made := watchRun(t, Options{For: time.Second, Mechanism: mechanism}, nil)
			var out strings.Builder
			if err := Run(bounded(t), &out, o); err != nil {
				t.Errorf("the demo failed: %v\n%s", err, out.String())
			}
			if !strings.HasSuffix(out.String(), "\ndemo: all 67 checks agree\n") || strings.Contains(out.String(), "DISAGREE") {
				t.Errorf("the demo says:\n%s", out.String())
			}
			for row := range strings.Lines(out.String()) {
				if n := len([]rune(row)); n > 101 {
					t.Errorf("%d columns: %s", n-1, row)
				}
			}
			made.wantGone(t)
		})
	}
}

func TestTamper(t *testing.T) {
	o, made := watchRun(t, Options{For: 300 * time.Millisecond, Tamper: true}, nil)
	var out strings.Builder
	if err := Run(bounded(t), &out, o); !errors.Is(err, ErrDisagree) {
		t.Errorf("the demo ended with %v, want ErrDisagree", err)
	}
	if !strings.HasSuffix(out.String(), "\ndemo: 1 of 67 checks disagree\n") || strings.Count(out.String(), "DISAGREE\n") != 2 {
		t.Errorf("the demo says:\n%s", out.String())
	}
	made.wantGone(t)
}

// In the middle of the traffic the context ends, as by Ctrl-C.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(bounded(t))
	defer cancel()
	watched := make(chan error, 1)
	o, made := watchRun(t, Options{For: time.Hour}, func(p *loader.Held) {
		go func() {
			defer cancel()
			for ctx.Err() == nil {
				stats, err := p.Maps.Stats(&marker.Plan{Classes: make([]marker.Class, 1)})
				if err != nil || slices.Min(stats.Classes[0].Packets[:]) > 0 {
					watched <- err
					return
				}
			}
			watched <- ctx.Err()
		}()
	})
	if err := Run(ctx, io.Discard, o); !errors.Is(err, context.Canceled) {
		t.Errorf("the demo ended with %v, want context.Canceled", err)
	}
	if err := <-watched; err != nil {
		t.Errorf("watching the counters: %v", err)
	}
	made.wantGone(t)
}

// A receiver that cannot be started ends the demo.
func TestFailed(t *testing.T) {
	o, made := watchRun(t, Options{flows: []flow{flows[0], flows[0]}}, nil)
	if err := Run(bounded(t), io.Discard, o); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("the demo ended with %v, want EADDRINUSE", err)
	}
	made.wantGone(t)
}

func TestKilled(t *testing.T) {
	testutils.RequireRoot(t)
	child := exec.CommandContext(bounded(t), "/proc/self/exe")
	child.Env = append(os.Environ(), childEnv+"=1")
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var id ebpf.ProgramID
	if _, err := fmt.Fscan(out, &id); err != nil {
		t.Errorf("read the program's id: %v", err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Error(err)
	}
	if err := child.Wait(); err == nil {
		t.Error("the child ended by itself")
	}
	if id != 0 {
		wantNoProgram(t, id, time.Now().Add(freedWithin))
	}
}
