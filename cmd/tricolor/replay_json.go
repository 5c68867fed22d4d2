package main

import (
	"github.com/tricolor-policer/tricolor/marker"
	"github.com/tricolor-policer/tricolor/pcaptest"
)

// replayReport is what a replay prints with -o json.
type replayReport struct {
	Policy []string     `json:"policy"`
	Then   []thenJSON   `json:"then,omitempty"` // changes of policy
	Seed   uint64       `json:"seed"`
	Files  []replayFile `json:"files"`
}

type thenJSON struct {
	Time    string       `json:"time"` // as it was given
	File    string       `json:"file"`
	Policy  []string     `json:"policy"`
	Changes []changeJSON `json:"changes"`
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
	Applied   []appliedJSON     `json:"applied,omitempty"`           // changes of policy that took place
	MeanRates map[string]uint64 `json:"mean_rates_bytes_per_second"` // by colour
	Table     tableJSON         `json:"table"`
	FlowCount int               `json:"flow_count"`
	Flows     []flowJSON        `json:"flows"`
}

type appliedJSON struct {
	Packet int64       `json:"packet"` // the first that met the new policy
	AtNS   uint64      `json:"at_ns"`
	Gone   []classJSON `json:"gone_classes"`
}

type behind struct {
	Packet int64  `json:"packet"`
	ByNS   uint64 `json:"by_ns"`
}

type tableJSON struct {
	Slots     uint64 `json:"slots"`
	Used      uint64 `json:"used"`
	Forgotten uint64 `json:"forgotten"`
	// By meter of a chain; left out where only the first is keyed, which slots and used are of.
	Meters []stageUse `json:"meters,omitempty"`
}

type flowJSON struct {
	Flow     string     `json:"flow"`
	Class    string     `json:"class"` // empty: the interface's
	Meter    int        `json:"meter"` // in the class's chain, from 1; 0: the interface's
	Gone     bool       `json:"gone"`  // the last policy has it no more
	Overflow bool       `json:"overflow"`
	Colors   colorsJSON `json:"colors"`
}

// json is a file's outcome: a result, an error, or both where the capture is cut.
func (r *replayer) json(file string, result *pcaptest.Replay, err error, top int) replayFile {
	f := replayFile{File: file}
	if err != nil {
		f.Error = err.Error()
	}
	if result == nil {
		return f
	}
	stages := stagesOf(r.plan, result)
	f.replayJSON = &replayJSON{
		Records: result.Records, FirstNS: result.First, LastNS: result.Last, SpanNS: result.Span(),
		BackwardSteps: result.Backward, Warnings: append([]string{}, r.warnings(result)...),
		statsJSON: statsOf(r.planAfter(result), &result.Stats), MeanRates: map[string]uint64{},
		Table: tableJSON{Slots: stages[0].Slots, Used: stages[0].Used, Forgotten: result.Forgotten}, FlowCount: len(result.Flows),
		Flows: []flowJSON{},
	}
	if len(stages) > 1 {
		f.Table.Meters = stages
	}
	if result.Behind != nil {
		f.Behind = &behind{result.Behind.Packet, result.Behind.By}
	}
	for _, a := range result.Applied {
		applied := appliedJSON{Packet: a.Packet, AtNS: a.At, Gone: []classJSON{}}
		for i := range a.Gone {
			applied.Gone = append(applied.Gone, classOf(a.Gone[i].Name, &a.Gone[i].Stats))
		}
		f.Applied = append(f.Applied, applied)
	}
	for color := range marker.Colors {
		for _, c := range r.classes(result) {
			f.MeanRates[color.String()] += result.MeanRate(c.stats.Bytes[color])
		}
	}
	names := r.names(result)
	for i := range result.Flows[:min(top, len(result.Flows))] {
		flow := &result.Flows[i]
		m := names.of(flow.Key)
		f.Flows = append(f.Flows, flowJSON{
			names.key(flow.Key, flow.Overflow), m.class, m.position, m.gone, flow.Overflow, colorsOf(flow.Packets, flow.Bytes),
		})
	}
	return f
}
