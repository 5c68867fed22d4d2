package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/tricolor-policer/tricolor/internal/units"
	"github.com/tricolor-policer/tricolor/marker"
)

// print prints a table of each attachment.
func (f *topFrame) print(w io.Writer, choice *topChoice, most uint64) error {
	for i, h := range f.hooks {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := h.print(w, choice, most); err != nil {
			return err
		}
	}
	return nil
}

func (h *topHook) print(w io.Writer, choice *topChoice, most uint64) error {
	fmt.Fprintf(w, "%s %s, over %s\n", printable(h.device), h.direction, elapsedText(h.elapsed))
	for _, line := range []string{h.state, h.event} {
		if line != "" {
			fmt.Fprintf(w, "  %s\n", line)
		}
	}
	if h.pending > 0 {
		fmt.Fprintf(w, "  %s\n", unconfirmedFor(h.pending))
	}
	t := newNumbers(w)
	heads := []string{"green", "pkt/s", "yellow", "pkt/s", "red", "pkt/s"}
	t.named("class", heads...)
	for i := range h.classes {
		c := &h.classes[i]
		t.named(printable(c.name), rateCellsOf(&c.counted.Packets, &c.counted.Bytes, h.elapsed)...)
	}
	if err := t.flush(); err != nil {
		return err
	}
	var parts []string
	for _, s := range h.stages {
		parts = append(parts, s.String())
	}
	fmt.Fprintf(w, "  table: %s\n", strings.Join(append(parts, topExtras(h)...), "; "))
	if h.torn > 0 {
		fmt.Fprintf(w, "  %s kept changing and could not be read\n", plural(uint64(h.torn), "set of 4 slots", "sets of 4 slots"))
	}
	keys := h.first(most)
	over := ""
	if h.keysElapsed > h.elapsed*3/2 {
		over = ", over " + elapsedText(h.keysElapsed)
	}
	fmt.Fprintf(w, "  %s counted a packet%s\n", plural(uint64(h.active), "bucket", "buckets"), over)
	if len(keys) == 0 {
		return nil
	}
	t = newNumbers(w)
	t.named("bucket, most "+choice.order, append(heads, "of CBS", "of E|P")...)
	for i := range keys {
		k := &keys[i]
		t.named(k.name, append(rateCellsOf(&k.packets, &k.bytes, h.keysElapsed), fillShare(k.Tc, k.CBS), fillShare(k.Te, k.EBS))...)
	}
	return t.flush()
}

// first is the first most buckets; 0: all.
func (h *topHook) first(most uint64) []topKey {
	if most > 0 && most < uint64(len(h.keys)) {
		return h.keys[:most]
	}
	return h.keys
}

// fillShare prints how full a bucket is; nothing where there is none.
func fillShare(tokens, burst uint64) string {
	if burst == 0 {
		return "-"
	}
	return share(tokens, burst)
}

// rateCellsOf are rates by colour, each in bit/s, then in packets/s.
func rateCellsOf(packets, bytes *[marker.Colors]uint64, elapsed uint64) (cells []string) {
	for color := range marker.Colors {
		cells = append(cells, units.FormatMeanRate(perSecond(bytes[color], elapsed)), units.FormatCount(perSecond(packets[color], elapsed)))
	}
	return cells
}

// topJSON is a frame as -o json prints it.
type topJSON struct {
	Attachments []topHookJSON `json:"attachments"`
}

type topHookJSON struct {
	Device    string         `json:"device"`
	Direction string         `json:"direction"`
	State     string         `json:"state"` // what is wrong; empty: nothing
	Elapsed   uint64         `json:"interval_ns"`
	Classes   []topClassJSON `json:"classes"`
	Unmatched uint64         `json:"unmatched"` // of the interval, as those that follow
	NotIP     uint64         `json:"not_ip"`
	Malformed uint64         `json:"malformed"`
	LongChain uint64         `json:"long_chain"`
	Unread    uint64         `json:"unread"`

	KeysElapsed uint64       `json:"buckets_interval_ns"`
	Active      int          `json:"active_buckets"`
	Torn        int          `json:"torn_sets"`
	Table       []stageUse   `json:"table"`
	Buckets     []topKeyJSON `json:"buckets"`
}

// topClassJSON is a class: what it counted in the interval, and, as show says it, in all.
type topClassJSON struct {
	Name      string     `json:"name"`
	Counted   colorsJSON `json:"counted"`
	PerSecond colorsJSON `json:"per_second"`
	Overflow  uint64     `json:"overflow"` // packets of the interval, as those that follow
	Contended uint64     `json:"contended"`
	ClockBack uint64     `json:"clock_back"`
	Colors    colorsJSON `json:"colors"`
}

// topKeyJSON is a bucket as dump flows prints it, and what it counted in the interval.
type topKeyJSON struct {
	bucketJSON
	Counted   colorsJSON `json:"counted"`
	PerSecond colorsJSON `json:"per_second"`
}

// perSecondOf are rates in packets and bytes a second.
func perSecondOf(packets, bytes [marker.Colors]uint64, elapsed uint64) colorsJSON {
	for color := range packets {
		packets[color], bytes[color] = perSecond(packets[color], elapsed), perSecond(bytes[color], elapsed)
	}
	return colorsOf(packets, bytes)
}

func (f *topFrame) json(most uint64) topJSON {
	out := topJSON{Attachments: []topHookJSON{}}
	for _, h := range f.hooks {
		j := topHookJSON{
			Device: h.device, Direction: h.direction, State: h.state, Elapsed: h.elapsed, Classes: []topClassJSON{},
			Unmatched: h.port.Unmatched, NotIP: h.port.NotIP, Malformed: h.port.Malformed, LongChain: h.port.LongChain,
			Unread: h.port.Unread, KeysElapsed: h.keysElapsed, Active: h.active, Torn: h.torn, Table: h.stages, Buckets: []topKeyJSON{},
		}
		for i := range h.classes {
			c := &h.classes[i]
			j.Classes = append(j.Classes, topClassJSON{
				Name: c.name, Counted: colorsOf(c.counted.Packets, c.counted.Bytes),
				PerSecond: perSecondOf(c.counted.Packets, c.counted.Bytes, h.elapsed),
				Overflow:  c.counted.Overflow, Contended: c.counted.Contended, ClockBack: c.counted.ClockBack,
				Colors: colorsOf(c.all.Packets, c.all.Bytes),
			})
		}
		for _, k := range h.first(most) {
			j.Buckets = append(j.Buckets, topKeyJSON{k.bucketJSON, colorsOf(k.packets, k.bytes), perSecondOf(k.packets, k.bytes, h.keysElapsed)})
		}
		out.Attachments = append(out.Attachments, j)
	}
	return out
}
