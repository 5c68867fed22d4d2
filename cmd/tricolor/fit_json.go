package main

import "github.com/tricolor-policer/tricolor/fit"

// fitReport is what fit prints with -o json.
type fitReport struct {
	Files   []fitFileJSON   `json:"files"`
	Classes []fitTargetJSON `json:"classes"`
	Policy  string          `json:"policy"` // YAML
}

type fitFileJSON struct {
	File    string `json:"file"`
	Records uint64 `json:"records"`
	SpanNS  uint64 `json:"span_ns"`
}

// fitTargetJSON is one class. Rates and bursts are bytes (a second), or packets where the class counts those.
type fitTargetJSON struct {
	Class    string         `json:"class"`
	Per      string         `json:"per"` // KEY of a bucket
	Count    string         `json:"count"`
	Packets  uint64         `json:"packets"`
	Cost     uint64         `json:"cost"`
	KeyCount int            `json:"key_count"`
	Curve    []fitPointJSON `json:"curve"`  // nothing is red
	Knee     *fitPointJSON  `json:"knee"`   // of the curve
	Chosen   *fitPointJSON  `json:"chosen"` // the knee, or --cir
	Loss     *fitLossJSON   `json:"loss,omitempty"`
	Adds     []fitNeedJSON  `json:"adds"`
	CBS      uint64         `json:"cbs"`
	Keys     []fitKeyJSON   `json:"keys"`
}

type fitPointJSON struct {
	Rate  uint64 `json:"rate"`
	Burst uint64 `json:"burst"`
}

type fitLossJSON struct {
	Of      string `json:"of"` // packets or bytes
	Allowed uint64 `json:"allowed"`
	Burst   uint64 `json:"burst"` // the least with which no more is red
	Packets uint64 `json:"red_packets"`
	Cost    uint64 `json:"red_cost"`
}

type fitNeedJSON struct {
	Flag string `json:"flag"`
	Add  uint64 `json:"add"`
	Why  string `json:"why"`
}

type fitKeyJSON struct {
	Key     string         `json:"key"`
	Packets uint64         `json:"packets"`
	Cost    uint64         `json:"cost"`
	Curve   []fitPointJSON `json:"curve"`
}

func fitPoints(points []fit.Point) []fitPointJSON {
	out := []fitPointJSON{}
	for _, p := range points {
		out = append(out, fitPointJSON(p))
	}
	return out
}

// json is what was found.
func (f *fitter) json(fragment string) fitReport {
	report := fitReport{Files: []fitFileJSON{}, Classes: []fitTargetJSON{}, Policy: fragment}
	for _, file := range f.study.files {
		report.Files = append(report.Files, fitFileJSON{file.path, file.records, file.span})
	}
	for i, t := range f.study.targets {
		if f.study.only >= 0 && f.study.only != i {
			continue
		}
		one := fitTargetJSON{
			Class: t.class.Name, Per: t.per, Count: t.class.Count.String(), Packets: t.packets, Cost: t.cost, KeyCount: len(t.keys), Curve: fitPoints(t.points),
			Adds: []fitNeedJSON{}, CBS: t.cbs, Keys: []fitKeyJSON{},
		}
		if t.packets > 0 {
			chosen := fitPointJSON(t.chosen)
			one.Chosen = &chosen
			if t.knee >= 0 {
				knee := fitPointJSON(t.points[t.knee])
				one.Knee = &knee
			}
			if f.allowed != nil {
				one.Loss = &fitLossJSON{f.lossOf.word, t.allowed, t.burst, t.lost.Packets, t.lost.Bytes}
			}
		}
		for _, n := range t.needs {
			one.Adds = append(one.Adds, fitNeedJSON{n.What, n.Bytes, n.Why})
		}
		for _, k := range t.shown {
			one.Keys = append(one.Keys, fitKeyJSON{f.study.names.key(k.key.Fields(), false), k.packets, k.cost, fitPoints(fit.Trim(k.curve.Points()))})
		}
		report.Classes = append(report.Classes, one)
	}
	return report
}
