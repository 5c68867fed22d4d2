package contract

import (
	"errors"
	"strings"
	"testing"

	"github.com/tricolor-policer/tricolor/marker"
)

func TestCheck(t *testing.T) {
	for _, test := range []struct {
		change func(p *Params)
		want   string
	}{
		{func(p *Params) { p.Rate = 0 }, "rate: 0 is out of range: 1 to 137438953472"},
		{func(p *Params) { p.Burst = 0 }, "burst: 0 is out of range: 1 to"},
		{func(p *Params) { p.Burst = marker.MaxBurst + 1 }, "burst: 9223372037 is out of range: 1 to 9223372036"},
		{func(p *Params) { p.Queue = marker.MaxBurst + 1 }, "queue: 9223372037 is out of range"},
		{func(p *Params) { p.Window = 0 }, "window: must be longer than 0"},
		{func(p *Params) { p.Window = second/5 - 1 }, "window: the rate gives no whole unit in 199999999 ns"},
		{func(p *Params) { p.Rate, p.Window = marker.MaxRate, 1<<63 }, "window: rate × window is out of range"},
	} {
		p := reference
		test.change(&p)
		if err := p.Check(); !errors.Is(err, ErrParams) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v, want %q", p, err, test.want)
		}
		if _, err := New(p); !errors.Is(err, ErrParams) {
			t.Errorf("New takes %+v: %v", p, err)
		}
	}
	if err := reference.Check(); err != nil {
		t.Error(err)
	}
}

func TestScenarioBounds(t *testing.T) {
	for _, test := range []struct {
		p    Params
		size uint64
		want error
	}{
		{Params{Rate: 1_000_000, Burst: 8, Window: 6 * second}, 1, ErrScenario},
		{Params{Rate: 5, Burst: 1_000_000, Window: 6 * second}, 1, ErrScenario},
		{Params{Rate: 1, Burst: 8, Window: 1 << 62}, 1, ErrScenario},
		{Params{Rate: 1, Burst: 8, Window: 1 << 62}, 1 << 33, ErrScenario},
		{reference, 0, ErrScenario},
		{Params{}, 1, ErrParams},
	} {
		for _, s := range Scenarios {
			if in, err := s.Arrivals(test.p, test.size); !errors.Is(err, test.want) {
				t.Errorf("%s of %+v: %d arrivals, %v; want %v", s.Name, test.p, len(in), err, test.want)
			}
		}
	}
}
