package main

import (
	"fmt"
	"io"

	"github.com/tricolor-policer/tricolor/certify"
	"github.com/tricolor-policer/tricolor/internal/units"
	"github.com/tricolor-policer/tricolor/marker"
)

// envelopeNames are what an envelope bounds.
var envelopeNames = [...]string{certify.Green: "green", certify.Total: "green and yellow"}

func (x *certificate) verdict() string {
	switch {
	case x.Breaks > 0:
		return "broken"
	case x.Excess > 0:
		return "contradictory"
	case len(x.incomplete) > 0:
		return "incomplete"
	}
	return "proven"
}

func (x *certificate) print(w io.Writer) {
	fmt.Fprintf(w, "%s: %s of %s: %s green, %s yellow, %s red; %s\n", printable(x.file), plural(x.Packets, "decision", "decisions"), printable(x.of),
		units.FormatCount(x.Colors[marker.Green]), units.FormatCount(x.Colors[marker.Yellow]), units.FormatCount(x.Colors[marker.Red]), plural(x.Buckets, "bucket", "buckets"))
	for _, why := range x.incomplete {
		fmt.Fprintf(w, "  %s\n", why)
	}
	switch x.verdict() {
	case "broken":
		fmt.Fprintf(w, "BROKEN at %s: %s was over its envelope\n", x.packet(&x.Broken.To), x.bucket(&x.Broken))
		x.interval(w, &x.Broken)
		if x.Breaks > 1 {
			fmt.Fprintf(w, "  and %s after it\n", plural(x.Breaks-1, "excess", "excesses"))
		}
		return
	case "contradictory":
		fmt.Fprintf(w, "CONTRADICTORY at %s: %s then held more tokens than it had and earned, less what was taken\n", x.packet(&x.ExcessAt), printable(x.keys[x.ExcessKey]))
		if x.Excess > 1 {
			fmt.Fprintf(w, "  and %s after it\n", plural(x.Excess-1, "such packet", "such packets"))
		}
		fmt.Fprintln(w, "  no policer decided so: the record was changed, or is that of another program")
		return
	case "incomplete":
		fmt.Fprintln(w, "INCOMPLETE: what is here stayed under the envelopes over every interval, which says nothing of what is not")
	default:
		fmt.Fprintln(w, "PROVEN: over every interval, green of each bucket, and green and yellow, stayed under their envelopes")
	}
	if x.Spans > 0 {
		fmt.Fprintf(w, "  (but for intervals over a change of meter to or from trtcm, which no envelope spans: %s)\n", units.FormatCount(x.Spans))
	}
	if x.Tightest.To.Number > 0 {
		fmt.Fprintf(w, "tightest: %s\n", x.bucket(&x.Tightest))
		x.interval(w, &x.Tightest)
	}
}

// bucket names an interval's bucket, and what of it.
func (x *certificate) bucket(i *certify.Interval) string {
	return printable(x.keys[i.Key]) + ", " + envelopeNames[i.Envelope]
}

// packet is a packet's number and its time since the start.
func (x *certificate) packet(p *certify.Packet) string {
	since := p.Time - min(x.start, p.Time)
	return fmt.Sprintf("packet %s (%d.%09d s)", units.FormatCount(p.Number), since/marker.Nano, since%marker.Nano)
}

func (x *certificate) interval(w io.Writer, i *certify.Interval) {
	unit := "B"
	if i.Packets {
		unit = "packets"
	}
	fmt.Fprintf(w, "  from %s to %s: %s ns\n", x.packet(&i.From), x.packet(&i.To), units.FormatCount(i.To.Time-i.From.Time))
	fmt.Fprintf(w, "  accepted %s %s, allowed %s %[2]s", units.FormatCount(i.Accepted), unit, units.FormatCount(i.Allowed()))
	if i.Over > 0 {
		fmt.Fprintf(w, "; over by %s %s\n", tokens(i.Over), unit)
	} else {
		fmt.Fprintf(w, "; left %s %s\n", tokens(i.Left), unit)
	}
}

// certificateJSON is what -o json prints.
type certificateJSON struct {
	File       string        `json:"file"`
	Of         string        `json:"of"`
	Verdict    string        `json:"verdict"` // proven, broken, contradictory or incomplete
	Incomplete []string      `json:"incomplete"`
	Packets    uint64        `json:"packets"`
	Green      uint64        `json:"green"`
	Yellow     uint64        `json:"yellow"`
	Red        uint64        `json:"red"`
	Buckets    uint64        `json:"buckets"`
	Breaks     uint64        `json:"breaks"`
	Broken     *intervalJSON `json:"broken,omitempty"`
	Tightest   *intervalJSON `json:"tightest,omitempty"`
	Excess     uint64        `json:"excess"` // packets after which a bucket held more than it can have
	ExcessAt   uint64        `json:"excess_packet,omitempty"`
}

// intervalJSON is an interval; times are ns by the policer's or the capture's clock.
type intervalJSON struct {
	Bucket   string `json:"bucket"`
	Envelope string `json:"envelope"`
	From     uint64 `json:"from_packet"`
	FromNS   uint64 `json:"from_ns"`
	To       uint64 `json:"to_packet"`
	ToNS     uint64 `json:"to_ns"`
	Accepted uint64 `json:"accepted"`
	Allowed  uint64 `json:"allowed"`
	LeftNB   uint64 `json:"left_nb"`
	OverNB   uint64 `json:"over_nb"`
}

func (x *certificate) json() certificateJSON {
	interval := func(i *certify.Interval) *intervalJSON {
		return &intervalJSON{
			x.keys[i.Key], envelopeNames[i.Envelope], i.From.Number, i.From.Time, i.To.Number, i.To.Time,
			i.Accepted, i.Allowed(), i.Left, i.Over,
		}
	}
	out := certificateJSON{
		File: x.file, Of: x.of, Verdict: x.verdict(), Incomplete: append([]string{}, x.incomplete...), Packets: x.Packets,
		Green: x.Colors[marker.Green], Yellow: x.Colors[marker.Yellow], Red: x.Colors[marker.Red], Buckets: x.Buckets, Breaks: x.Breaks,
		Excess: x.Excess, ExcessAt: x.ExcessAt.Number,
	}
	if x.Breaks > 0 {
		out.Broken = interval(&x.Broken)
	}
	if x.Tightest.To.Number > 0 {
		out.Tightest = interval(&x.Tightest)
	}
	return out
}
