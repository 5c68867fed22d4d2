package main

import "github.com/tricolor-policer/tricolor/marker"

// whatReport is what whatif prints with -o json. Bytes are those of the frames.
type whatReport struct {
	Before   string        `json:"before"`
	After    string        `json:"after"`
	Changes  []changeJSON  `json:"changes"`
	Files    []string      `json:"files"`
	Records  uint64        `json:"records"`
	SpanNS   uint64        `json:"span_ns"`
	Total    whatRowJSON   `json:"total"`
	Classes  []whatRowJSON `json:"classes"`
	KeyCount int           `json:"key_count"`
	Shifted  int           `json:"keys_that_fare_otherwise"`
	Keys     []whatRowJSON `json:"keys"`
}

// whatRowJSON is a class or a key. Before and after are by the class and key of each policy; the rest is by those
// of the new one.
type whatRowJSON struct {
	Class     string       `json:"class,omitempty"`
	Key       string       `json:"key,omitempty"`
	New       bool         `json:"new"`  // nothing was of it before
	Gone      bool         `json:"gone"` // nothing is of it after
	Before    whatSideJSON `json:"before"`
	After     whatSideJSON `json:"after"`
	NewlyRed  countJSON    `json:"newly_red"`
	RedNoMore countJSON    `json:"red_no_more"`
	Worse     countJSON    `json:"green_to_yellow"`
	Better    countJSON    `json:"yellow_to_green"`
}

type whatSideJSON struct {
	Green      countJSON `json:"green"`
	Yellow     countJSON `json:"yellow"`
	Red        countJSON `json:"red"`
	NotPoliced countJSON `json:"not_policed"`
	Malformed  countJSON `json:"malformed"` // dropped
}

func whatSideOf(n *[ends]countJSON) whatSideJSON {
	return whatSideJSON{n[marker.Green], n[marker.Yellow], n[marker.Red], n[endPassed], n[endDropped]}
}

func whatRowOf(r named) whatRowJSON {
	return whatRowJSON{
		Class: r.class, Key: r.key, New: !r.before, Gone: !r.after, Before: whatSideOf(&r.ends[0]), After: whatSideOf(&r.ends[1]),
		NewlyRed: r.newly, RedNoMore: r.noMore, Worse: r.worse, Better: r.better,
	}
}

// json is who gains and who loses.
func (w *whatIf) json() whatReport {
	keys := w.sorted(true)
	w.all.before, w.all.after = true, true
	report := whatReport{
		Before: w.sides[0].file, After: w.sides[1].file, Changes: changesOf(w.changes), Files: w.files, Records: w.records, SpanNS: w.span,
		Total: whatRowOf(named{whatRow: &w.all}), Classes: []whatRowJSON{}, KeyCount: w.keyCount(), Shifted: len(keys), Keys: []whatRowJSON{},
	}
	for _, r := range w.sorted(false) {
		report.Classes = append(report.Classes, whatRowOf(r))
	}
	for _, r := range keys[:min(len(keys), int(min(w.top, 1<<30)))] {
		report.Keys = append(report.Keys, whatRowOf(r))
	}
	return report
}
