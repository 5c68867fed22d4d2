package loader

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/tricolor-policer/tricolor/internal/netlab"
	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/maps"
)

// kills counts the processes that were killed, by command and step.
type kills struct {
	steps  []string
	number map[string]int
}

func (k *kills) add(tb testing.TB, c *command, killed bool) {
	tb.Helper()
	what := c.verb + " at " + c.last
	if c.last == "" {
		what = c.verb + " at any time"
	} else if !killed {
		tb.Errorf("%s never came to %q", c.verb, c.last)
	}
	if k.number == nil {
		k.number = map[string]int{}
	}
	if _, found := k.number[what]; !found {
		k.steps = append(k.steps, what)
		k.number[what] = 0
	}
	if killed {
		k.number[what]++
	}
}

// end prints the kills of each step, of which none may be 0.
func (k *kills) end(tb testing.TB) {
	tb.Helper()
	all, lines := 0, []string{}
	for _, what := range k.steps {
		lines = append(lines, fmt.Sprintf("%4d  %s", k.number[what], what))
		all += k.number[what]
		if k.number[what] == 0 {
			tb.Errorf("no process was killed: %s", what)
		}
	}
	tb.Logf("%d processes killed:\n%s", all, strings.Join(lines, "\n"))
}

// A command that is killed, at whatever moment, leaves the device policed or not, whole, and says which; the
// same command again finishes its work; and then nothing is left of the one that was killed.
func TestKilled(t *testing.T) {
	var k kills
	for _, m := range mechanisms {
		t.Run(m.String(), func(t *testing.T) { testKilled(t, m, &k) })
	}
	if !t.Failed() && !t.Skipped() {
		k.end(t)
	}
}

func testKilled(t *testing.T, m Mechanism, k *kills) {
	t.Helper()
	needs(t, m)
	lab := newLab(t, netlab.Options{})
	random := rand.New(rand.NewPCG(testutils.Seed(t), 0))
	host := lab.Right
	run := func(verb string) {
		t.Helper()
		c := command{verb: verb, device: "right0", mechanism: m, policy: policyA, last: "never"}
		if c.killed(t, host, 0) {
			t.Fatalf("%s was killed by nobody", verb)
		}
	}
	policed := func(what string) (is bool) {
		t.Helper()
		marks := sendTo(t, lab, port, 1)
		if marks[0] == 0 && marks[greenA]+marks[redA] == 0 {
			t.Errorf("%s: the packet did not arrive", what)
		}
		return marks[0] == 0
	}
	state := func() (is State, found bool) {
		t.Helper()
		err := host.Do(func() error {
			a, err := Find("right0", Ingress)
			if err != nil {
				return err
			}
			is = a.State
			return a.Close()
		})
		return is, err == nil
	}
	// Nothing is left when nothing is attached, and one hook and one folder of pins when it is.
	whole := func(what string, attached bool) {
		t.Helper()
		if is, found := state(); found != attached || found && is != Attached {
			t.Errorf("%s: attached is %v, %v", what, found, is)
		}
		if policed(what) != attached {
			t.Errorf("%s: policed is %v", what, !attached)
		}
		want := ""
		if attached && m == Clsact {
			want = "clsact ingress:tricolor"
		}
		if got := hooks(t, host); got != want {
			t.Errorf("%s: on the hook: %q, want %q", what, got, want)
		}
		if !attached {
			wantNothing(t)
		} else if pins := pinned(t); len(pins) != 2+pinsOf(m) {
			t.Errorf("%s: pins %v", what, pins)
		}
	}
	cases := map[string][]string{
		"attach":  {"folder made", "maps pinned", "program pinned", "qdisc added", "hooked", "appeared"},
		"upgrade": {"pinned next", "replaced", "promoted"},
		"detach":  {"unhooked", "set aside"},
	}
	start := time.Now()
	run("attach")
	run("detach")
	took := time.Since(start) / 2
	atAnyTime := 20
	if testing.Short() {
		atAnyTime = 4
	}
	for _, verb := range []string{"attach", "upgrade", "detach"} {
		last := cases[verb]
		for range atAnyTime {
			last = append(last, "")
		}
		for _, last := range last {
			if last == "qdisc added" && m == TCX {
				continue
			}
			c := &command{verb: verb, device: "right0", mechanism: m, policy: policyA, last: last}
			if verb != "attach" {
				run("attach")
			}
			killed := c.killed(t, host, time.Duration(random.Int64N(int64(took))))
			k.add(t, c, killed)
			what := fmt.Sprintf("%s killed at %q", verb, last)
			is, found := state()
			switch {
			case verb == "upgrade" && (!found || is != Attached):
				t.Errorf("%s: %v, %v", what, found, is)
			case found && is == Attached && !policed(what):
				t.Errorf("%s: not policed, though attached", what)
			case found && is == Stale && verb != "detach":
				t.Errorf("%s: stale", what)
			}
			switch verb {
			case "attach":
				if !found {
					run("attach") // finishes it
				}
				whole(what+", then attached again", true)
				run("detach")
			case "upgrade":
				run("upgrade")
				whole(what+", then upgraded again", true)
				run("detach")
			case "detach":
				if found {
					run("detach")
				} else { // its remains go with the next command
					run("attach")
					run("detach")
				}
			}
			whole(what+", in the end", false)
		}
	}
}

// pinsOf is how many pins an attachment has in its folder.
func pinsOf(m Mechanism) int {
	n := len(new(maps.Maps).Named()) + 1 // and the program
	if m == TCX {
		n++ // and the link
	}
	return n
}
