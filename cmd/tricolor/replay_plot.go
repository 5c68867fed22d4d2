package main

import (
	"context"
	"fmt"
	"math"

	"github.com/tricolor-policer/tricolor/fit"
	"github.com/tricolor-policer/tricolor/internal/plot"
	"github.com/tricolor-policer/tricolor/marker"
	"github.com/tricolor-policer/tricolor/pcaptest"
	"github.com/tricolor-policer/tricolor/policy"
)

const (
	levelColumns = 2000    // of a bucket's level over time
	mostAccepted = 1 << 22 // packets of a key whose every window is looked at: 64 MB
	windowsDrawn = 80
)

// replayPlot is what a second run of a file gathers for its figure: rates by colour, and one bucket's level and what
// it accepted.
type replayPlot struct {
	rates  *rateBins
	trace  bool
	flow   *pcaptest.Flow // whose bucket; nil: there is none
	key    marker.Key
	level  [2]*plot.Thin // of Tc, and of Te or Tp
	bucket marker.Bucket // after the packet before
	with   marker.Slot   // that packet's slot; of Profile and Generation
	met    bool
	// Of all that was let through, and of green alone; the bucket's time never runs back.
	accepted, green []fit.Arrival
	profile         marker.Profile
	packets         bool // the bucket's class counts packets
	beyond          bool // there were more than mostAccepted
}

// worstFlow is the bucket of which most was red; where nothing was, the busiest.
func worstFlow(flows []pcaptest.Flow) (worst *pcaptest.Flow) {
	for i := range flows {
		if f := &flows[i]; !f.Overflow && (worst == nil || f.Bytes[marker.Red] > worst.Bytes[marker.Red]) {
			worst = f
		}
	}
	return worst
}

// draw runs the file once more, and draws what became of it.
func (r *replayer) draw(ctx context.Context, file string, replay func(context.Context, string, pcaptest.ReplayOptions) (*pcaptest.Replay, error),
	options pcaptest.ReplayOptions, result *pcaptest.Replay,
) error {
	p := &replayPlot{
		rates: newRateBins(result.First, result.Last, r.then.plans(r.plan)...), trace: result.Stages[0].Slots == 0, flow: worstFlow(result.Flows),
	}
	if p.flow != nil {
		p.key = p.flow.Key.Key()
	}
	span := float64(result.Span()) / marker.Nano
	for i := range p.level {
		p.level[i] = plot.NewThin(0, span, levelColumns)
	}
	bar := newProgress(r.stderr, file)
	options.Each = p.add
	options.Progress = bar.at
	_, err := replay(ctx, file, options)
	bar.close()
	if ctx.Err() != nil {
		return err
	}
	return r.plot.save(p.figure(r, result), file, r.flags.file)
}

// add takes one packet.
func (p *replayPlot) add(s *pcaptest.Step) error {
	p.rates.add(s)
	for i, slot := range s.Buckets {
		if slot == nil {
			break
		}
		set := s.Outcome.Slots[i] / marker.SetSlots
		if p.trace || p.flow != nil && slot.Key == p.key && set < s.Plan.Geometry.OverflowSet(0, 0) {
			p.meet(s, slot)
			break
		}
	}
	return nil
}

// meet takes a packet of the bucket that is drawn.
func (p *replayPlot) meet(s *pcaptest.Step, slot *marker.Slot) {
	now := slot.Bucket.Last // the bucket's time
	profile := s.Plan.Profiles[slot.Profile]
	if p.met && p.with.Generation == slot.Generation && p.with.Profile == slot.Profile {
		p.earn(&profile, now)
	}
	if !p.met && total(slot.Packets) == 1 { // it was new, and full
		full := marker.Bucket{}
		profile.Init(&full, now)
		p.mark(now, &full)
	}
	if !p.trace {
		p.packets = countsPackets(s)
	}
	p.profile, p.with, p.met = profile, *slot, true
	p.bucket = slot.Bucket
	p.mark(now, &slot.Bucket)
	if s.Outcome.Color == marker.Red {
		return
	}
	if len(p.accepted) == mostAccepted {
		p.beyond = true
		return
	}
	p.accepted = append(p.accepted, fit.Arrival{Time: now, Cost: s.Outcome.Cost})
	if s.Outcome.Color == marker.Green {
		p.green = append(p.green, p.accepted[len(p.accepted)-1])
	}
}

// earn marks how the levels rise until now: where one is full, and just before what now spends.
func (p *replayPlot) earn(profile *marker.Profile, now uint64) {
	elapsed := now - p.bucket.Last
	var c, x uint64 // ns until each is full
	if profile.CIR > 0 {
		c = (profile.CBS - p.bucket.Tc + profile.CIR - 1) / profile.CIR
	}
	switch {
	case profile.XIR > 0:
		x = (profile.XBS - p.bucket.Tx + profile.XIR - 1) / profile.XIR
	case profile.CIR > 0:
		x = c + (profile.XBS-p.bucket.Tx+profile.CIR-1)/profile.CIR
	}
	for _, at := range []uint64{min(c, x), max(c, x), elapsed} {
		if at > 0 && at <= elapsed {
			b := p.bucket
			profile.Refill(&b, p.bucket.Last+at)
			p.mark(b.Last, &b)
		}
	}
}

func (p *replayPlot) mark(now uint64, b *marker.Bucket) {
	x := float64(now-min(now, p.rates.first)) / marker.Nano
	p.level[0].Add(plot.Point{X: x, Y: float64(b.Tc) / marker.Nano})
	p.level[1].Add(plot.Point{X: x, Y: float64(b.Tx) / marker.Nano})
}

// figure draws what was gathered.
func (p *replayPlot) figure(r *replayer, result *pcaptest.Replay) *plot.Figure {
	f := &plot.Figure{
		Title:    fmt.Sprintf("%s: %s in %s", result.File, plural(uint64(result.Records), "packet", "packets"), duration(result.Span())),
		Subtitle: policy.Describe(r.plan)[0], X: plot.Axis{Label: "time since the first packet", Unit: plot.Seconds},
		Notes: []string{p.rates.note()},
	}
	if r.flags.file != "" {
		f.Subtitle = "policed by " + r.flags.file
	}
	rates := plot.Panel{Title: "Rate by colour", Y: plot.Axis{Label: "rate", Unit: p.rates.unit()}, Series: p.rates.series()}
	for i, a := range result.Applied {
		at := float64(a.At-min(a.At, result.First)) / marker.Nano
		rates.Marks = append(rates.Marks, plot.Mark{X: at, Text: r.then[i].file, Line: true})
	}
	f.Panels = append(f.Panels, rates)
	if !p.met {
		f.Notes = append(f.Notes, "No bucket: no packet was metered.")
		return f
	}
	name := "the trace's one bucket"
	if p.flow != nil {
		name = r.names(result).name(p.flow.Key, false)
		if len(result.Flows) > 1 && p.flow.Bytes[marker.Red] > 0 {
			name += ", of which most was red"
		}
	}
	f.Panels = append(f.Panels, plot.Panel{Title: "Tokens of " + name, Y: plot.Axis{Label: "tokens", Unit: p.unit()}, Series: p.levels()})
	switch {
	case len(result.Applied) > 0:
		f.Notes = append(f.Notes, "No envelope: the policy changed on the way.")
	case len(p.accepted) == 0:
		f.Notes = append(f.Notes, "No envelope: the bucket let nothing through.")
	default:
		f.Panels = append(f.Panels, p.envelope(result.Span()))
		if p.beyond {
			f.Notes = append(f.Notes, fmt.Sprintf("The envelope is of the bucket's first %s packets that were let through.", plural(mostAccepted, "packet", "packets")))
		}
	}
	return f
}

func (p *replayPlot) unit() plot.Unit {
	if p.packets {
		return plot.Count
	}
	return plot.Bytes
}

// levels are the bucket's token counts over time.
func (p *replayPlot) levels() []plot.Series {
	series := []plot.Series{{Name: "Tc", Points: p.level[0].Points(), Color: plot.Green, Marker: plot.NoMarker}}
	if p.profile.XBS > 0 {
		name := "Te"
		if p.profile.Meter == marker.TRTCM {
			name = "Tp"
		}
		series = append(series, plot.Series{Name: name, Points: p.level[1].Points(), Color: plot.Yellow, Marker: plot.NoMarker})
	}
	return series
}

// envelope draws the most that was accepted in any window of a length, and what the contract allows.
func (p *replayPlot) envelope(span uint64) plot.Panel {
	profile := &p.profile
	panel := plot.Panel{
		Title: "The most accepted in any window, and the contract's envelope",
		X:     &plot.Axis{Label: "length of the window", Unit: plot.Seconds, Log: true},
		Y:     plot.Axis{Label: "accepted", Unit: p.unit(), Log: true},
	}
	greenBurst, greenRate := float64(profile.CBS)/marker.Nano, float64(profile.CIR)
	burst, rate := greenBurst, greenRate
	switch profile.Meter {
	case marker.SRTCM:
		burst += float64(profile.XBS) / marker.Nano
	case marker.TRTCM:
		burst, rate = float64(profile.XBS)/marker.Nano, float64(profile.XIR)
	case marker.RFC4115:
		burst += float64(profile.XBS) / marker.Nano
		rate += float64(profile.XIR)
	}
	panel.Series = append(panel.Series, p.windows("green", "CBS + CIR·T", p.green, span, greenBurst, greenRate, plot.Green, plot.Blue)...)
	if profile.Meter != marker.Token {
		words := map[marker.MeterType]string{
			marker.SRTCM: "CBS + EBS + CIR·T", marker.TRTCM: "PBS + PIR·T", marker.RFC4115: "CBS + EBS + (CIR + EIR)·T",
		}
		panel.Series = append(panel.Series, p.windows("green and yellow", words[profile.Meter], p.accepted, span, burst, rate, plot.Yellow, plot.Black)...)
	}
	return panel
}

// windows are two curves over the length of a window: the most in any, and burst + rate × length.
func (p *replayPlot) windows(name, contract string, arrivals []fit.Arrival, span uint64, burst, rate float64, color, line plot.Color) []plot.Series {
	if len(arrivals) == 0 {
		return nil
	}
	most := plot.Series{Name: name + ", at most", Color: color}
	allowed := plot.Series{Name: "allowed: " + contract, Color: line, Marker: plot.NoMarker}
	shortest := math.Max(1e3, float64(span)/1e6)
	longest := math.Max(float64(span), 2*shortest)
	for i := range windowsDrawn {
		window := shortest * math.Pow(longest/shortest, float64(i)/(windowsDrawn-1))
		x := window / marker.Nano
		most.Points = append(most.Points, plot.Point{X: x, Y: float64(fit.Most(arrivals, uint64(window)))})
		allowed.Points = append(allowed.Points, plot.Point{X: x, Y: burst + rate*x})
	}
	return []plot.Series{most, allowed}
}
