package contract

import (
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/tricolor-policer/tricolor/marker"
)

// Scenario is a made-up sequence of arrivals, all of one size. It follows the contract: a window's quota,
// the window's length and the burst set how many there are and when.
type Scenario struct {
	Name string
	Why  string // what it shows
	make func(s *sequence)
}

// Scenarios are the four there are.
var Scenarios = []Scenario{
	{"edge", "a group on each side of a window's edge, then a late one", edge},
	{"burst", "twice the burst at once, in each of three windows", burst},
	{"steady", "three windows at just the rate", steady},
	{"herd", "a window's quota in the same instant, as each of three windows begins", herd},
}

// MaxArrivals is how many arrivals a scenario makes at most.
const MaxArrivals = 1_000_000

// ErrScenario is what every refusal of Arrivals wraps.
var ErrScenario = errors.New("scenario")

// Arrivals makes the scenario for a contract, by time; each arrival costs size units. Returns an error that
// wraps ErrParams where Check refuses the parameters, and ErrScenario where there would be more than
// MaxArrivals, or the last beyond the end of time.
func (s Scenario) Arrivals(p Params, size uint64) ([]Arrival, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	if size == 0 || size > marker.MaxCost {
		return nil, fmt.Errorf("%w %s: arrivals of %d units: say 1 to %d", ErrScenario, s.Name, size, uint64(marker.MaxCost))
	}
	q := &sequence{
		Params: p, size: size,
		quota: max(1, p.Quota()/size),
		burst: p.Burst/size + min(1, p.Burst%size),
	}
	q.gap = p.Window / 20 / q.quota
	if q.quota > MaxArrivals/3 || q.burst > MaxArrivals/6 {
		return nil, fmt.Errorf("%w %s: the quota is %d arrivals and the burst %d, which makes more than %d: take a smaller rate, window or burst",
			ErrScenario, s.Name, q.quota, q.burst, MaxArrivals)
	}
	if p.Window > math.MaxUint64/8 || q.burst*q.gap > math.MaxUint64/8 {
		return nil, fmt.Errorf("%w %s: a window of %d ns goes beyond the end of time: take a shorter one", ErrScenario, s.Name, p.Window)
	}
	s.make(q)
	return q.arrivals, nil
}

// sequence is a scenario in the making.
type sequence struct {
	Params
	size     uint64 // units an arrival
	quota    uint64 // arrivals a window
	burst    uint64 // arrivals in a burst, rounded up
	gap      uint64 // ns between arrivals of a group: the quota would take 1/20 of a window
	arrivals []Arrival
}

// group adds n arrivals, the first at the given time, gap ns apart.
func (s *sequence) group(first, n, gap uint64) {
	for i := range n {
		s.arrivals = append(s.arrivals, Arrival{first + i*gap, s.size})
	}
}

// part is whole × n / d, rounded down. n <= d.
func part(whole, n, d uint64) uint64 {
	hi, lo := bits.Mul64(whole, n)
	q, _ := bits.Div64(hi, lo, d)
	return q
}

// edge: of a quota of 30 in 6 s, 12 arrivals 10 ms apart that end at 5.90 s, 23 from 6.10 s 10 ms apart, and 5 from
// 10.1 s 0.5 s apart. Other contracts: in proportion.
func edge(s *sequence) {
	margin := s.Window / 60
	before := edgeGroup(s.quota, 12)
	s.group(s.Window-margin-(before-1)*s.gap, before, s.gap)
	s.group(s.Window+margin, edgeGroup(s.quota, 23), s.gap)
	late := edgeGroup(s.quota, 5)
	s.group(s.Window+part(s.Window, 41, 60), late, s.Window/3/max(1, late-1))
}

// edgeGroup is how many arrivals a group of the edge has, at least one.
func edgeGroup(quota, of30 uint64) uint64 { return max(1, part(quota, of30, 30)) }

func burst(s *sequence) {
	for w := range uint64(3) {
		s.group(w*s.Window+s.Window/4, 2*s.burst, min(s.gap, s.Window/4/s.burst))
	}
}

// steady: arrival i at i / r, rounded up to whole ns.
func steady(s *sequence) {
	for i := range 3 * s.quota {
		work := product(i*s.size, marker.Nano)
		s.arrivals = append(s.arrivals, Arrival{work.over(s.Rate), s.size})
	}
}

func herd(s *sequence) {
	for w := range uint64(3) {
		s.group(w*s.Window, s.quota, 0)
	}
}
