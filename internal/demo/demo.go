// Package demo polices real traffic between two hosts that it makes for the purpose, and proves by what
// arrives that the policer's counters and its promise hold.
//
// The hosts are network namespaces without a name, joined by a veth pair (package netlab). The policer
// is on what leaves the left one, so that a capture at the right one sees what it let through. It is
// held, not pinned (loader.Hold): namespaces, devices, program and maps are all referred to by this
// process alone, and so the kernel removes them when it ends, be it by a failure, Ctrl-C or SIGKILL.
// Pinned, as "tricolor attach" does it, the program would outlive the demo wherever its cleaning up is
// cut short.
//
// Nothing here rests on timing: what is compared are counts of the same packets, taken apart from each
// other, and bounds that hold whatever the scheduler does.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tricolor-policer/tricolor/internal/netlab"
	"github.com/tricolor-policer/tricolor/loader"
	"github.com/tricolor-policer/tricolor/policy"
)

// ErrDisagree is what Run returns where the far side and the policer tell two stories.
var ErrDisagree = errors.New("the far side and the policer's counters disagree")

// settleWithin bounds the time beyond Options.For that the traffic may take; it takes a small part of it.
const settleWithin = 20 * time.Second

// gsoSegments is how many segments a super-packet has at most: the policer judges them as one, so they
// must fit in the bursts.
const gsoSegments = 16

// Options say how the demo runs. The zero value is the demo as the command shows it.
type Options struct {
	For       time.Duration    // how long the senders send; 0: 3 s
	Mechanism loader.Mechanism // how the policer is attached
	// Tamper adds one to a count of the far side, as if the policer had missed a packet: the demo must
	// see it.
	Tamper bool

	flows   []flow             // nil: those of the demo
	policed func(*loader.Held) // is told of the policer before the first packet
}

// words are the policy, as flags of attach.
var words = policy.Words{
	Meter: "srtcm", CIR: "10mbit", CBS: "96KiB", EBS: "192KiB", Flows: "1024",
	Green: "dscp=af11", Yellow: "dscp=af12", Red: "drop",
}

// What words says of marks, as DSCP.
const (
	af11 = 10
	af12 = 12
)

// Run runs the demo and writes what it did, and the proof, to w. Everything that it made is gone when it
// returns.
//
// It returns ErrDisagree where the proof fails, ctx's error where that ended first, or an error that
// wraps loader.ErrPrivilege or loader.ErrKernel. Requires root and Linux 6.1.
func Run(ctx context.Context, w io.Writer, o Options) error {
	if o.For == 0 {
		o.For = 3 * time.Second
	}
	if o.flows == nil {
		o.flows = flows
	}
	e, err := run(ctx, w, o)
	if err != nil {
		return err
	}
	if o.Tamper {
		e.flows[0].seen.DSCP[af11].Packets++
	}
	printFlows(w, e)
	if disagreeing := printProof(w, prove(e)); disagreeing > 0 {
		return ErrDisagree
	}
	return nil
}

// run builds the laboratory, lets the flows run under the policer, and takes all of it down again.
func run(ctx context.Context, w io.Writer, o Options) (_ *evidence, err error) {
	p, err := words.Policy()
	if err != nil {
		return nil, err
	}
	plan, err := p.Compile()
	if err != nil {
		return nil, err
	}
	lab, err := netlab.New(netlab.Options{GSOSegments: gsoSegments})
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return nil, fmt.Errorf("%w: the demo makes network namespaces: run it as root: %w", loader.ErrPrivilege, err)
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lab.Close()) }()

	var policer *loader.Held
	err = lab.Left.Do(func() (err error) {
		policer, err = loader.Hold(lab.Left.Device, plan, loader.AttachOptions{Direction: loader.Egress, Mechanism: o.Mechanism})
		return err
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, policer.Close()) }()
	if o.policed != nil {
		o.policed(policer)
	}
	printSetup(w, lab, policer, o.For)

	e := &evidence{profile: plan.Profiles[0]}
	t, err := listen(lab, o.flows)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	bounded, cancel := context.WithTimeout(ctx, o.For+settleWithin)
	defer cancel()
	err = t.send(bounded, e, o.For)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("the flows did not end within %v: is the machine overloaded? %w", o.For+settleWithin, err)
	}
	if err != nil {
		return nil, err
	}
	if err := t.collect(e); err != nil {
		return nil, err
	}
	return e, e.readCounters(policer.Maps, plan)
}
