package main

import (
	"net/netip"

	"github.com/tricolor-policer/tricolor/marker"
	"github.com/tricolor-policer/tricolor/pcaptest"
)

// explainedJSON is what explain prints with -o json. Tokens are nanobytes (nanopackets where packets are counted).
type explainedJSON struct {
	File     string         `json:"file"`
	Packet   int64          `json:"packet"`
	TimeNS   uint64         `json:"time_ns"`
	Changes  int            `json:"policy_changes"` // by --then, that had taken place
	LinkType string         `json:"link_type"`
	Captured int            `json:"captured_bytes"`
	Length   int            `json:"wire_bytes"`
	Headers  headersJSON    `json:"headers"`
	Kind     string         `json:"kind"` // metered, unmatched, not-ip or malformed
	Class    string         `json:"class,omitempty"`
	Rule     int            `json:"rule"` // from 1; 0: none matched
	RuleText string         `json:"rule_text,omitempty"`
	Arrival  string         `json:"arrival,omitempty"`
	Cost     *chargeJSON    `json:"cost,omitempty"`
	Chain    []judgedJSON   `json:"chain,omitempty"`
	Color    string         `json:"color,omitempty"`
	Waits    map[string]any `json:"waits_ns,omitempty"` // by colour or better: ns later, or null: never
	Verdict  string         `json:"verdict"`
	Action   string         `json:"action,omitempty"`
	DSCP     *changeOf      `json:"dscp,omitempty"`
	ECN      *changeOf      `json:"ecn,omitempty"`
	Checksum *changeOf      `json:"header_checksum,omitempty"`
}

type changeOf struct {
	Before uint64 `json:"before"`
	After  uint64 `json:"after"`
}

type headersJSON struct {
	Reading      string      `json:"reading"` // ip, not-ip or malformed
	Why          string      `json:"why,omitempty"`
	Tags         []tagJSON   `json:"tags,omitempty"`
	VLAN         uint16      `json:"vlan"`
	PPPoE        *pppoeJSON  `json:"pppoe,omitempty"`
	EtherType    uint16      `json:"ethertype,omitempty"`
	Version      int         `json:"ip_version,omitempty"`
	Src          *netip.Addr `json:"src,omitempty"`
	Dst          *netip.Addr `json:"dst,omitempty"`
	At           uint32      `json:"ip_offset,omitempty"`
	HeaderLength uint32      `json:"header_bytes,omitempty"`
	IPLength     uint32      `json:"ip_bytes,omitempty"`
	Fragment     bool        `json:"fragment"`
	Offset       *uint32     `json:"fragment_offset,omitempty"` // bytes
	More         *bool       `json:"more_fragments,omitempty"`
	Extensions   []string    `json:"extensions,omitempty"`
	LongChain    bool        `json:"long_chain"`
	Proto        *uint8      `json:"proto,omitempty"`
	Sport        *uint16     `json:"sport,omitempty"`
	Dport        *uint16     `json:"dport,omitempty"`
	NoPorts      string      `json:"no_ports,omitempty"`
}

type tagJSON struct {
	EtherType uint16 `json:"ethertype"`
	VID       uint16 `json:"vid"`
	Priority  uint16 `json:"priority"`
}

type pppoeJSON struct {
	Session  uint16 `json:"session"`
	Protocol uint16 `json:"protocol"`
}

type chargeJSON struct {
	Cost     uint64 `json:"cost"`
	Count    string `json:"count"`
	IP       uint64 `json:"ip_bytes"`
	Frame    uint64 `json:"frame_bytes"`
	Overhead int64  `json:"overhead"`
	Segments uint32 `json:"segments"`
}

type judgedJSON struct {
	Profile  string               `json:"profile"`
	Bucket   string               `json:"bucket"`
	Set      uint32               `json:"set"`
	Slot     uint32               `json:"slot"`
	Found    string               `json:"found"` // there, new, reused or overflow
	Packets  map[string]uint64    `json:"packets_before"`
	Before   tokensJSON           `json:"before"`
	AtNow    tokensJSON           `json:"at_now"`
	After    tokensJSON           `json:"after"`
	CBS      uint64               `json:"cbs_nb"`
	XBS      uint64               `json:"xbs_nb"` // EBS or PBS
	Arrival  string               `json:"arrival"`
	Color    string               `json:"color"`
	ShortFor map[string]shortJSON `json:"short_for"`
}

type tokensJSON struct {
	LastNS uint64 `json:"last_ns"`
	Tc     uint64 `json:"tc_nb"`
	Tx     uint64 `json:"tx_nb"` // Te or Tp
}

type shortJSON struct {
	Need string  `json:"need"` // tokens, burst, rate or arrival
	C    uint64  `json:"tc_nb"`
	X    uint64  `json:"tx_nb"`
	Wait *uint64 `json:"wait_ns"` // null: never
}

func explainedOf(file string, x *pcaptest.Explained, names *bucketNames) *explainedJSON {
	e := x.Explanation
	out := &explainedJSON{
		File: file, Packet: x.Packet.Number, TimeNS: e.Now, Changes: x.Applied, LinkType: x.Packet.Link.String(),
		Captured: len(x.Packet.Data), Length: x.Packet.Length, Headers: headersJSONOf(&e.Headers),
		Kind: e.Outcome.Kind.String(), Rule: e.Rule + 1, Verdict: verdictName(e.Outcome.Dropped),
	}
	if e.Headers.Reading == marker.ReadIP {
		out.DSCP = &changeOf{uint64(e.TOS[0] >> 2), uint64(e.TOS[1] >> 2)}
		out.ECN = &changeOf{uint64(e.TOS[0] & 3), uint64(e.TOS[1] & 3)}
		if e.Headers.Version == 4 {
			out.Checksum = &changeOf{uint64(e.Checksum[0]), uint64(e.Checksum[1])}
		}
	}
	if e.Outcome.Kind == marker.Metered || e.Outcome.Kind == marker.Malformed {
		out.Action = e.Action.String()
	}
	if e.Outcome.Kind != marker.Metered {
		return out
	}
	c := &e.Charge
	out.Class, out.RuleText = className(e.Plan, e.Outcome.Class), ruleWords(e.Plan, &e.Plan.Rules[e.Rule])
	out.Arrival, out.Color = e.Outcome.Arrival.String(), e.Outcome.Color.String()
	out.Cost = &chargeJSON{c.Cost, c.Count.String(), c.IP, c.Frame, c.Overhead, c.Segments}
	out.Waits = map[string]any{}
	for color, wait := range e.Waits {
		out.Waits[marker.Color(color).String()] = nil
		if !wait.Never {
			out.Waits[marker.Color(color).String()] = wait.NS
		}
	}
	for i := range e.Chain {
		out.Chain = append(out.Chain, judgedOf(e, &e.Chain[i], names))
	}
	return out
}

func headersJSONOf(h *marker.Headers) headersJSON {
	out := headersJSON{
		Reading: h.Reading.String(), Why: h.Why, VLAN: h.VLAN, EtherType: h.EtherType, Version: h.Version, At: h.At,
		HeaderLength: h.HeaderLength, IPLength: h.IPLength, Fragment: h.Fragment, LongChain: h.LongChain, NoPorts: h.NoPorts,
	}
	for _, tag := range h.Tags {
		out.Tags = append(out.Tags, tagJSON{tag.EtherType, tag.VID(), tag.TCI >> 13})
	}
	for _, header := range h.Extensions {
		out.Extensions = append(out.Extensions, marker.ExtensionName(header))
	}
	if h.PPPoE != nil {
		out.PPPoE = &pppoeJSON{h.PPPoE.Session, h.PPPoE.Protocol}
	}
	if h.Reading == marker.ReadIP {
		out.Src, out.Dst, out.Proto = &h.Src, &h.Dst, &h.Proto
	}
	if h.Fragment {
		out.Offset, out.More = &h.Offset, &h.More
	}
	if h.Ports {
		out.Sport, out.Dport = &h.Sport, &h.Dport
	}
	return out
}

func judgedOf(e *marker.Explanation, j *marker.Judgement, names *bucketNames) judgedJSON {
	of := func(b marker.Bucket) tokensJSON { return tokensJSON{b.Last, b.Tc, b.Tx} }
	out := judgedJSON{
		Profile: profileWords(&j.Profile, e.Charge.Count), Bucket: names.name(j.Key, j.Found == marker.FoundOverflow),
		Set: j.Slot / marker.SetSlots, Slot: j.Slot % marker.SetSlots, Found: j.Found.String(), Packets: map[string]uint64{},
		Before: of(j.Before), AtNow: of(j.AtNow), After: of(j.After), CBS: j.Profile.CBS, XBS: j.Profile.XBS,
		Arrival: j.Arrival.String(), Color: j.Color.String(), ShortFor: map[string]shortJSON{},
	}
	for color, n := range j.Packets {
		out.Packets[marker.Color(color).String()] = n
	}
	for want, s := range j.Short {
		if s.Need == marker.NeedNothing {
			continue
		}
		short := shortJSON{Need: s.Need.String(), C: s.C, X: s.X}
		if s.Need == marker.NeedTokens {
			short.Wait = &s.Wait
		}
		out.ShortFor[marker.Color(want).String()] = short
	}
	return out
}
