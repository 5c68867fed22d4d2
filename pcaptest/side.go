package pcaptest

import (
	"errors"

	"github.com/tricolor-policer/tricolor/loader"
	"github.com/tricolor-policer/tricolor/maps"
	"github.com/tricolor-policer/tricolor/marker"
)

// Side is one of the two implementations.
type Side interface {
	// Packet polices a frame at now (ns), and marks its bytes in place.
	Packet(f *marker.Frame, now uint64) (marker.Outcome, error)
	// Set reads a set of buckets.
	Set(i uint32, out *marker.Set) error
	// Stats reads all counters.
	Stats() (marker.Stats, error)
	// Apply changes the policy at now (ns). Past deadline (ns; 0: none) the one before is in force again.
	Apply(plan *marker.Plan, now, deadline uint64) error
	Close() error
}

// Mirror is the Go side.
type Mirror struct{ *marker.Mirror }

// NewMirror makes the Go side.
func NewMirror(plan *marker.Plan, seeds marker.Seeds) (*Mirror, error) {
	m, err := marker.NewMirror(plan, seeds)
	return &Mirror{m}, err
}

// Packet implements Side.
func (m *Mirror) Packet(f *marker.Frame, now uint64) (marker.Outcome, error) {
	return m.Mirror.Packet(f, now), nil
}

// Set implements Side.
func (m *Mirror) Set(i uint32, out *marker.Set) error {
	*out = m.Sets()[i]
	return nil
}

// Stats implements Side.
func (m *Mirror) Stats() (marker.Stats, error) { return *m.Mirror.Stats(), nil }

// Close implements Side.
func (m *Mirror) Close() error { return nil }

// Kernel is the kernel's side: the shipped program object, in test runs.
type Kernel struct {
	Program *loader.Program
	Runner  *loader.Runner
	buckets *maps.Buckets
	plan    *marker.Plan
	changer *loader.Changer // nil before the first Apply
}

// NewKernel loads the kernel's side. Errors are loader.Load's.
func NewKernel(plan *marker.Plan, seeds marker.Seeds) (*Kernel, error) {
	program, err := loader.Load(plan, loader.Options{Seeds: seeds, Replay: true})
	if err != nil {
		return nil, err
	}
	buckets, err := maps.OpenBuckets(program.Maps.Buckets)
	if err != nil {
		return nil, errors.Join(err, program.Close())
	}
	return &Kernel{Program: program, Runner: loader.NewRunner(program), buckets: buckets, plan: plan}, nil
}

// Packet implements Side.
func (k *Kernel) Packet(f *marker.Frame, now uint64) (marker.Outcome, error) {
	return k.Runner.Run(f, now)
}

// Set implements Side.
func (k *Kernel) Set(i uint32, out *marker.Set) error { return k.buckets.Set(i, out) }

// Stats implements Side.
func (k *Kernel) Stats() (marker.Stats, error) { return k.Program.Maps.Stats(k.plan) }

// Apply implements Side.
func (k *Kernel) Apply(plan *marker.Plan, now, deadline uint64) error {
	if k.changer == nil {
		changer, err := loader.NewChanger(k.Program.Maps, true)
		if err != nil {
			return err
		}
		k.changer = changer
	}
	if err := k.changer.Apply(plan, now, deadline); err != nil {
		return err
	}
	k.plan = plan
	return nil
}

// Close implements Side.
func (k *Kernel) Close() error {
	errs := []error{k.buckets.Close(), k.Program.Close()}
	if k.changer != nil {
		errs = append(errs, k.changer.Close())
	}
	return errors.Join(errs...)
}
