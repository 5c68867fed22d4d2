package main

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/marker"
	"github.com/tricolor-policer/tricolor/pcaptest"
)

// Each example polices each capture: every packet of it is counted once, and each policy meters some.
func TestExamplesReplay(t *testing.T) {
	root := testutils.ModuleRoot(t)
	examples, err := filepath.Glob(filepath.Join(root, "examples", "*.yaml"))
	if err != nil || len(examples) < 5 {
		t.Fatalf("%d examples (%v); want 5", len(examples), err)
	}
	captures, err := filepath.Glob(filepath.Join(root, "testdata", "captures", "*.pcap*"))
	if err != nil || len(captures) == 0 {
		t.Fatalf("no captures (%v)", err)
	}
	for _, example := range examples {
		t.Run(filepath.Base(example), func(t *testing.T) {
			p, _, err := compileFile(example)
			if err != nil {
				t.Fatal(err)
			}
			p.Flows = marker.MinFlows // a table that is made in no time
			plan, err := p.Compile()
			if err != nil {
				t.Fatal(err)
			}
			metered := uint64(0)
			for _, capture := range captures {
				r, err := pcaptest.ReplayCapture(context.Background(), capture, pcaptest.ReplayOptions{Plan: plan, Seeds: marker.SeedsFrom(1)})
				if err != nil {
					t.Fatal(err)
				}
				seen := r.Stats.Port.Unmatched + r.Stats.Port.NotIP + r.Stats.Port.Malformed
				for i := range r.Stats.Classes {
					for _, n := range r.Stats.Classes[i].Packets {
						metered += n
						seen += n
					}
				}
				if seen != uint64(r.Records) {
					t.Errorf("%s: %d packets are counted of %d", filepath.Base(capture), seen, r.Records)
				}
			}
			if metered == 0 {
				t.Error("no packet is metered")
			}
		})
	}
}
