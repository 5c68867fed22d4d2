package contract

import "github.com/tricolor-policer/tricolor/marker"

// shaper is the leaky bucket as a queue: what it admits waits for its turn and is sent at the rate, so
// that it has no burst. It starts empty.
//
//	start    max(free, now)
//	admit    start - now <= Q / r: sent at start, free = start + cost / r
//
// Both sides are multiplied by r: times are work.
type shaper struct {
	*terms
	free wide // when all that was admitted is sent
}

func (s *shaper) admit(now, cost uint64) verdict {
	at := s.work(now)
	start := s.free.max(at)
	if at.plus(product(s.Queue, marker.Nano)).less(start) {
		return verdict{}
	}
	s.free = start.plus(wide{lo: cost * marker.Nano})
	return verdict{true, start}
}

// state is one timestamp, of 128 bits; the packets that wait are not counted.
func (s *shaper) state() uint64 { return 16 }
