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

func replaySection(t *table) error {
	plan, err := hotPlan()
	if err != nil {
		return err
	}
	f, err := replay(plan, 50_000, rounds, 1_000_000)
	if err != nil {
		return err
	}
	t.row("1M packets of 96 bytes, 50k flows", f, "ns", "<= 45")
	return nil
}
