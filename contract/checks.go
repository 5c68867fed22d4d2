package contract

import (
	"fmt"

	"github.com/tricolor-policer/tricolor/marker"
)

// examined is a case and what the algorithms decided. Its numbers are small: ns × rate and nano-units fit
// int64, and a cost is one.
type examined struct {
	Case
	arrivals  []Arrival
	decisions [Kinds][]decision
}

// checks say what is wrong, or nothing.
var checks = [Checks]func(*examined) string{
	TokenRows:     func(x *examined) string { return x.rows(Token) },
	GCRARows:      func(x *examined) string { return x.rows(GCRA) },
	Agreement:     (*examined).agreement,
	TokensInRange: (*examined).tokensInRange,
	Envelope:      (*examined).envelope,
	FixedQuota:    (*examined).fixedQuota,
	ShaperOrder:   (*examined).shaperOrder,
	EdgeExcess:    (*examined).edgeExcess,
}

const nano = int64(marker.Nano)

// admissions are the arrivals that a contract admitted.
func (x *examined) admissions(kind Kind) (in []Arrival) {
	for _, d := range x.decisions[kind] {
		if d.admitted && d.number < len(x.arrivals) {
			in = append(in, x.arrivals[d.number])
		}
	}
	return in
}

func (x *examined) rows(kind Kind) string {
	rows := x.decisions[kind]
	if len(rows) != len(x.arrivals) {
		return fmt.Sprintf("%d rows of %d arrivals", len(rows), len(x.arrivals))
	}
	for i, d := range rows {
		if d.number != i {
			return fmt.Sprintf("row %d is of arrival %d", i+1, d.number+1)
		}
	}
	return ""
}

func (x *examined) agreement() string {
	gcra := map[int]bool{}
	for _, d := range x.decisions[GCRA] {
		gcra[d.number] = d.admitted
	}
	for _, d := range x.decisions[Token] {
		admitted, there := gcra[d.number]
		if there && admitted != d.admitted {
			return fmt.Sprintf("arrival %d: token %v, GCRA %v", d.number+1, d.admitted, admitted)
		}
	}
	return ""
}

func (x *examined) tokensInRange() string {
	for _, d := range x.decisions[Token] {
		if d.tokens > x.Burst*marker.Nano {
			return fmt.Sprintf("arrival %d leaves %d nano-tokens of %d", d.number+1, int64(d.tokens), x.Burst*marker.Nano)
		}
	}
	return ""
}

func (x *examined) envelope() string {
	for _, kind := range []Kind{Token, GCRA} {
		if over := x.excess(x.admissions(kind)); over > 0 {
			return fmt.Sprintf("%v admits %d nano-units over B + rT", kind, over)
		}
	}
	return ""
}

// excess is how far arrivals exceed B + r × T in the worst interval, in nano-units; below 0: never. Every
// interval is looked at.
func (x *examined) excess(in []Arrival) int64 {
	worst := -int64(x.Burst) * nano
	for first := range in {
		sum := int64(0)
		for _, last := range in[first:] {
			sum += int64(last.Cost) * nano
			allowed := int64(x.Burst)*nano + int64(x.Rate)*int64(last.Time-in[first].Time)
			worst = max(worst, sum-allowed)
		}
	}
	return worst
}

func (x *examined) fixedQuota() string {
	sums := map[uint64]uint64{}
	for _, a := range x.admissions(Fixed) {
		window := a.Time / x.Window
		sums[window] += a.Cost
		if quota := x.Rate * (x.Window / marker.Nano); sums[window] > quota {
			return fmt.Sprintf("window %d has %d of %d", window, sums[window], quota)
		}
	}
	return ""
}

func (x *examined) shaperOrder() string {
	free := uint64(0) // when the one before is sent
	for _, d := range x.decisions[Shaper] {
		if !d.admitted || d.number >= len(x.arrivals) {
			continue
		}
		came := x.arrivals[d.number].Time * x.Rate
		switch {
		case d.leaves < came:
			return fmt.Sprintf("arrival %d is sent before it came", d.number+1)
		case d.leaves < free:
			return fmt.Sprintf("arrival %d is sent before the one before it is through", d.number+1)
		case d.leaves-came > x.Queue*marker.Nano:
			return fmt.Sprintf("arrival %d waits for longer than the queue takes", d.number+1)
		}
		free = d.leaves + x.arrivals[d.number].Cost*marker.Nano
	}
	return ""
}

// edgeExcess: the fixed window takes both groups beside the edge whole, each being below a quota. Where that is
// more than B + r × T from the first to the last of them, it is the excess, to the nano-unit.
func (x *examined) edgeExcess() string {
	if x.Scenario != "edge" {
		return ""
	}
	quota := int64(x.Rate * (x.Window / marker.Nano))
	window, gap := int64(x.Window), int64(x.Window)/20/quota
	before, after := max(1, quota*12/30), max(1, quota*23/30)
	first := window - window/60 - (before-1)*gap
	last := window + window/60 + (after-1)*gap
	expected := (before+after)*nano - int64(x.Burst)*nano - int64(x.Rate)*(last-first)
	if expected <= 0 {
		return "" // not tight
	}
	if got := x.excess(x.admissions(Fixed)); got != expected {
		return fmt.Sprintf("the fixed window exceeds B + rT by %d nano-units, where the edge gives it %d", got, expected)
	}
	return ""
}
