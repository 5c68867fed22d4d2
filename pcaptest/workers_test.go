package pcaptest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/tricolor-policer/tricolor/internal/capture"
	"github.com/tricolor-policer/tricolor/marker"
)

// fate is all that is said of a packet.
type fate struct {
	marker.Outcome
	marked string
}

// byStep replays packet by packet.
func byStep(path string, plan marker.Plan, then []Change) (*Replay, []fate, error) {
	var fates []fate
	r, err := ReplayCapture(context.Background(), path, ReplayOptions{
		Plan: &plan, Seeds: marker.SeedsFrom(1), Then: then,
		Each: func(s *Step) error {
			fates = append(fates, fate{s.Outcome, string(s.Frame.Data)})
			return nil
		},
	})
	return r, fates, err
}

// byLoad replays by workers, and looks at what comes of each packet.
func byLoad(path string, plan marker.Plan, then []Change) (fates []fate, err error) {
	c, err := capture.Open(path)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	m, err := marker.NewMirror(&plan, marker.SeedsFrom(1))
	if err != nil {
		return nil, err
	}
	r := &replaying{Replay: &Replay{}, reader: c, mirror: m, flows: newFlows(m), options: ReplayOptions{Then: then}}
	w := newWorkers(context.Background(), r)
	w.decided = func(l *load) {
		for i := range l.Outcomes {
			fates = append(fates, fate{l.Outcomes[i], string(l.Frames[i].Data)})
		}
	}
	err = w.run()
	return fates, err
}

// sameReplay replays a capture in all ways, and compares all they say. changes are made anew for each.
func sameReplay(t rapid.TB, path string, plan *marker.Plan, changes func() []Change) (packets int) {
	t.Helper()
	want, wantFates, wantErr := byStep(path, *plan, changes())
	fates, err := byLoad(path, *plan, changes())
	if diff := cmp.Diff(wantFates, fates, cmp.AllowUnexported(fate{})); diff != "" {
		t.Errorf("%s: by step -, by load +: %s", path, diff)
	}
	if said(err) != said(wantErr) {
		t.Errorf("%s: by load %v, by step %v", path, err, wantErr)
	}
	first := *plan
	got, err := ReplayCapture(context.Background(), path, ReplayOptions{Plan: &first, Seeds: marker.SeedsFrom(1), Then: changes()})
	if said(err) != said(wantErr) {
		t.Errorf("%s: %v, by step %v", path, err, wantErr)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmp.AllowUnexported(Replay{}, Flow{})); diff != "" {
		t.Errorf("%s: by step -, by load +: %s", path, diff)
	}
	return len(fates)
}

func said(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// What a replay by workers says of each packet, each flow and in its counters is what it says packet by packet:
// of all shared captures, under each policy and with changes.
func TestReplayByWorkers(t *testing.T) {
	dir, files := sharedCaptures(t)
	names, policies := wholePolicies(t, 500)
	for i, p := range policies {
		t.Run(names[i], func(t *testing.T) {
			plan, err := p.Compile()
			if err != nil {
				t.Fatal(err)
			}
			next, err := policies[(i+1)%len(policies)].CompileAfter(plan)
			if err != nil {
				t.Fatal(err)
			}
			packets := 0
			for _, name := range files {
				path := filepath.Join(dir, name)
				at := quarters(t, path)
				packets += sameReplay(t, path, plan, func() (then []Change) {
					for _, at := range at[:min(i, len(at))] { // none, one, two
						next := *next // each run numbers it
						then = append(then, Change{at, &next})
					}
					return then
				})
			}
			t.Logf("%d packets of %d files", packets, len(files))
		})
	}
}

// Captures whose clock does anything, records of any size, cut anywhere, damaged anywhere, with changes of policy at any
// time and a table that forgets and overflows: the same.
func TestReplayByWorkersOfAnything(t *testing.T) {
	path := filepath.Join(t.TempDir(), "any.pcap")
	behind, cuts, forgotten := 0, 0, uint64(0)
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		r := rand.New(rand.NewPCG(seed, 1))
		file := anyCapture(t, r, rapid.IntRange(0, 2500).Draw(t, "packets"))
		if rapid.IntRange(0, 3).Draw(t, "cut") == 0 {
			file = file[:24+r.IntN(len(file)-23)]
		} else if rapid.IntRange(0, 3).Draw(t, "damaged") == 0 {
			file[24+r.IntN(len(file)-23)-1] ^= 1 << r.IntN(8)
		}
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		params := marker.Params{Meter: marker.SRTCM, CIR: 1 + r.Uint64N(1<<20), CBS: r.Uint64N(4000), EBS: 1 + r.Uint64N(4000)}
		plan, other := workersPlan(t, params), workersPlan(t, marker.Params{Meter: marker.Token, CIR: 1 + r.Uint64N(1<<20), CBS: 1 + r.Uint64N(4000)})
		var at []uint64
		for range rapid.IntRange(0, 3).Draw(t, "changes") {
			at = append(at, r.Uint64N(20e9))
		}
		sameReplay(t, path, plan, func() (then []Change) {
			for i := range at {
				next := *[]*marker.Plan{other, plan}[i%2]
				then = append(then, Change{at[i], &next})
			}
			return then
		})
		first := *plan
		replay, err := ReplayCapture(context.Background(), path, ReplayOptions{Plan: &first, Seeds: marker.SeedsFrom(1)})
		if err != nil {
			cuts++
		}
		if replay != nil {
			forgotten += replay.Forgotten
			if replay.Behind != nil {
				behind++
			}
		}
	})
	if behind == 0 || cuts == 0 || forgotten == 0 {
		t.Errorf("%d captures had a packet behind, %d a cut, %d buckets were forgotten: this tests nothing", behind, cuts, forgotten)
	}
}

func workersPlan(t rapid.TB, params marker.Params) *marker.Plan {
	t.Helper()
	profile, err := params.Compile()
	if err != nil {
		t.Fatal(err)
	}
	g, err := marker.NewGeometry(64, [marker.MaxChain]bool{true}, 1)
	if err != nil {
		t.Fatal(err)
	}
	profile.Overflow = g.OverflowSet(0, 0)
	m := marker.NewMeter(0, 0, marker.PerFlow, [2]int{32, 64})
	m.Reserved = g.ReservedSet(0)
	return &marker.Plan{
		Geometry: g, Profiles: []marker.Profile{profile}, Rules: []marker.Rule{marker.AnyRule(0)},
		Classes: []marker.Class{{Name: "all", Meters: []marker.Meter{m}, Actions: [marker.Colors]marker.Action{
			marker.Yellow: {Verbs: marker.VerbDSCP, DSCP: 12}, marker.Red: {Verbs: marker.VerbDrop}}}},
	}
}

// anyCapture is a capture of frames from the grammar, most of them of a few flows, at times that mostly go on.
func anyCapture(t rapid.TB, r *rand.Rand, packets int) []byte {
	t.Helper()
	var file bytes.Buffer
	w, err := capture.NewWriter(&file, capture.LinkEthernet)
	if err != nil {
		t.Fatal(err)
	}
	now := uint64(10e9)
	for i := range packets {
		now += r.Uint64N(2e6)
		if r.IntN(200) == 0 {
			now = r.Uint64N(20e9)
		}
		frame := (&grammar{Rand: r}).frame()
		data := frame.Data
		if r.IntN(3) > 0 {
			data = flowFrame(r.Uint32N(200), 64+r.IntN(100))
		}
		if r.IntN(500) == 0 {
			data = append(data, make([]byte, r.IntN(200_000))...) // more than is read at a time
		}
		p := capture.Packet{Number: int64(i + 1), Time: now, Link: capture.LinkEthernet, Length: len(data) + r.IntN(2)*r.IntN(2000)}
		if err := w.Write(&p, data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// flowFrame is an IPv4 frame of a flow.
func flowFrame(flow uint32, size int) []byte {
	f := make([]byte, size)
	f[12] = 0x08
	ip := f[14:]
	ip[0], ip[8], ip[9] = 0x45, 64, 17
	binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)))
	binary.BigEndian.PutUint32(ip[12:], flow)
	return f
}

// flowsCapture writes a capture of so many packets of 500 flows.
func flowsCapture(t *testing.T, packets int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "flows.pcap")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	w, err := capture.NewWriter(file, capture.LinkEthernet)
	if err != nil {
		t.Fatal(err)
	}
	for i := range packets {
		data := flowFrame(uint32(i%500), 96)
		if err := w.Write(&capture.Packet{Time: uint64(i) * 1000, Link: capture.LinkEthernet, Length: 96}, data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return path
}

// A replay of ten times as many packets of the same flows allocates no more, neither at a time nor in all: so nothing is
// allocated for a packet, and the peak of memory does not grow with the file. (The runtime allocates a little of its
// own, at times.)
func TestReplayAllocatesNothingForAPacket(t *testing.T) {
	plan := workersPlan(t, marker.Params{Meter: marker.SRTCM, CIR: 1e6, CBS: 1e5, EBS: 1e5})
	measure := func(path string) (objects, size []uint64) {
		for range 5 {
			var before, after runtime.MemStats
			first := *plan
			runtime.GC()
			runtime.ReadMemStats(&before)
			if _, err := ReplayCapture(context.Background(), path, ReplayOptions{Plan: &first, Seeds: marker.SeedsFrom(1)}); err != nil {
				t.Fatal(err)
			}
			runtime.ReadMemStats(&after)
			objects, size = append(objects, after.Mallocs-before.Mallocs), append(size, after.TotalAlloc-before.TotalAlloc)
		}
		return objects, size
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2)) // each worker has a load: all of them take part
	const packets = 30_000
	objects, size := measure(flowsCapture(t, packets))
	moreObjects, moreSize := measure(flowsCapture(t, 10*packets))
	t.Logf("%d packets: %d objects, %d bytes; ten times as many: %d objects, %d bytes", packets, objects, size, moreObjects, moreSize)
	if slices.Min(moreObjects) > slices.Max(objects)+packets/1000 {
		t.Errorf("%d objects; for ten times as many packets %d", objects, moreObjects)
	}
	if slices.Min(moreSize) > slices.Max(size)+9*packets { // a byte for each packet that is more
		t.Errorf("%d bytes; for ten times as many packets %d", size, moreSize)
	}
}

// A context that ends, and a policy that does not fit, end a replay and leave nothing behind.
func TestReplayEnds(t *testing.T) {
	plan := workersPlan(t, marker.Params{Meter: marker.SRTCM, CIR: 1e6, CBS: 1e5, EBS: 1e5})
	path := flowsCapture(t, 20_000)
	before := runtime.NumGoroutine()
	ctx, cancel := context.WithCancel(context.Background())
	first := *plan
	_, err := ReplayCapture(ctx, path, ReplayOptions{Plan: &first, Seeds: marker.SeedsFrom(1), Progress: func(int64) { cancel() }})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("ended by its context: %v", err)
	}
	wrong := *workersPlan(t, marker.Params{Meter: marker.Token, CIR: 1, CBS: 1})
	wrong.Geometry.Profiles++
	second := *plan
	r, err := ReplayCapture(context.Background(), path, ReplayOptions{
		Plan: &second, Seeds: marker.SeedsFrom(1), Then: []Change{{At: 10_000_000, Plan: &wrong}},
	})
	if !errors.Is(err, marker.ErrPlan) || r.Records != 10_001 {
		t.Errorf("ended by its policy: %v after %+v", err, r)
	}
	if after := runtime.NumGoroutine(); after > before {
		t.Errorf("%d goroutines more than before", after-before)
	}
}
