package loader

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/tricolor-policer/tricolor/internal/netlab"
	"github.com/tricolor-policer/tricolor/marker"
)

// Policies whose one bucket all packets share.
const (
	slow = `
version: 1
flows: 64
profiles: { p: { meter: token, cir: 400kB/s, cbs: 20kB } }
classes: [ { name: test, meters: [ { profile: p, per: class } ], green: { dscp: 11 }, red: { dscp: 12 } } ]
`
	fast = `
version: 1
flows: 64
profiles: { p: { meter: token, cir: 800kB/s, cbs: 40kB } }
classes: [ { name: test, meters: [ { profile: p, per: class } ], green: { dscp: 21 }, red: { dscp: 22 } } ]
`
	fastRate, fastBurst = 800e3, 40e3 // bytes per second, bytes
)

// However often the policy changes under traffic: every packet is policed by one or the other, what is green
// stays within the larger of the two envelopes, the counters count all, and nothing is left behind.
func TestChangesUnderTraffic(t *testing.T) {
	for _, c := range []struct {
		what    string
		m       Mechanism
		changes int
		other   string
	}{
		{"two policies", TCX, 1000, slow},
		{"two policies", Clsact, 100, slow},
		{"the same again", TCX, 200, fast},
	} {
		if testing.Short() {
			c.changes /= 20
		}
		t.Run(fmt.Sprintf("%s, %v", c.what, c.m), func(t *testing.T) { testChangesUnderTraffic(t, c.m, c.changes, c.other) })
	}
}

func testChangesUnderTraffic(t *testing.T, m Mechanism, changes int, other string) {
	t.Helper()
	needs(t, m)
	lab := newLab(t, netlab.Options{})
	start, err := Now()
	if err != nil {
		t.Fatal(err)
	}
	a := attachPolicy(t, lab, m, fast)
	f := startFlood(t, lab, 3, 100*time.Microsecond)
	change(t, a, 0, fast) // what is made once is there
	held, pins, objects := descriptors(t), pinned(t), kernelObjects(t)
	for i := range changes {
		change(t, a, 0, []string{other, fast}[i%2])
	}
	wantSame(t, "descriptors", held, descriptors(t))
	wantSame(t, "pins", pins, pinned(t))
	// Others load programs meanwhile, so that these are not ours alone.
	for kind, n := range kernelObjects(t) {
		if n > objects[kind]+changes/4+20 {
			t.Errorf("%d %s, before there were %d", n, kind, objects[kind])
		}
	}

	dscps := []uint8{11, 12, 21, 22}
	if other == fast {
		dscps = dscps[2:]
	}
	sent, marks := f.end(t, dscps...)
	end, err := Now()
	if err != nil {
		t.Fatal(err)
	}
	for _, dscp := range dscps {
		if marks[dscp] == 0 {
			t.Errorf("no packet was marked with DSCP %d: the test shows nothing", dscp)
		}
	}
	green, red := marks[11]+marks[21], marks[12]+marks[22]
	took := time.Duration(end - start)
	most := uint64(fastBurst + fastRate*took.Seconds())
	if green*packetLen > most {
		t.Errorf("%d bytes of green in %v: at most %d", green*packetLen, took, most)
	}
	t.Logf("%d changes in %v; %d packets; green %d bytes of at most %d", changes, took, sent, green*packetLen, most)

	plan, _ := inForce(t, a)
	if plan.Generation != uint32(changes)+2 {
		t.Errorf("generation %d after %d changes", plan.Generation, changes+1)
	}
	s, err := a.Maps.Stats(plan)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Classes[0].Packets; got != [marker.Colors]uint64{marker.Green: green, marker.Red: red} {
		t.Errorf("counted %v, arrived %d green and %d red", got, green, red)
	}
	if s.Port != (marker.PortStats{}) {
		t.Errorf("not policed: %+v", s.Port)
	}
}

func wantSame(tb testing.TB, what string, before, after map[string]int) {
	tb.Helper()
	if !maps.Equal(before, after) {
		tb.Errorf("%s before %v, after %v", what, before, after)
	}
}

// descriptors counts this process's open BPF objects, by kind.
func descriptors(tb testing.TB) map[string]int {
	tb.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		tb.Fatal(err)
	}
	kinds := map[string]int{}
	for _, e := range entries {
		target, err := os.Readlink(filepath.Join("/proc/self/fd", e.Name()))
		if err == nil && strings.Contains(target, "bpf") {
			kinds[target]++
		}
	}
	return kinds
}

// pinned lists all pins.
func pinned(tb testing.TB) map[string]int {
	tb.Helper()
	all := map[string]int{}
	err := filepath.WalkDir(Root, func(path string, _ os.DirEntry, err error) error {
		all[path]++
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	return all
}

// kernelObjects counts the maps and programs of the whole machine.
func kernelObjects(tb testing.TB) map[string]int {
	tb.Helper()
	all := map[string]int{}
	for id := ebpf.MapID(0); ; all["maps"]++ {
		var err error
		if id, err = ebpf.MapGetNextID(id); err != nil {
			break
		}
	}
	for id := ebpf.ProgramID(0); ; all["programs"]++ {
		var err error
		if id, err = ebpf.ProgramGetNextID(id); err != nil {
			break
		}
	}
	return all
}
