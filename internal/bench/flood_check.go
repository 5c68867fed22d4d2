package main

import (
	"errors"
	"fmt"
	"time"
)

// checked is what policers are told to let through where that itself is looked at: far less than the flood.
var checked = bucketSize{rate: 1_000_000, burst: 1_100_000, flows: 1}

// offRate is how far off its own rate a peer may be, in %, and still be compared.
const offRate = 5

// left are the policers that are not compared, once they have been looked at.
var left map[string]bool

// leftOut returns the policers that are not compared: one that is not there, or is off its own rate. It looks at each
// when it is called first, and writes then how much of its rate it lets through once its burst has been used up.
func leftOut(t *table) (map[string]bool, error) {
	if left != nil {
		return left, nil
	}
	found := map[string]bool{}
	for _, p := range append([]policer{oursToken, oursSRTCM}, peers...) {
		share, err := passedOfRate(p)
		if errors.Is(err, errNoPeer) {
			found[p.name] = true
			t.note("%s is left out: %v", p.name, err)
			continue
		}
		if err != nil {
			return nil, err
		}
		t.row("let through of 1 MB/s, "+p.name, figure{share}, "%", fmt.Sprintf("100 ± %d", offRate))
		if share < 100-offRate || share > 100+offRate {
			found[p.name] = true
			t.note("%s is more than %d %% off its own rate, and is not compared", p.name, offRate)
		}
	}
	left = found
	return left, nil
}

// passedOfRate returns what a policer lets through of a flood of one flow, in % of its rate.
func passedOfRate(p policer) (share float64, err error) {
	target, err := newTarget(p, checked, rightUDP)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, target.close()) }()
	if err := target.flood.follow(inTurn(1)); err != nil {
		return 0, err
	}
	if _, err := target.flood.send(uint32(4 * checked.burst / floodPacket)); err != nil { // the bursts are used up
		return 0, err
	}
	const packets, ends = 3_000_000, 200_000
	start, err := target.received()
	if err != nil {
		return 0, err
	}
	flood := make(chan error, 1)
	go func() {
		free, err := pin() // and whoever samples is elsewhere, where there is another CPU
		if err == nil {
			_, err = target.flood.send(packets)
			free()
		}
		flood <- err
	}()
	// All the while the flood is there, the bucket is empty. What arrives from any moment to any other is the rate.
	var first, last sample
	for {
		select {
		case err := <-flood:
			if err == nil && last.at.IsZero() {
				err = fmt.Errorf("%s: %d packets went by before anybody looked", p.name, packets)
			}
			bytes := float64((last.arrived - first.arrived) * floodPacket)
			return 100 * bytes / (float64(checked.rate) * last.at.Sub(first.at).Seconds()), err
		case <-time.After(10 * time.Millisecond):
		}
		now, err := target.sample()
		if err != nil {
			return 0, errors.Join(err, <-flood)
		}
		switch received := now.received - start; {
		case received < ends || received > packets-ends: // it begins, or ends
		case first.at.IsZero():
			first = now
		default:
			last = now
		}
	}
}

// sample is how many packets had been received and had got past the policer at a moment.
type sample struct {
	received, arrived uint64
	at                time.Time
}

// sample takes a sample, in one go.
func (t *target) sample() (s sample, err error) {
	for range 100 {
		start := time.Now()
		if s.arrived, err = t.arrived(); err != nil {
			return s, err
		}
		s.at = time.Now()
		if s.at.Sub(start) < time.Millisecond {
			break
		}
	}
	s.received, err = t.received()
	return s, err
}
