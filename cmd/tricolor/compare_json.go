package main

import (
	"math/big"
)

// compareReport is what a comparison prints with -o json. A unit is a packet or a byte.
type compareReport struct {
	Unit          string        `json:"unit"` // packets, bytes
	RatePerSecond uint64        `json:"rate_per_second"`
	Burst         uint64        `json:"burst"`
	WindowNS      uint64        `json:"window_ns"`
	Quota         uint64        `json:"quota"` // of a window
	Queue         uint64        `json:"queue"`
	Per           string        `json:"per"`
	Inputs        []compareJSON `json:"inputs"`
}

// compareJSON is one file, or the scenario.
type compareJSON struct {
	Scenario string `json:"scenario,omitempty"`
	File     string `json:"file,omitempty"`
	Error    string `json:"error,omitempty"`
	*arrivedJSON
}

type arrivedJSON struct {
	Packets   uint64         `json:"packets"`
	Units     uint64         `json:"units"`
	Keys      int            `json:"keys"`
	FirstNS   uint64         `json:"first_ns"`
	LastNS    uint64         `json:"last_ns"`
	Remarks   []string       `json:"remarks"`
	Contracts []admittedJSON `json:"contracts"`
}

// admittedJSON is a row. Of several keys, what is worst is that of the worst key.
type admittedJSON struct {
	Contract     string   `json:"contract"`
	Packets      uint64   `json:"admitted_packets"`
	Units        uint64   `json:"admitted_units"`
	MostInWindow uint64   `json:"most_in_window_units"`
	OverEnvelope *big.Int `json:"over_envelope_nano_units"`
	WorstDelayNS uint64   `json:"worst_delay_ns"`
	StateBytes   uint64   `json:"state_bytes_a_key"`
}

func (c *comparer) json(runs []*compared) compareReport {
	t := &c.terms
	report := compareReport{
		Unit: "bytes", RatePerSecond: t.Rate, Burst: t.Burst, WindowNS: t.Window, Quota: t.Quota(), Queue: t.Queue, Per: c.per,
		Inputs: []compareJSON{},
	}
	if t.packets {
		report.Unit = "packets"
	}
	for _, run := range runs {
		in := compareJSON{Scenario: run.scenario, File: run.file}
		if run.err != nil {
			in.Error = oneLined(run.err.Error(), []string{run.file})
		}
		if run.Comparison != nil {
			in.arrivedJSON = run.json()
		}
		report.Inputs = append(report.Inputs, in)
	}
	return report
}

func (run *compared) json() *arrivedJSON {
	packets, amount, keys := run.Arrived()
	out := &arrivedJSON{
		Packets: packets, Units: amount, Keys: keys, FirstNS: run.first, LastNS: run.last,
		Remarks: append([]string{}, run.remarks...),
	}
	for _, row := range run.Rows() {
		out.Contracts = append(out.Contracts, admittedJSON{
			Contract: row.Contract.String(), Packets: row.Packets, Units: row.Units, MostInWindow: row.MostInWindow,
			OverEnvelope: row.Excess, WorstDelayNS: row.WorstDelay, StateBytes: row.State,
		})
	}
	return out
}
