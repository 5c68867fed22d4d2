package main

import (
	"fmt"
	"io"

	"github.com/tricolor-policer/tricolor/internal/units"
	"github.com/tricolor-policer/tricolor/marker"
	"github.com/tricolor-policer/tricolor/pcaptest"
)

// replayReport is what a replay prints with -o json.
type replayReport struct {
	Policy []string     `json:"policy"`
	Seed   uint64       `json:"seed"`
	Files  []replayFile `json:"files"`
}

type replayFile struct {
	File  string `json:"file"`
	Error string `json:"error,omitempty"`
	*replayJSON
}

type replayJSON struct {
	Records       int64    `json:"records"`
	FirstNS       uint64   `json:"first_ns"`
	LastNS        uint64   `json:"last_ns"`
	SpanNS        uint64   `json:"span_ns"`
	BackwardSteps int64    `json:"backward_steps"`
	Behind        *behind  `json:"behind"`
	Warnings      []string `json:"warnings"`
	*statsJSON
	MeanRates map[string]uint64 `json:"mean_rates_bytes_per_second"` // by colour
	Table     tableJSON         `json:"table"`
	FlowCount int               `json:"flow_count"`
	Flows     []flowJSON        `json:"flows"`
}

type behind struct {
	Packet int64  `json:"packet"`
	ByNS   uint64 `json:"by_ns"`
}

type tableJSON struct {
	Slots     uint64 `json:"slots"`
	Used      uint64 `json:"used"`
	Forgotten uint64 `json:"forgotten"`
}

type flowJSON struct {
	Flow     string     `json:"flow"`
	Overflow bool       `json:"overflow"`
	Colors   colorsJSON `json:"colors"`
}

// add appends a file's outcome: a result, an error, or both where the capture is cut.
func (r *replayReport) add(plan *marker.Plan, file string, result *pcaptest.Replay, err error, top int) {
	f := replayFile{File: file}
	if err != nil {
		f.Error = err.Error()
	}
	if result != nil {
		f.replayJSON = &replayJSON{
			Records: result.Records, FirstNS: result.First, LastNS: result.Last, SpanNS: result.Span(),
			BackwardSteps: result.Backward, Warnings: append([]string{}, warnings(result)...),
			statsJSON: statsOf(plan, &result.Stats), MeanRates: map[string]uint64{},
			Table: tableJSON{result.Table.Slots, result.Table.Used, result.Table.Forgotten}, FlowCount: len(result.Flows),
			Flows: []flowJSON{},
		}
		if result.Behind != nil {
			f.Behind = &behind{result.Behind.Packet, result.Behind.By}
		}
		for color := range marker.Colors {
			for i := range result.Stats.Classes {
				f.MeanRates[color.String()] += result.MeanRate(result.Stats.Classes[i].Bytes[color])
			}
		}
		for i := range result.Flows[:min(top, len(result.Flows))] {
			flow := &result.Flows[i]
			f.Flows = append(f.Flows, flowJSON{flowName(flow.Key, flow.Overflow), flow.Overflow, colorsOf(flow.Packets, flow.Bytes)})
		}
	}
	r.Files = append(r.Files, f)
}

// printPolicy prints what all files are run through.
func (r *replayReport) printPolicy(w io.Writer) {
	for _, line := range r.Policy {
		fmt.Fprintln(w, line)
	}
	fmt.Fprintf(w, "seed: %d\n", r.Seed)
}

// warnings says what of a file a person should know.
func warnings(r *pcaptest.Replay) []string {
	var lines []string
	if r.Backward > 0 {
		lines = append(lines, fmt.Sprintf("time steps backward at %s: nothing is earned until a bucket's time is reached again",
			plural(uint64(r.Backward), "record", "records")))
	}
	if r.Behind != nil {
		lines = append(lines, fmt.Sprintf("packet %d was judged %s behind its bucket: the capture's clock had jumped ahead, "+
			"and a bucket earns nothing until its time is reached again", r.Behind.Packet, duration(r.Behind.By)))
	}
	return lines
}

// printReplay prints a file's outcome for a person, with its top flows.
func printReplay(w io.Writer, plan *marker.Plan, r *pcaptest.Replay, top int) error {
	noun := []string{"packet", "packets"}
	if r.Table.Slots == 0 {
		noun = []string{"row", "rows"}
	}
	fmt.Fprintf(w, "\n%s: %s in %s\n", printable(r.File), plural(uint64(r.Records), noun[0], noun[1]), duration(r.Span()))
	for i := range r.Stats.Classes {
		if len(plan.Classes) > 1 {
			fmt.Fprintf(w, "class %s\n", printable(plan.Classes[i].Name))
		}
		rate := r.MeanRate
		if r.Span() == 0 {
			rate = nil
		}
		if err := printColors(w, &r.Stats.Classes[i], rate); err != nil {
			return err
		}
	}
	for _, line := range remarks(&r.Stats) {
		fmt.Fprintf(w, "  %s\n", line)
	}
	if r.Table.Slots == 0 {
		return nil
	}
	var packets, overflow uint64
	for i := range r.Stats.Classes {
		packets += total(r.Stats.Classes[i].Packets)
		overflow += r.Stats.Classes[i].Overflow
	}
	fmt.Fprintf(w, "  table: %s slots, %s used, %s forgotten; %s of packets in overflow\n", units.FormatCount(r.Table.Slots),
		units.FormatCount(r.Table.Used), units.FormatCount(r.Table.Forgotten), share(overflow, packets))
	return printTop(w, r.Flows, top)
}

// flowName is a bucket's key, as a person reads it.
func flowName(key marker.KeyFields, overflow bool) string {
	if overflow {
		return "(overflow: those without a slot)"
	}
	return key.String()
}

func printTop(w io.Writer, flows []pcaptest.Flow, top int) error {
	if top = min(top, len(flows)); top == 0 {
		return nil
	}
	fmt.Fprintf(w, "  busiest %s of %s\n", plural(uint64(top), "flow", "flows"), units.FormatCount(uint64(len(flows))))
	t := newNumbers(w)
	t.named("flow", "packets", "bytes", "green", "yellow", "red")
	for i := range flows[:top] {
		f := &flows[i]
		packets, bytes := f.Total()
		t.named(flowName(f.Key, f.Overflow), units.FormatCount(packets), units.FormatCount(bytes), share(f.Bytes[marker.Green], bytes),
			share(f.Bytes[marker.Yellow], bytes), share(f.Bytes[marker.Red], bytes))
	}
	return t.flush()
}
