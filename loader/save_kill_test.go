package loader

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tricolor-policer/tricolor/internal/netlab"
	"github.com/tricolor-policer/tricolor/internal/testutils"
)

// Killed at whatever moment, save and restore grant nobody more than there was: the file holds the buckets, or
// the pins do, or the policer; and the same command again finishes the work, or says that it cannot know.
func TestSaveKilled(t *testing.T) {
	for _, m := range mechanisms {
		t.Run(m.String(), func(t *testing.T) { testSaveKilled(t, m) })
	}
}

func testSaveKilled(t *testing.T, m Mechanism) {
	t.Helper()
	needs(t, m)
	lab := newLab(t, netlab.Options{})
	file := filepath.Join(t.TempDir(), "save")
	random := rand.New(rand.NewPCG(testutils.Seed(t), 0))
	run := func(verb string) {
		t.Helper()
		(&command{verb: verb, device: "right0", mechanism: m, policy: file, last: "never"}).killed(t, lab.Right, 0)
	}
	there := func(path string) bool { _, err := os.Lstat(path); return err == nil }
	state := func() (is State, found bool) {
		err := lab.Right.Do(func() error {
			a, err := Find("right0", Ingress)
			if err != nil {
				return err
			}
			is = a.State
			return a.Close()
		})
		return is, err == nil
	}
	var k kills
	saveSteps := []string{"unhooked", "settled", "written out", "saved", "set aside", "", "", ""}
	restoreSteps := []string{"filled", "used up", "folder made", "maps pinned", "program pinned", "hooked", "appeared", "", "", ""}
	begin := func() { // five packets of ten green ones are left
		os.Remove(file)
		os.Remove(file + UsedSuffix)
		err := lab.Right.Do(func() error {
			a, err := Attach("right0", policyPlan(t, policySaved), AttachOptions{Mechanism: m})
			if err != nil {
				return err
			}
			return a.Close()
		})
		if err != nil {
			t.Fatal(err)
		}
		sendTo(t, lab, port, 5)
	}
	end := func(what string) {
		t.Helper()
		if is, found := state(); !found || is != Attached {
			t.Errorf("%s: in the end it is %v, %v", what, is, found)
			return
		}
		if got := sendTo(t, lab, port, 20); got[af11] != 5 || got[af12] != 10 {
			t.Errorf("%s: %d green, %d yellow, want 5 and 10", what, got[af11], got[af12])
		}
		run("detach")
		wantNothing(t)
	}
	for _, last := range saveSteps {
		begin()
		c := &command{verb: "save", device: "right0", mechanism: m, policy: file, last: last}
		k.add(t, c, c.killed(t, lab.Right, time.Duration(random.Int64N(int64(20*time.Millisecond)))))
		what := "save killed at " + last
		is, found := state()
		if is == Attached && found && there(file) || !found && !there(file) {
			t.Errorf("%s: attached %v, %v, and the file is there: %v", what, found, is, there(file))
		}
		if found {
			run("save")
		}
		run("restore")
		end(what)
	}
	for _, last := range restoreSteps {
		begin()
		run("save")
		c := &command{verb: "restore", device: "right0", mechanism: m, policy: file, last: last}
		k.add(t, c, c.killed(t, lab.Right, time.Duration(random.Int64N(int64(40*time.Millisecond)))))
		what := "restore killed at " + last
		_, found := state()
		switch {
		case found && there(file):
			t.Errorf("%s: attached, and the file could be restored again", what)
		case found:
		case there(file):
			run("restore")
		default:
			_, err := tryRestore(lab.Right, file, m)
			wantError(t, what, err, ErrUsed, "--drained")
			continue
		}
		end(what)
	}
	k.end(t)
}
