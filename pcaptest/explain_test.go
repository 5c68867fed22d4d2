package pcaptest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/tricolor-policer/tricolor/internal/capture"
	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/marker"
)

// policedPacket is what a replay says of a packet.
type policedPacket struct {
	outcome marker.Outcome
	buckets [marker.MaxChain]marker.Bucket
	marked  []byte
}

// replayed replays a capture, and returns what became of each packet.
func replayed(t *testing.T, path string, plan *marker.Plan, then []Change) (packets []policedPacket) {
	t.Helper()
	_, err := ReplayCapture(context.Background(), path, ReplayOptions{
		Plan: plan, Seeds: marker.SeedsFrom(1), Then: then,
		Each: func(s *Step) error {
			p := policedPacket{outcome: s.Outcome, marked: bytes.Clone(s.Frame.Data)}
			for i := range p.buckets {
				if s.Outcome.Slots[i] != marker.NoSet {
					p.buckets[i] = s.Buckets[i].Bucket
				}
			}
			packets = append(packets, p)
			return nil
		},
	})
	if err != nil && len(packets) == 0 {
		t.Fatal(err)
	}
	return packets
}

// holds compares an explanation with the replay.
func (p *policedPacket) holds(t *testing.T, path string, e *Explained) {
	t.Helper()
	if e.Outcome != p.outcome || e.Outcome.Kind == marker.Metered && e.Charge.Cost != p.outcome.Cost {
		t.Errorf("%s: packet %d: %+v, replay says %+v", path, e.Packet.Number, e.Explanation, p.outcome)
	}
	for i := range e.Chain {
		if e.Chain[i].After != p.buckets[i] || e.Chain[i].Slot != p.outcome.Slots[i] {
			t.Errorf("%s: packet %d: %+v, replay says %+v", path, e.Packet.Number, e.Chain[i], p.buckets[i])
		}
	}
	if e.Changed && !e.Outcome.Dropped {
		f := frameOf(&e.Packet, len(e.Packet.Data))
		if bytes.Equal(f.Data, p.marked) {
			t.Errorf("%s: packet %d: told to be written, and was not", path, e.Packet.Number)
		}
	}
}

// What is explained is what a replay says: of packets of all shared captures, under each policy and with changes.
func TestExplainIsReplay(t *testing.T) {
	dir, files := sharedCaptures(t)
	names, policies := wholePolicies(t, 500)
	r := rand.New(rand.NewPCG(7, 1))
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
			var explained, metered int
			var colors [marker.Colors]int
			for _, name := range files {
				path := filepath.Join(dir, name)
				for _, changes := range []bool{false, true} {
					then := func() (then []Change) {
						if at := quarters(t, path); changes && len(at) > 0 {
							next := *next // each run numbers it
							then = append(then, Change{at[0], &next})
						}
						return then
					}
					first := *plan
					packets := replayed(t, path, &first, then())
					if len(packets) == 0 {
						continue
					}
					for range 2 {
						n := r.IntN(min(len(packets), 3000)) // those behind would take long, again and again
						first := *plan
						e, err := Explain(context.Background(), path, ExplainOptions{
							Plan: &first, Seeds: marker.SeedsFrom(1), Then: then(), Packet: int64(n) + 1,
						})
						if err != nil {
							t.Fatal(err)
						}
						packets[n].holds(t, name, e)
						explained++
						if e.Outcome.Kind == marker.Metered {
							metered++
							colors[e.Outcome.Color]++
						}
					}
				}
			}
			t.Logf("%d packets of %d files explained, %d metered, green/yellow/red %v", explained, len(files), metered, colors)
			if colors[marker.Green] == 0 || colors[marker.Yellow] == 0 || colors[marker.Red] == 0 {
				t.Error("a colour never occurred")
			}
		})
	}
}

// A packet that is not there: how many there are, and what ended them.
func TestExplainNoPacket(t *testing.T) {
	path := filepath.Join(testutils.ModuleRoot(t), "testdata", "captures", "07-cesnet-ntp-af11-ef-cs6.pcap")
	_, policies := wholePolicies(t, 10)
	plan, err := policies[0].Compile()
	if err != nil {
		t.Fatal(err)
	}
	explain := func(path string, n int64) error {
		_, err := Explain(context.Background(), path, ExplainOptions{Plan: plan, Seeds: marker.SeedsFrom(1), Packet: n})
		return err
	}
	if err := explain(path, 56); err != nil {
		t.Error(err)
	}
	if err := explain(path, 57); !errors.Is(err, ErrNoPacket) {
		t.Error(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(t.TempDir(), "cut.pcap")
	if err := os.WriteFile(cut, whole[:len(whole)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	if err := explain(cut, 55); err != nil {
		t.Errorf("before the cut: %v", err)
	}
	var fault *capture.CutError
	if err := explain(cut, 56); errors.Is(err, ErrNoPacket) || !errors.As(err, &fault) || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
}
