package main

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tricolor-policer/tricolor/marker"
)

// arrival is one packet for a meter: ns since the one before, nanobytes, colour.
type arrival struct {
	gap, cost uint64
	in        marker.Color
}

// arrivals are 4,096 packets of 770 bytes on average at about the meter's rate in bursts, so that all
// colours occur; green ones are so small that none exceeds.
func arrivals(mixed bool) *[4096]arrival {
	r := rand.New(rand.NewPCG(1, 2))
	list := new([4096]arrival)
	for i := range list {
		mean := []uint64{2_000, 25_000}[i/128%2]
		list[i] = arrival{gap: r.Uint64N(2 * mean), cost: (40 + r.Uint64N(1461)) * marker.Nano}
		if !mixed {
			list[i].cost /= 64
		}
	}
	return list
}

// meter times the Go meter alone, in ns a packet: refill, colour, spend.
func meter(params marker.Params, mixed bool, rounds, packets int) (figure, error) {
	p, err := params.Compile()
	if err != nil {
		return nil, err
	}
	list := arrivals(mixed)
	var f figure
	var b marker.Bucket
	var colors uint64
	p.Init(&b, 0)
	now := uint64(0)
	for range rounds {
		start := time.Now()
		for i := range uint(packets) {
			a := &list[i%uint(len(list))]
			now += a.gap
			color, _ := p.Judge(&b, now, a.cost, a.in)
			colors += uint64(color)
		}
		f = append(f, since(start, packets))
	}
	if (colors > 0) != mixed {
		return nil, fmt.Errorf("the bench's packets have the wrong colours: %d", colors)
	}
	return f, nil
}

func since(start time.Time, packets int) float64 {
	return float64(time.Since(start).Nanoseconds()) / float64(packets)
}

// mirror times the whole Go mirror on a frame, with flows source addresses at random: parse, key,
// look-up, meter, mark, count.
func mirror(plan *marker.Plan, flows uint32, rounds, packets int) (figure, error) {
	m, err := marker.NewMirror(plan, marker.SeedsFrom(1))
	if err != nil {
		return nil, err
	}
	frame := udpFrame()
	f := marker.Frame{Data: frame, Length: uint32(len(frame))}
	r := rand.New(rand.NewPCG(1, 2))
	sources := make([]uint32, 1<<20)
	for i := range sources {
		sources[i] = r.Uint32N(flows)
	}
	run := func(packets int, now uint64) {
		for i := range packets {
			binary.BigEndian.PutUint32(frame[26:], sources[i%len(sources)])
			m.Packet(&f, now+uint64(i))
		}
	}
	run(max(packets, len(sources)), 0)
	var out figure
	for i := range rounds {
		start := time.Now()
		run(packets, uint64(i+1)<<32)
		out = append(out, since(start, packets))
	}
	return out, nil
}

var meters = []struct {
	name   string
	params marker.Params
}{
	{"token", marker.Params{Meter: marker.Token, CIR: 60e6, CBS: 32e3}},
	{"srtcm", marker.Params{Meter: marker.SRTCM, CIR: 60e6, CBS: 32e3, EBS: 32e3}},
	{"trtcm", marker.Params{Meter: marker.TRTCM, CIR: 30e6, CBS: 32e3, PIR: 60e6, PBS: 32e3}},
	{"rfc4115", marker.Params{Meter: marker.RFC4115, CIR: 30e6, CBS: 32e3, EIR: 30e6, EBS: 32e3}},
}

func meterSection(t *table) error {
	for _, m := range meters {
		for _, mixed := range []bool{false, true} {
			f, err := meter(m.params, mixed, rounds, 4_000_000)
			if err != nil {
				return err
			}
			name, target := " green", "<= 2.5"
			if mixed {
				name, target = " mixed colours", "<= 4.5"
			}
			t.row(m.name+name, f, "ns", target)
		}
	}
	return nil
}

func mirrorSection(t *table) error {
	plan, err := hotPlan()
	if err != nil {
		return err
	}
	for _, m := range []struct {
		name   string
		flows  uint32
		target string
	}{{"1 flow", 1, "<= 11"}, {"100k flows at random", 100_000, ""}, {"1M flows at random", 1_000_000, "<= 50"}} {
		f, err := mirror(plan, m.flows, rounds, 2_000_000)
		if err != nil {
			return err
		}
		t.row("parser to counters, "+m.name, f, "ns", m.target)
	}
	return nil
}
