package pcaptest

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/tricolor-policer/tricolor/internal/capture"
	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/marker"
)

func TestX(t *testing.T) {
	testutils.RequireKernel(t)
	files, _ := filepath.Glob(filepath.Join(testutils.SharedDir(t), "pcaps", "*.pcap*"))
	for _, f := range files {
		r, err := capture.Open(f)
		if err != nil {
			t.Log(f, err)
			continue
		}
		plan := planOf(t, marker.Params{Meter: marker.SRTCM, CIR: 20000, CBS: 6000, EBS: 6000}, marker.PerFlow, 64)
		m, err := NewMirror(plan, marker.SeedsFrom(1))
		if err != nil {
			t.Fatal(err)
		}
		k, err := NewKernel(plan, marker.SeedsFrom(1))
		if err != nil {
			t.Fatal(err)
		}
		v, err := Verify(context.Background(), r, f, plan, m, k, nil)
		t.Log(filepath.Base(f), v, err)
		if v.First != nil {
			t.Error(v.First)
		}
	}
}
