package main

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/tricolor-policer/tricolor/marker"
)

// printJSON prints a value, indented. Counts are whole numbers and may be over 2^53.
func printJSON(w io.Writer, value any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(value); err != nil {
		return err
	}
	_, err := w.Write(printableJSON(b.Bytes()))
	return err
}

// countJSON is a count of packets and their bytes.
type countJSON struct {
	Packets uint64 `json:"packets"`
	Bytes   uint64 `json:"bytes"`
}

// colorsJSON is a count for each colour.
type colorsJSON struct {
	Green  countJSON `json:"green"`
	Yellow countJSON `json:"yellow"`
	Red    countJSON `json:"red"`
	Total  countJSON `json:"total"`
}

func colorsOf(packets, bytes [marker.Colors]uint64) colorsJSON {
	of := func(c marker.Color) countJSON { return countJSON{packets[c], bytes[c]} }
	return colorsJSON{of(marker.Green), of(marker.Yellow), of(marker.Red), countJSON{total(packets), total(bytes)}}
}

// classJSON is a class's counters.
type classJSON struct {
	Name      string     `json:"name"`
	Colors    colorsJSON `json:"colors"`
	Overflow  uint64     `json:"overflow"`
	Contended uint64     `json:"contended"`
	ClockBack uint64     `json:"clock_back"`
}

// statsJSON is all counters.
type statsJSON struct {
	Classes   []classJSON `json:"classes"`
	Unmatched uint64      `json:"unmatched"`
	NotIP     uint64      `json:"not_ip"`
	Malformed uint64      `json:"malformed"`
	LongChain uint64      `json:"long_chain"`
	Unread    uint64      `json:"unread"`
}

func statsOf(plan *marker.Plan, s *marker.Stats) *statsJSON {
	out := &statsJSON{
		Classes:   []classJSON{},
		Unmatched: s.Port.Unmatched, NotIP: s.Port.NotIP, Malformed: s.Port.Malformed, LongChain: s.Port.LongChain,
		Unread: s.Port.Unread,
	}
	for i := range s.Classes {
		out.Classes = append(out.Classes, classOf(plan.Classes[i].Name, &s.Classes[i]))
	}
	return out
}

func classOf(name string, c *marker.ClassStats) classJSON {
	return classJSON{
		Name: name, Colors: colorsOf(c.Packets, c.Bytes),
		Overflow: c.Overflow, Contended: c.Contended, ClockBack: c.ClockBack,
	}
}
