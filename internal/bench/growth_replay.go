package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/tricolor-policer/tricolor/internal/capture"
	"github.com/tricolor-policer/tricolor/internal/plot"
	"github.com/tricolor-policer/tricolor/marker"
	"github.com/tricolor-policer/tricolor/pcaptest"
)

// perfCaptures are captures of real traffic, where they lie beside the checkout. Without them a
// made-up one stands in.
const perfCaptures = "../shared/pcaps/perf/*.pcap"

// replaySizes are the sizes of captures that are replayed, in bytes.
var replaySizes = []int64{1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20, 1 << 30}

// loopCapture writes a capture of size bytes and less than a packet more: the packets of others, one
// file after the other, over and over, each time later. It returns how many packets.
func loopCapture(name string, from []string, size int64) (packets int, err error) {
	file, err := os.Create(name)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	buffer := bufio.NewWriterSize(file, 1<<20)
	w, err := capture.NewWriter(buffer, capture.LinkEthernet)
	if err != nil {
		return 0, err
	}
	const header, record = 24, 16 // bytes of a pcap file's, and of a packet's
	written, now := int64(header), uint64(0)
	for before := -1; before != packets; {
		before = packets
		for _, f := range from {
			r, err := capture.Open(f)
			if err != nil {
				return 0, err
			}
			var p capture.Packet
			var last uint64
			for written < size {
				if err = r.Next(&p); err != nil {
					break
				}
				if last > 0 && p.Time > last {
					now += p.Time - last
				}
				last = p.Time
				p.Time = now
				if err = w.Write(&p, p.Data); err != nil {
					break
				}
				written += record + int64(len(p.Data))
				packets++
			}
			if err := errors.Join(ended(err), r.Close()); err != nil {
				return 0, err
			}
		}
	}
	if written < size {
		return 0, fmt.Errorf("%s: there are no packets to write", strings.Join(from, ", "))
	}
	return packets, errors.Join(w.Flush(), buffer.Flush())
}

// ended is err, but for the end of a file.
func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// readAll reads a file and does nothing with it, in pieces of 1 MiB: what a replay of it takes at
// least.
func readAll(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	piece := make([]byte, 1<<20)
	for {
		if _, err := f.Read(piece); err != nil {
			return ended(err)
		}
	}
}

// peak is the most memory that f had at any time on top of what the process had before it, in bytes.
func peak(f func() error) (bytes float64, err error) {
	debug.FreeOSMemory()
	const forgetPeak = "5" // proc(5)
	if err := os.WriteFile("/proc/self/clear_refs", []byte(forgetPeak), 0); err != nil {
		return 0, err
	}
	before, err := highWater()
	if err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	after, err := highWater()
	return after - before, err
}

// highWater is the most memory that this process had, in bytes.
func highWater() (bytes float64, err error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	var kib float64
	if _, err := fmt.Sscan(after, &kib); err != nil {
		return 0, fmt.Errorf("/proc/self/status has no VmHWM: %w", err)
	}
	return kib * 1024, nil
}

// replaySeconds are the figures of one capture: seconds to replay it and to read it, and the most
// memory of a replay in bytes.
func replaySeconds(plan *marker.Plan, name string, packets int) (replayed, read, memory figure, err error) {
	if err := readAll(name); err != nil { // into the page cache
		return nil, nil, nil, err
	}
	for range rounds {
		start := time.Now()
		if err := readAll(name); err != nil {
			return nil, nil, nil, err
		}
		read = append(read, time.Since(start).Seconds())
		bytes, err := peak(func() error {
			start := time.Now()
			r, err := pcaptest.ReplayCapture(context.Background(), name, pcaptest.ReplayOptions{Plan: plan, Seeds: marker.SeedsFrom(1)})
			replayed = append(replayed, time.Since(start).Seconds())
			if err == nil && r.Records != int64(packets) {
				err = fmt.Errorf("%d records replayed of %d", r.Records, packets)
			}
			return err
		})
		if err != nil {
			return nil, nil, nil, err
		}
		memory = append(memory, bytes)
	}
	return replayed, read, memory, nil
}

// replayGrowth draws time and memory of a replay against the capture's size.
func replayGrowth(t *table) error {
	dir, err := os.MkdirTemp("", "tricolor-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	from, err := filepath.Glob(perfCaptures)
	if err != nil {
		return err
	}
	what := "looped captures"
	if len(from) == 0 {
		what = "a looped made-up capture"
		from = []string{filepath.Join(dir, "made-up.pcap")}
		if err := writeCapture(from[0], 50_000, 100_000); err != nil {
			return err
		}
	}
	plan, err := planOf(marker.Params{Meter: marker.SRTCM, CIR: 1_250_000, CBS: 98_304, EBS: 196_608}, 1<<16)
	if err != nil {
		return err
	}
	var times, memory lines
	name := filepath.Join(dir, "looped.pcap")
	for _, s := range replaySizes {
		packets, err := loopCapture(name, from, s)
		if err != nil {
			return err
		}
		seconds, reading, taken, err := replaySeconds(plan, name, packets)
		if err != nil {
			return err
		}
		x := float64(s)
		times.add("replay: read, parsed, metered, counted", x, seconds.median())
		times.add("read only", x, reading.median())
		memory.add("peak of what a replay takes", x, taken.median())
		memory.add("as large as the capture", x, x)
		t.row(fmt.Sprintf("capture of %d MiB, %d packets", s>>20, packets), seconds.times(1e3), "ms", "")
		t.row("  read only", reading.times(1e3), "ms", "")
		t.row("  peak memory", taken.times(1e-6), "MB", "")
	}
	return draw("growth-replay", &plot.Figure{
		Title:    "What a replay costs as captures grow",
		Subtitle: what + ", in the page cache; medians of " + strconv.Itoa(rounds) + " rounds",
		X:        plot.Axis{Label: "capture", Unit: plot.Bytes, Log: true},
		Panels: []plot.Panel{
			{Y: plot.Axis{Label: "time", Unit: plot.Seconds, Log: true}, Series: times},
			{Y: plot.Axis{Label: "memory", Unit: plot.Bytes, Log: true}, Series: memory},
		},
	})
}
