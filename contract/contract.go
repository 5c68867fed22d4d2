// Package contract runs the same arrivals through six contracts that all promise "r a second" and mean
// different things by it: token bucket, GCRA, fixed window, sliding log, sliding window counter and leaky
// bucket shaper. It measures what each let through, and audits the algorithms against what they promise.
//
// Everything is a whole number. Costs are units: packets, or bytes. Time is nanoseconds; where a moment
// need not be a whole one (when a shaper sends, a GCRA's TAT) it is kept as time × rate, in 128 bits: that
// is nano-units of work, and nothing is ever divided or rounded.
package contract

import (
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/tricolor-policer/tricolor/marker"
)

// Kind is one of the six contracts.
type Kind uint8

// The contracts.
const (
	Token   Kind = iota // token bucket: the policer's own token meter
	GCRA                // generic cell rate algorithm (ITU-T I.371): one timestamp, TAT
	Fixed               // fixed window: a counter that begins anew with each window
	Log                 // sliding log: every admission of the last window
	Counter             // sliding window counter: two counters, the previous weighted by its overlap
	Shaper              // leaky bucket: a bounded queue, sent at the rate; no burst
	Kinds               // how many there are
)

var kindNames = [Kinds]string{"token bucket", "GCRA", "fixed window", "sliding log", "sliding counter", "leaky bucket shaper"}

// String returns the name for people.
func (k Kind) String() string {
	if k < Kinds {
		return kindNames[k]
	}
	return fmt.Sprintf("contract(%d)", uint8(k))
}

// Params are what all six are given; each uses what it has a use for. A unit is a packet or a byte.
type Params struct {
	Rate   uint64 // units per second: all
	Burst  uint64 // units: token bucket, GCRA
	Window uint64 // ns: the windows, aligned at time 0
	Queue  uint64 // units: the shaper admits while the wait is at most Queue / Rate
}

// Arrival is something that asks to be let through.
type Arrival struct {
	Time uint64 // ns
	Cost uint64 // units; Cost × 10^9 is below 2^64
}

// ErrParams is what every refusal of Check wraps.
var ErrParams = errors.New("parameters of a contract")

// Check returns an error that wraps ErrParams and joins all that is wrong: a rate or burst of 0 or out of a
// meter's range, a queue out of it, a window in which the rate gives no whole unit, or over 2^63.
func (p Params) Check() error {
	var faults []error
	for _, q := range []struct {
		name               string
		value, least, most uint64
	}{{"rate", p.Rate, 1, marker.MaxRate}, {"burst", p.Burst, 1, marker.MaxBurst}, {"queue", p.Queue, 0, marker.MaxBurst}} {
		if q.value < q.least || q.value > q.most {
			faults = append(faults, fmt.Errorf("%s: %d is out of range: %d to %d", q.name, q.value, q.least, q.most))
		}
	}
	if p.Window == 0 {
		faults = append(faults, errors.New("window: must be longer than 0"))
	} else if quota, ok := p.quota(); !ok {
		faults = append(faults, fmt.Errorf("window: rate × window is out of range: at most 2^63 units in %d ns", p.Window))
	} else if quota == 0 && p.Rate > 0 {
		faults = append(faults, fmt.Errorf("window: the rate gives no whole unit in %d ns: a longer window is needed", p.Window))
	}
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrParams, errors.Join(faults...))
}

// Quota is what a window admits, in units: Rate × Window, rounded down to whole units. Of Params that Check accepts.
func (p Params) Quota() uint64 {
	quota, _ := p.quota()
	return quota
}

func (p Params) quota() (units uint64, ok bool) {
	hi, lo := bits.Mul64(p.Rate, p.Window)
	if hi >= marker.Nano {
		return 0, false
	}
	units, _ = bits.Div64(hi, lo, marker.Nano)
	return units, units <= math.MaxInt64
}

// meter is the token bucket's profile.
func (p Params) meter() (marker.Profile, error) {
	return marker.Params{Meter: marker.Token, CIR: p.Rate, CBS: p.Burst}.Compile()
}

// terms are parameters, checked and compiled: what all keys of a run share.
type terms struct {
	Params
	quota   uint64         // units a window
	profile marker.Profile // token bucket's
}

func (p Params) compile() (*terms, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	profile, err := p.meter()
	return &terms{p, p.Quota(), profile}, err
}

// work is a time as work: nano-units that the rate does from time 0 to now (ns).
func (t *terms) work(now uint64) wide { return product(now, t.Rate) }

// contract is one key's state under one contract.
type contract interface {
	// admit decides on an arrival of cost units at now (ns), which is never before the one before.
	admit(now, cost uint64) verdict
	// state is how many bytes are kept.
	state() uint64
}

// verdict is what became of an arrival.
type verdict struct {
	admitted bool
	leaves   wide // of an admitted one: when it goes on, as work
}

// admits is the verdict on what goes on at once or not at all.
func (t *terms) admits(ok bool, now uint64) verdict {
	if !ok {
		return verdict{}
	}
	return verdict{true, t.work(now)}
}

// makers make a new key's state.
var makers = [Kinds]func(*terms) contract{
	Token:   func(t *terms) contract { return &token{terms: t} },
	GCRA:    func(t *terms) contract { return &gcra{terms: t} },
	Fixed:   func(t *terms) contract { return &fixed{terms: t} },
	Log:     func(t *terms) contract { return &slidingLog{terms: t} },
	Counter: func(t *terms) contract { return &counter{terms: t} },
	Shaper:  func(t *terms) contract { return &shaper{terms: t} },
}
