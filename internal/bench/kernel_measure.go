package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"

	"github.com/tricolor-policer/tricolor/loader"
	"github.com/tricolor-policer/tricolor/marker"
	"github.com/tricolor-policer/tricolor/policy"
)

// arm is one thing that is timed in the kernel, in turn with others: a driver and what it calls.
type arm struct {
	plan    *marker.Plan
	policer *loader.Program // nil: the empty program, or a peer
	nothing *ebpf.Program
	*driver
	stream stream
	times  figure // ns a packet
}

// compile reads a policy, as a user writes it; of none there is no plan.
func compile(text string) (*marker.Plan, error) {
	if text == "" {
		return nil, nil
	}
	p, err := policy.Parse("bench.yaml", []byte(text), nil)
	if err != nil {
		return nil, err
	}
	return p.Compile()
}

// newArm loads a plan and its driver, and sends the first packet of every flow. Without a plan the driver calls an
// empty program.
func newArm(plan *marker.Plan, t stream) (_ *arm, err error) {
	a := &arm{plan: plan, stream: t}
	defer func() {
		if err != nil {
			a.Close()
		}
	}()
	if plan == nil {
		if a.nothing, err = empty(); err != nil {
			return nil, err
		}
		a.driver, err = newDriver(a.nothing, t)
		return a, err
	}
	if a.policer, err = loader.Load(a.plan, loader.Options{Seeds: marker.SeedsFrom(1)}); err != nil {
		return nil, err
	}
	if err := a.drive(a.policer.Program); err != nil {
		return nil, err
	}
	return a, nil
}

// drive sends a target a packet of every flow, in order, and loads the driver that is timed.
func (a *arm) drive(target *ebpf.Program) error {
	t := a.stream
	t.sequential = true
	first, err := newDriver(target, t)
	if err != nil {
		return err
	}
	defer first.Close()
	if _, err := perPacket(first.Program, t.frame, t.flows); err != nil {
		return err
	}
	a.driver, err = newDriver(target, a.stream)
	return err
}

// Close closes the programs and their maps. None at all is fine.
func (a *arm) Close() {
	if a == nil {
		return
	}
	if a.driver != nil {
		a.driver.Close()
	}
	if a.policer != nil {
		a.policer.Close()
	}
	if a.nothing != nil {
		a.nothing.Close()
	}
}

// perPacket is the mean time of runs test runs of a program, in ns. The kernel tells it in whole ones: so this
// is the time that the call took.
func perPacket(p *ebpf.Program, frame []byte, runs uint32) (float64, error) {
	start := time.Now()
	_, _, err := p.Benchmark(frame, int(runs), nil)
	return since(start, int(runs)), err
}

// colors are the counters of all classes together. An error if a packet was metered by none.
func (a *arm) colors() (sum marker.ClassStats, err error) {
	stats, err := a.policer.Maps.Stats(a.plan)
	if err != nil {
		return sum, err
	}
	if stats.Port != (marker.PortStats{}) {
		return sum, fmt.Errorf("the bench's packets were not all metered: %+v", stats.Port)
	}
	for _, c := range stats.Classes {
		for i := range c.Packets {
			sum.Packets[i] += c.Packets[i]
			sum.Bytes[i] += c.Bytes[i]
		}
		sum.Overflow += c.Overflow
		sum.Contended += c.Contended
		sum.ClockBack += c.ClockBack
	}
	return sum, nil
}

// wantColor is an error where more than one packet in a hundred was of another color.
func (a *arm) wantColor(c marker.Color) error {
	stats, err := a.colors()
	if err != nil {
		return err
	}
	if all := stats.Packets[0] + stats.Packets[1] + stats.Packets[2]; stats.Packets[c] < all-all/100 {
		return fmt.Errorf("the bench's packets have the wrong colors: green, yellow, red %d, not nearly all %v", stats.Packets, c)
	}
	return nil
}

// over is an arm's time over another's, round by round.
func (a *arm) over(floor *arm) figure { return a.times.less(floor.times) }

// timeArms times arms in turn, rounds times, of runs packets each.
func timeArms(arms []*arm, rounds int, runs uint32) error {
	for range rounds {
		for _, a := range arms {
			ns, err := perPacket(a.driver.Program, a.stream.frame, runs)
			if err != nil {
				return err
			}
			a.times = append(a.times, ns)
		}
	}
	return nil
}

// armsOf makes an arm of each policy, all of the same stream; the caller calls close.
func armsOf(t stream, texts ...string) (arms []*arm, closeAll func(), err error) {
	closeAll = func() {
		for _, a := range arms {
			a.Close()
		}
	}
	for _, text := range texts {
		plan, err := compile(text)
		if err == nil {
			var a *arm
			a, err = newArm(plan, t)
			arms = append(arms, a)
		}
		if err != nil {
			closeAll()
			return nil, func() {}, errors.Join(fmt.Errorf("policy %q", text), err)
		}
	}
	return arms, closeAll, nil
}

// loadOnce loads a policer and takes it off again.
func loadOnce(plan *marker.Plan) error {
	p, err := loader.Load(plan, loader.Options{Seeds: marker.SeedsFrom(1)})
	if err != nil {
		return err
	}
	return p.Close()
}
