package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/tricolor-policer/tricolor/maps"
	"github.com/tricolor-policer/tricolor/marker"
)

// seenPacket is a packet as the monitor prints it; in JSON, an object a line.
type seenPacket struct {
	UnixNS    uint64      `json:"unix_ns"`
	NS        uint64      `json:"ns"` // by the policer's clock
	Color     string      `json:"color"`
	Arrival   string      `json:"arrival"`
	Class     string      `json:"class"`
	Cost      uint64      `json:"cost"`
	Packets   uint32      `json:"packets"` // on the wire
	Contended bool        `json:"contended,omitempty"`
	Meters    []seenMeter `json:"meters"`
	// How it would have had the next better colour: ns later, if nothing else had come.
	Better string `json:"better,omitempty"`
	WaitNS uint64 `json:"wait_ns,omitempty"`
	Never  bool   `json:"never,omitempty"`

	count marker.Count
}

// seenMeter is one meter of the packet's chain. Tokens are nanobytes, or nanopackets where packets are counted.
type seenMeter struct {
	Profile  string `json:"profile"`
	Key      string `json:"key"`
	Overflow bool   `json:"overflow,omitempty"`
	Color    string `json:"color"`
	Tc       uint64 `json:"tc_nb"` // at the packet's time, before it spent
	Tx       uint64 `json:"tx_nb"` // Te or Tp
	ShortC   uint64 `json:"short_c_nb"`
	ShortX   uint64 `json:"short_x_nb"`
	Need     string `json:"need"` // for the better colour: nothing, tokens, burst, rate or arrival

	profile *marker.Profile
}

// view makes of a decision what is printed of it.
func (m *monitor) view(plan *watched, d *maps.Decision) (*seenPacket, error) {
	c := &plan.Classes[d.Class]
	p := &seenPacket{
		UnixNS: d.Now + m.ahead, NS: d.Now, Color: d.Color.String(), Arrival: d.Arrival.String(), Class: c.Name,
		Cost: d.Cost, Packets: d.Packets, Contended: d.Chain == 0, Meters: []seenMeter{}, count: c.Count,
	}
	cost, in, want := d.Cost*marker.Nano, d.Arrival, max(d.Color, marker.Yellow)-1
	var chain []marker.ChainMeter
	for i := range d.Chain {
		j := &d.Judged[i]
		by, err := m.plan(j.Generation)
		if err != nil {
			return nil, err
		}
		if by == nil || int(j.Profile) >= len(by.Profiles) {
			by = plan
			j.Profile = c.Meters[i].Profile
		}
		profile, bucket := &by.Profiles[j.Profile], j.Bucket
		if d.Color < marker.Red {
			unspend(profile, &bucket, cost, j.Color)
		}
		chain = append(chain, marker.ChainMeter{Profile: profile, Bucket: bucket})
		short := profile.Short(bucket, d.Now, cost, in, want)
		key := d.Key(&c.Meters[i])
		p.Meters = append(p.Meters, seenMeter{
			Profile: profile.Name, Key: plan.names.key(key.Fields(), false), Overflow: j.Overflow, Color: j.Color.String(),
			Tc: bucket.Tc, Tx: bucket.Tx, ShortC: short.C, ShortX: short.X, Need: short.Need.String(), profile: profile,
		})
		if in = max(in, j.Color); i == 0 {
			in = j.Color
		}
	}
	if d.Chain > 0 && d.Color > marker.Green {
		wait, ok := marker.ChainWait(chain, d.Now, cost, d.Arrival, want)
		if !ok && want == marker.Yellow {
			want = marker.Green
			wait, ok = marker.ChainWait(chain, d.Now, cost, d.Arrival, want)
		}
		p.Better, p.WaitNS, p.Never = want.String(), wait, !ok
	}
	return p, nil
}

// unspend gives a bucket back what a packet of a colour took from it.
func unspend(p *marker.Profile, b *marker.Bucket, cost uint64, color marker.Color) {
	if color == marker.Green {
		b.Tc += cost
	}
	if color == marker.Yellow || color == marker.Green && p.Meter == marker.TRTCM {
		b.Tx += cost
	}
}

func (p *seenPacket) printJSON(w io.Writer) error {
	line, err := json.Marshal(p)
	if err != nil {
		return err
	}
	_, err = w.Write(append(printableJSON(line), '\n'))
	return err
}

// String is the packet in a line.
func (p *seenPacket) String() string {
	text := fmt.Sprintf("%s %-6s %s", time.Unix(0, int64(p.UnixNS)).Format("15:04:05.000000"), p.Color, p.Class)
	if len(p.Meters) > 0 {
		text += " " + p.Meters[0].Key
	}
	text += ": " + amount(p.Cost*marker.Nano, p.count)
	if p.Packets > 1 {
		text += fmt.Sprintf(" in %d packets", p.Packets)
	}
	if p.Arrival != marker.Green.String() {
		text += ", arrives " + p.Arrival
	}
	if p.Contended {
		return text + "; its buckets could not be locked in time"
	}
	for i := range p.Meters {
		text += "; " + p.Meters[i].words(len(p.Meters) > 1, p.count)
	}
	switch {
	case p.Never:
		text += "; would never be " + p.Better
	case p.Better != "":
		text += fmt.Sprintf("; would be %s %s later", p.Better, wait(p.WaitNS))
	}
	return text
}

// words is what a meter's buckets held, and were short of.
func (m *seenMeter) words(chain bool, count marker.Count) string {
	second, _, _ := tokenNames(m.profile.Meter)
	text := ""
	if chain {
		text = m.Profile + " " + m.Color + ", "
	}
	if m.Overflow {
		text += "overflow bucket, "
	}
	text += "Tc " + amount(m.Tc, count)
	if second != "" {
		text += ", " + second + " " + amount(m.Tx, count)
	}
	var short []string
	if m.ShortC > 0 {
		short = append(short, "Tc "+amount(m.ShortC, count))
	}
	if m.ShortX > 0 {
		short = append(short, second+" "+amount(m.ShortX, count))
	}
	if len(short) > 0 {
		text += " (short: " + strings.Join(short, ", ") + ")"
	}
	return text
}
