package loader

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/tricolor-policer/tricolor/internal/netlab"
	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/maps"
)

// A command that is killed, at whatever moment, leaves the policy before or the new one, whole; not one
// packet passes unpoliced; a trial ends without it; and the next command finishes its work.
func TestChangeKilled(t *testing.T) {
	for _, m := range mechanisms {
		t.Run(m.String(), func(t *testing.T) { testChangeKilled(t, m) })
	}
}

func testChangeKilled(t *testing.T, m Mechanism) {
	t.Helper()
	needs(t, m)
	lab := newLab(t, netlab.Options{})
	a := attachPolicy(t, lab, m, policyA)
	random := rand.New(rand.NewPCG(testutils.Seed(t), 0))
	f := startFlood(t, lab, 3, 100*time.Microsecond)

	start := time.Now()
	killed := func(last string, after, confirm time.Duration, text string) bool {
		return (&command{verb: "change", device: "right0", last: last, confirm: confirm, policy: text}).killed(t, lab.Right, after)
	}
	if killed("never", 0, 0, policyA) {
		t.Fatal("a command was killed that nobody killed")
	}
	whole := time.Since(start)

	// Each starts from policy A: as such, or back after a trial that nobody confirmed.
	round := func(last string, after, confirm time.Duration, lapsed bool) {
		t.Helper()
		change(t, a, 0, policyA)
		if lapsed {
			change(t, a, time.Millisecond, policyC)
			lapse(t, a)
		}
		before, _ := inForce(t, a)
		wasKilled := killed(last, after, confirm, policyB)
		now, pending := inForce(t, a)
		switched := now.Generation == before.Generation+1 && rate(now) == 2000
		kept := now.Generation == before.Generation && rate(now) == 1000 && pending == 0
		over := now.Generation == before.Generation+2 && rate(now) == 1000 && pending == 0 && confirm > 0
		if !switched && !kept && !over {
			t.Errorf("killed at %q or %v: in force is rate %d, generation %d, pending %v", last, after, rate(now), now.Generation, pending)
		}
		if last != "" && !wasKilled {
			t.Errorf("the command never came to %q", last)
		}
		if confirm == 0 {
			return
		}
		if got := rate(lapse(t, a)); got != 1000 {
			t.Errorf("killed at %q or %v, past the deadline: rate %d", last, after, got)
		}
	}
	for _, lapsed := range []bool{false, true} {
		for _, last := range []string{"waited", "settled", "renumbered", "reinstated", "written", "cleared", "prepared", "switched", "waited again"} {
			if !lapsed && strings.HasPrefix(last, "re") {
				continue
			}
			for _, confirm := range []time.Duration{0, 20 * time.Millisecond} {
				round(last, 0, confirm, lapsed)
			}
		}
	}
	for i := range 20 {
		round("", time.Duration(random.Int64N(int64(whole))), time.Duration(i%2)*20*time.Millisecond, i%4 > 1)
	}

	change(t, a, 0, policyB)
	buckets, err := maps.OpenBuckets(a.Maps.Buckets)
	if err != nil {
		t.Fatal(err)
	}
	defer buckets.Close()
	now, _ := inForce(t, a)
	var torn int
	for _, slot := range buckets.All(&torn) {
		if slot.Generation != now.Generation {
			t.Errorf("a bucket of generation %d after change %d", slot.Generation, now.Generation)
		}
	}
	f.end(t, greenA, redA, greenB, redB, greenC, redC)
}
