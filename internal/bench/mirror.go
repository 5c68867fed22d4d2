package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/tricolor-policer/tricolor/internal/capture"
	"github.com/tricolor-policer/tricolor/marker"
	"github.com/tricolor-policer/tricolor/pcaptest"
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

// replay times a whole capture of packets records through the mirror, file reading included: snaplen
// 96, flows flows, from the page cache.
func replay(plan *marker.Plan, flows uint32, rounds, packets int) (figure, error) {
	dir, err := os.MkdirTemp("", "tricolor-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "bench.pcap")
	if err := writeCapture(name, flows, packets); err != nil {
		return nil, err
	}
	var out figure
	for range rounds {
		start := time.Now()
		r, err := pcaptest.ReplayCapture(context.Background(), name, pcaptest.ReplayOptions{Plan: plan, Seeds: marker.SeedsFrom(1)})
		if err != nil {
			return nil, err
		}
		out = append(out, since(start, packets))
		if r.Records != int64(packets) {
			return nil, fmt.Errorf("%d records replayed of %d", r.Records, packets)
		}
	}
	return out, nil
}

func writeCapture(name string, flows uint32, packets int) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	defer file.Close()
	buffer := bufio.NewWriterSize(file, 1<<20)
	w, err := capture.NewWriter(buffer, capture.LinkEthernet)
	if err != nil {
		return err
	}
	const length = 800
	data := append(udpFrame(), make([]byte, 32)...) // 96 bytes
	binary.BigEndian.PutUint16(data[16:], length-14)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range packets {
		binary.BigEndian.PutUint32(data[26:], r.Uint32N(flows))
		p := capture.Packet{Time: uint64(i) * 1000, Data: data, Length: length, Link: capture.LinkEthernet}
		if err := w.Write(&p, data); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return buffer.Flush()
}
