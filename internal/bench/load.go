package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"

	"github.com/tricolor-policer/tricolor/loader"
	"github.com/tricolor-policer/tricolor/marker"
)

// loadSection writes what loading the kernel program takes.
func loadSection(t *table) error {
	for _, slots := range []uint64{64, 1 << 21} {
		plan, err := planOf(marker.Params{Meter: marker.SRTCM, CIR: plenty.rate, CBS: plenty.burst, EBS: 1 << 20}, slots)
		if err != nil {
			return err
		}
		var took figure
		for range rounds {
			start := time.Now()
			p, err := loader.Load(plan, loader.Options{Seeds: marker.SeedsFrom(1)})
			if err != nil {
				return err
			}
			took = append(took, float64(time.Since(start).Microseconds())/1000)
			if slots == 64 && len(took) == rounds {
				if err := instructionRow(t, p.Program); err != nil {
					return errors.Join(err, p.Close())
				}
			}
			if err := p.Close(); err != nil {
				return err
			}
		}
		t.row(fmt.Sprintf("load of the kernel program, %d slots", slots), took, "ms", "")
	}
	return nil
}

// instructionRow writes how many instructions the verifier walked, of the million that it would.
func instructionRow(t *table, p *ebpf.Program) error {
	info, err := p.Info()
	if err != nil {
		return err
	}
	if n, ok := info.VerifiedInstructions(); ok {
		t.row("instructions verified", figure{float64(n)}, "", "")
	}
	return nil
}
