package loader

import (
	"errors"
	"io"
	"os"
	"testing"

	"github.com/tricolor-policer/tricolor/internal/netlab"
	"github.com/tricolor-policer/tricolor/maps"
	"github.com/tricolor-policer/tricolor/marker"
)

// traced reads all that a watch was told, after it was stopped.
func traced(tb testing.TB, w *Watch) (all []maps.Decision) {
	tb.Helper()
	if err := w.Stop(); err != nil {
		tb.Fatal(err)
	}
	for {
		var d maps.Decision
		switch err := w.Read(&d); {
		case err == nil:
			all = append(all, d)
		case errors.Is(err, io.EOF):
			return all
		case !errors.Is(err, os.ErrDeadlineExceeded):
			tb.Fatal(err)
		}
	}
}

// A watch is told of every decision, with its bucket as it was left.
func TestWatch(t *testing.T) {
	for _, m := range mechanisms {
		t.Run(m.String(), func(t *testing.T) {
			needs(t, m)
			lab := newLab(t, netlab.Options{})
			sink, err := lab.Right.ReceiveUDP(false, port)
			if err != nil {
				t.Fatal(err)
			}
			defer sink.Stop()
			a := attach(t, lab.Right, AttachOptions{Direction: Ingress, Mechanism: m})
			tr, err := find(t, lab.Right, lab.Right.Device, Ingress).Watch(WatchOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer tr.Close()
			flow := netlab.UDPFlow{To: sink.Addr(), From: port, Payload: packetLen - 28, Count: 40}
			if _, err := lab.Left.SendUDP(bounded(t), flow); err != nil {
				t.Fatal(err)
			}
			(&policed{Attachment: a, plan: testPlan(t)}).wait(t, 40)
			all := traced(t, tr)
			if len(all) != 40 {
				t.Fatalf("told of %d decisions, want 40", len(all))
			}
			last := uint64(0)
			for i, d := range all {
				want := []marker.Color{marker.Green, marker.Yellow, marker.Red, marker.Red}[i/10]
				j := d.Judged[0]
				if d.Color != want || j.Color != want || d.Chain != 1 || d.Cost != packetLen || d.Packets != 1 || d.Class != 0 || d.Now < last || j.Bucket.Last != d.Now {
					t.Errorf("decision %d: %+v", i, d)
				}
				last = d.Now
				tokens := uint64(9-i) * packetLen * marker.Nano
				if earned := d.Now - all[0].Now; i < 10 && j.Bucket.Tc != tokens+earned {
					t.Errorf("decision %d: left %d nanobytes, want %d", i, j.Bucket.Tc, tokens+earned)
				}
			}
			stats, err := tr.Stats()
			if err != nil {
				t.Fatal(err)
			}
			if stats != (maps.WatchStats{Decided: 40, Written: 40}) {
				t.Errorf("counters: %+v", stats)
			}
			if ok, err := a.Polices(); !ok && err == nil {
				t.Error("it polices no more, says Polices")
			}
		})
	}
}
