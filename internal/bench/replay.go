package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/tricolor-policer/tricolor/internal/capture"
	"github.com/tricolor-policer/tricolor/marker"
	"github.com/tricolor-policer/tricolor/pcaptest"
)

// A replay is timed whole: making the table, reading the file from the page cache, policing, listing the flows.

// passage is one way to go through a capture.
type passage struct {
	what   string
	target string // in ns a packet
	run    func(file string) error
}

// pass times ways through a capture, one after the other in each round, in seconds.
func pass(file string, passages []passage) ([]figure, error) {
	if err := readAll(file); err != nil { // into the page cache
		return nil, err
	}
	figures := make([]figure, len(passages))
	for range rounds {
		for i, p := range passages {
			start := time.Now()
			if err := p.run(file); err != nil {
				return nil, fmt.Errorf("%s: %w", p.what, err)
			}
			figures[i] = append(figures[i], time.Since(start).Seconds())
		}
	}
	return figures, nil
}

// replayOf replays a capture of so many packets.
func replayOf(plan *marker.Plan, packets int) func(string) error {
	return func(file string) error {
		r, err := pcaptest.ReplayCapture(context.Background(), file, pcaptest.ReplayOptions{Plan: plan, Seeds: marker.SeedsFrom(1)})
		if err == nil && r.Records != int64(packets) {
			err = fmt.Errorf("%d packets replayed of %d", r.Records, packets)
		}
		return err
	}
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

// fullCapture writes the packets of captures whole: what was not captured of them is zeros.
func fullCapture(name string, from []string) (packets int, err error) {
	file, err := os.Create(name)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	w, err := capture.NewWriter(file, capture.LinkEthernet)
	if err != nil {
		return 0, err
	}
	for _, f := range from {
		r, err := capture.Open(f)
		if err != nil {
			return 0, err
		}
		var p capture.Packet
		for {
			if err = r.Next(&p); err != nil {
				break
			}
			if err = w.Write(&p, append(p.Data[:len(p.Data):len(p.Data)], make([]byte, p.Length-len(p.Data))...)); err != nil {
				break
			}
			packets++
		}
		if err := errors.Join(ended(err), r.Close()); err != nil {
			return 0, err
		}
	}
	return packets, w.Flush()
}

// replayPassages are ours, reading alone, and what others offer.
func replayPassages(t *table, plan *marker.Plan, packets int) []passage {
	passages := []passage{
		{"tricolor's replay", "<= 45", replayOf(plan, packets)},
		{"reading the file, 1 MiB at a time", "", readAll},
		{"gopacket, Go map and x/time/rate", "", gopacketPolicer(packets)},
	}
	if tcpdump, err := exec.LookPath("tcpdump"); err == nil {
		passages = append(passages, passage{"tcpdump -r, -w /dev/null", "", func(file string) error {
			out, err := exec.Command(tcpdump, "-r", file, "-w", os.DevNull).CombinedOutput()
			if err != nil {
				err = fmt.Errorf("%w: %s", err, out)
			}
			return err
		}})
	} else {
		t.note("tcpdump is left out: %v", err)
	}
	return passages
}

func replaySection(t *table) error {
	plan, err := planOf(marker.Params{Meter: marker.SRTCM, CIR: plenty.rate, CBS: plenty.burst, EBS: 1 << 20}, 1<<17)
	if err != nil {
		return err
	}
	large, err := hotPlan()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "tricolor-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := snappedRows(t, plan, large, filepath.Join(dir, "snapped.pcap")); err != nil {
		return err
	}
	return fullRows(t, plan, filepath.Join(dir, "full.pcap"))
}

// snappedRows are of a capture of 96 bytes a packet: ns a packet, and the memory.
func snappedRows(t *table, plan, large *marker.Plan, file string) error {
	const flows, packets = 50_000, 1_000_000
	if err := writeCapture(file, flows, packets); err != nil {
		return err
	}
	t.note("1M packets, 96 bytes of each, %d flows; a table of 131,072 slots", flows)
	passages := append(replayPassages(t, plan, packets), passage{"tricolor's replay, a table of 2M slots", "", replayOf(large, packets)})
	figures, err := pass(file, passages)
	if err != nil {
		return err
	}
	for i, p := range passages {
		t.row(p.what, figures[i].times(1e9/packets), "ns", p.target)
	}
	few, err := peaks(file, replayOf(plan, packets))
	if err != nil {
		return err
	}

	const longer = 10
	if err := writeCapture(file, flows, longer*packets); err != nil {
		return err
	}
	figures, err = pass(file, []passage{{"replay", "", replayOf(plan, longer*packets)}})
	if err != nil {
		return err
	}
	t.row("tricolor's replay, 10M packets", figures[0].times(1e9/(longer*packets)), "ns", "<= 45")
	many, err := peaks(file, replayOf(plan, longer*packets))
	if err != nil {
		return err
	}
	t.row("peak memory, 1M packets", few.times(1e-6), "MB", "")
	t.row("peak memory, 10M packets", many.times(1e-6), "MB", "no more")
	return nil
}

// peaks is the most memory that going through a capture takes, in bytes.
func peaks(file string, run func(string) error) (f figure, err error) {
	for range rounds {
		bytes, err := peak(func() error { return run(file) })
		if err != nil {
			return nil, err
		}
		f = append(f, bytes)
	}
	return f, nil
}

// fullRows are of a capture of whole packets: beside reading it.
func fullRows(t *table, plan *marker.Plan, file string) error {
	from, err := filepath.Glob(perfCaptures)
	if err != nil {
		return err
	}
	if len(from) == 0 {
		t.note("full captures are left out: there is no %s", perfCaptures)
		return nil
	}
	packets, err := fullCapture(file, from)
	if err != nil {
		return err
	}
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	figures, err := pass(file, []passage{{"replay", "", replayOf(plan, packets)}, {"reading", "", readAll}})
	if err != nil {
		return err
	}
	var replayed, read, share figure
	for i, seconds := range figures[0] {
		replayed = append(replayed, float64(info.Size())/1e6/seconds)
		read = append(read, float64(info.Size())/1e6/figures[1][i])
		share = append(share, figures[1][i]/seconds)
	}
	t.note("%d whole packets of real traffic, %d MB", packets, info.Size()/1e6)
	t.row("tricolor's replay", replayed, "MB/s", "")
	t.row("reading the file, 1 MiB at a time", read, "MB/s", "")
	fmt.Fprintf(t, "of the speed of reading\t%8.2f\t%8.2f\t%8.2f\t\t>= 0.5\n", share.median(), slices.Min(share), slices.Max(share))
	return nil
}
