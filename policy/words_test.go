package policy

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tricolor-policer/tricolor/marker"
)

// srtcm is a legal class; a test changes one thing of it.
func srtcm(change func(*Words)) Words {
	w := Words{Meter: "srtcm", CIR: "10mbit", CBS: "96KiB", EBS: "192KiB"}
	if change != nil {
		change(&w)
	}
	return w
}

var drop = marker.Action{Verbs: marker.VerbDrop}

func remark(dscp uint8) marker.Action { return marker.Action{Verbs: marker.VerbDSCP, DSCP: dscp} }

// legal is the policy of srtcm, changed as its words were.
func legal(change func(*Policy, *Profile, *Class, *Meter)) *Policy {
	p := &Policy{
		Flows:     1_000_000,
		Malformed: drop,
		Profiles: []Profile{{
			Name:   "default",
			Params: marker.Params{Meter: marker.SRTCM, CIR: 1_250_000, CBS: 98_304, EBS: 196_608},
		}},
		Classes: []Class{{
			Name:    "default",
			Arrival: marker.DefaultArrival(),
			Meters:  []Meter{{Profile: "default", Per: marker.PerFlow}},
			Actions: [marker.Colors]marker.Action{marker.Red: drop},
		}},
	}
	if change != nil {
		change(p, &p.Profiles[0], &p.Classes[0], &p.Classes[0].Meters[0])
	}
	return p
}

func TestWords(t *testing.T) {
	for name, test := range map[string]struct {
		words Words
		want  *Policy
	}{
		"defaults": {srtcm(nil), legal(nil)},
		"actions": {
			srtcm(func(w *Words) { w.Green, w.Yellow, w.Red, w.Malformed = "dscp=af11", "dscp=12", "pass", "pass" }),
			legal(func(p *Policy, _ *Profile, c *Class, _ *Meter) {
				c.Actions = [marker.Colors]marker.Action{remark(10), remark(12), {}}
				p.Malformed = marker.Action{}
			}),
		},
		"verbs": {
			srtcm(func(w *Words) { w.Green, w.Yellow, w.Red = "mark=4294967295,priority=7", "ecn-ce, dscp=af12", "ecn-ce" }),
			legal(func(p *Policy, _ *Profile, c *Class, _ *Meter) {
				c.Actions = [marker.Colors]marker.Action{
					{Verbs: marker.VerbMark | marker.VerbPriority, Mark: 1<<32 - 1, Priority: 7},
					{Verbs: marker.VerbCE | marker.VerbDSCP, DSCP: 12},
					{Verbs: marker.VerbCE},
				}
			}),
		},
		"per vlan": {
			srtcm(func(w *Words) { w.Per = "vlan" }),
			legal(func(_ *Policy, _ *Profile, _ *Class, m *Meter) { m.Per = marker.PerVLAN }),
		},
		"per dscp": {
			srtcm(func(w *Words) { w.Per = "dscp" }),
			legal(func(_ *Policy, _ *Profile, _ *Class, m *Meter) { m.Per = marker.PerDSCP }),
		},
		"per interface": {
			srtcm(func(w *Words) { w.Per = "interface" }),
			legal(func(_ *Policy, _ *Profile, _ *Class, m *Meter) { m.Per = marker.PerInterface }),
		},
		"per src": {
			srtcm(func(w *Words) { w.Per = "src" }),
			legal(func(_ *Policy, _ *Profile, _ *Class, m *Meter) { m.Per, m.Prefix = marker.PerSrc, [2]int{32, 64} }),
		},
		"per prefix": {
			srtcm(func(w *Words) { w.Per = "dst/24,56" }),
			legal(func(_ *Policy, _ *Profile, _ *Class, m *Meter) { m.Per, m.Prefix = marker.PerDst, [2]int{24, 56} }),
		},
		"per widest and narrowest prefix": {
			srtcm(func(w *Words) { w.Per = "src/0,128" }),
			legal(func(_ *Policy, _ *Profile, _ *Class, m *Meter) { m.Per, m.Prefix = marker.PerSrc, [2]int{0, 128} }),
		},
		"per class": {
			srtcm(func(w *Words) { w.Per = "class" }),
			legal(func(_ *Policy, _ *Profile, _ *Class, m *Meter) { m.Per = marker.PerClass }),
		},
		"cost": {
			srtcm(func(w *Words) { w.Count, w.Overhead, w.Color = "l1", "-4", "aware" }),
			legal(func(_ *Policy, p *Profile, c *Class, _ *Meter) {
				c.Count, c.Overhead, p.Aware = marker.CountL1, -4, true
			}),
		},
		"overhead": {
			srtcm(func(w *Words) { w.Overhead = "+65535" }),
			legal(func(_ *Policy, _ *Profile, c *Class, _ *Meter) { c.Overhead = 65535 }),
		},
		"flows": {
			srtcm(func(w *Words) { w.Flows = "64k" }),
			legal(func(p *Policy, _ *Profile, _ *Class, _ *Meter) { p.Flows = 64_000 }),
		},
		"packets": {
			srtcm(func(w *Words) { w.Count, w.CIR, w.CBS, w.EBS = "packets", "1.5kpps", "32pkt", "10ms" }),
			legal(func(_ *Policy, p *Profile, c *Class, _ *Meter) {
				c.Count, p.Packets, p.CIR, p.CBS, p.EBS = marker.CountPackets, true, 1500, 32, 15
			}),
		},
		"srtcm's times are at cir, rounded down": {
			srtcm(func(w *Words) { w.CIR, w.CBS, w.EBS = "1999B/s", "1ms", "10ms" }),
			legal(func(_ *Policy, p *Profile, _ *Class, _ *Meter) { p.CIR, p.CBS, p.EBS = 1999, 1, 19 }),
		},
		"trtcm's times are at cir and pir": {
			Words{Meter: "trtcm", CIR: "8mbit", CBS: "10ms", PIR: "16mbit", PBS: "10ms"},
			legal(func(_ *Policy, p *Profile, _ *Class, _ *Meter) {
				p.Params = marker.Params{Meter: marker.TRTCM, CIR: 1e6, CBS: 10_000, PIR: 2e6, PBS: 20_000}
			}),
		},
		"rfc4115's times are at cir and eir": {
			Words{Meter: "rfc4115", CIR: "8mbit", CBS: "10ms", EIR: "800kbit", EBS: "10ms", Coupling: true},
			legal(func(_ *Policy, p *Profile, _ *Class, _ *Meter) {
				p.Params = marker.Params{Meter: marker.RFC4115, CIR: 1e6, CBS: 10_000, EIR: 1e5, EBS: 1000, Coupling: true}
			}),
		},
		"token": {
			Words{Meter: "token", CIR: "1gbit", CBS: "20ms"},
			legal(func(_ *Policy, p *Profile, _ *Class, _ *Meter) {
				p.Params = marker.Params{Meter: marker.Token, CIR: 125_000_000, CBS: 2_500_000}
			}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := test.words.Policy()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("policy (-want +got):\n%s", diff)
			}
			plan, err := got.Compile()
			if err != nil {
				t.Fatal(err)
			}
			if err := plan.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Every refusal wraps ErrPolicy, and has exactly these lines.
func TestWordsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		words Words
		want  []string // the lines, or their beginnings where they end in …
	}{
		"nothing": {Words{}, []string{
			"--meter: none is given: say token, srtcm (RFC 2697), trtcm (RFC 2698) or rfc4115",
		}},
		"a wrong meter says nothing of its parameters": {Words{Meter: "srTCM", CBS: "10ms", Coupling: true}, []string{
			`--meter: "srTCM" is no meter: say token, srtcm (RFC 2697), trtcm (RFC 2698) or rfc4115`,
		}},
		"no parameters": {Words{Meter: "srtcm"}, []string{
			"--cir: a rate is needed: with 0 nothing is ever earned (RFC 2697 section 2)",
			"--cbs, --ebs: at least one must be larger than 0: else every packet is red (RFC 2697 section 2)",
		}},
		"unclear rate": {srtcm(func(w *Words) { w.CIR = "10mbps" }), []string{
			`--cir: "10mbps" is unclear: write 10mbit (bits per second) or 10MB/s (bytes per second)`,
		}},
		"bare number": {srtcm(func(w *Words) { w.EBS = "2000" }), []string{
			`--ebs: "2000" is unclear: write 2000B (bytes) or 2000pkt (packets)`,
		}},
		"a rate unread is no rate of 0": {Words{Meter: "trtcm", CIR: "10", CBS: "1ms", PIR: "20mbit", PBS: "1ms"}, []string{
			`--cir: "10" is unclear: write 10bit (bits per second) or 10B/s (bytes per second)`,
		}},
		"everything at once": {
			Words{
				Meter: "trtcm", CIR: "2mbit", CBS: "0B", PIR: "1mbit", PBS: "1500", EBS: "2kB", EIR: "1x", Color: "grey",
				Coupling: true, Per: "host", Count: "l4", Overhead: "4B", Flows: "1m",
				Green: "ef", Yellow: "dscp=af14", Red: "reject", Malformed: "dscp=ef",
			},
			[]string{
				`--count: "l4" is no unit to count: …`,
				`--color: "grey" is no mode: say blind (each packet arrives green) or aware (by its DSCP)`,
				`--eir: "1x" has the unit "x": …`,
				`--pbs: "1500" is unclear: …`,
				`--per: "host" shares no bucket: say flow, src, dst, src/24,56 or dst/24,56 (bits of an IPv4 and of an IPv6 address), vlan, dscp, class or interface`,
				`--overhead: "4B" is no overhead: write a whole number without a unit, from -65535 to +65535, such as +24 or -4`,
				`--green: "ef" is no verb: say pass, drop, dscp=NAME (a name such as af11, ef or cs1, or a number from 0 to 63), ecn-ce, mark=N or priority=N`,
				`--yellow: "af14" is no DSCP: …`,
				`--red: "reject" is no verb: …`,
				`--flows: "1m" is unclear: …`,
				`--malformed: "dscp=ef" is no verb for malformed packets: say drop or pass`,
				`--ebs: trtcm has no such parameter: leave it out (RFC 2698 section 2)`,
				`--coupling: trtcm has no such parameter: only rfc4115 couples its buckets (RFC 2698 section 2)`,
				`--pir: 125000 B/s is below cir (250000 B/s): it must be equal or larger (RFC 2698 section 2)`,
				`--cbs: must be larger than 0 (RFC 2698 section 2)`,
			},
		},
		"a time for a bucket the meter has not": {srtcm(func(w *Words) { w.PBS = "10ms" }), []string{
			"--pbs: srtcm has no such parameter: leave it out (RFC 2697 section 2)",
		}},
		"a time at no rate": {Words{Meter: "rfc4115", CIR: "1mbit", CBS: "10ms", EBS: "10ms", Coupling: true}, []string{
			`--ebs: "10ms" is a time at --eir, which is 0: write the size itself, or give the rate`,
		}},
		"a time that comes to 0": {srtcm(func(w *Words) { w.CIR, w.CBS = "8bit", "999ms" }), []string{
			"--cbs: 999 ms at 1 per second rounds down to 0: write a longer time, or the size itself",
		}},
		"a time that comes to too much": {srtcm(func(w *Words) { w.CIR, w.CBS = "1tbit", "100000ms" }), []string{
			"--cbs: 100000 ms at 125000000000 per second is too much: …",
		}},
		"bursts too large together": {srtcm(func(w *Words) { w.CBS, w.EBS = "5GB", "5GB" }), []string{
			"--cbs + --ebs: 10000000000 B is out of range: at most 9223372036 (RFC 2697 section 2)",
		}},
		"and in packets": {srtcm(func(w *Words) {
			w.Count, w.CIR, w.CBS, w.EBS = "packets", "1pps", "5000000000pkt", "5000000000pkt"
		}), []string{
			"--cbs + --ebs: 10000000000 pkt is out of range: at most 9223372036 (RFC 2697 section 2)",
		}},
		"bytes where packets are counted": {srtcm(func(w *Words) { w.Count = "packets" }), []string{
			`--cir: "10mbit" is a rate in bytes, while count is packets: write it in pps, kpps or mpps`,
			`--cbs: "96KiB" is a size in bytes, while count is packets: write it in pkt or a time at the rate, such as 10ms`,
			`--ebs: "192KiB" is a size in bytes, …`,
		}},
		"packets where bytes are counted": {srtcm(func(w *Words) { w.Count, w.CIR, w.CBS = "l2", "5kpps", "32pkt" }), []string{
			`--cir: "5kpps" is a rate in packets, while count is l2: write it in kbit, mbit, gbit or kB/s, MB/s, or count packets`,
			`--cbs: "32pkt" is a size in packets, while count is l2: write it in B, kB, KiB, MiB or a time at the rate, such as 10ms, or count packets`,
		}},
		"pir below cir, in packets": {
			Words{Meter: "trtcm", Count: "packets", CIR: "2kpps", CBS: "10pkt", PIR: "1kpps", PBS: "10pkt"},
			[]string{"--pir: 1000 pps is below cir (2000 pps): it must be equal or larger (RFC 2698 section 2)"},
		},
		"no such verb":     {srtcm(func(w *Words) { w.Yellow = "dscp=af12,foo" }), []string{`--yellow: "foo" is no verb: say pass, …`}},
		"a verb's value":   {srtcm(func(w *Words) { w.Yellow = "mark" }), []string{`--yellow: "mark" is no verb: …`}},
		"a value too much": {srtcm(func(w *Words) { w.Yellow = "drop=1" }), []string{`--yellow: "drop=1" is no verb: …`}},
		"a verb twice":     {srtcm(func(w *Words) { w.Yellow = "mark=1,mark=2" }), []string{`--yellow: "mark=1,mark=2" says mark twice: keep one`}},
		"drop and mark":    {srtcm(func(w *Words) { w.Red = "drop,mark=2" }), []string{`--red: a packet that is dropped cannot also be marked or passed: …`}},
		"pass and dscp":    {srtcm(func(w *Words) { w.Green = "pass,dscp=0" }), []string{`--green: pass leaves the DSCP as it is, dscp writes it: say one of them`}},
		"octal mark":       {srtcm(func(w *Words) { w.Green = "mark=010" }), []string{`--green: "010" is unclear: …`}},
		"mark too large":   {srtcm(func(w *Words) { w.Green = "mark=4294967296" }), []string{`--green: 4294967296 is out of range: a mark is from 0 to 4294967295`}},
		"hex priority":     {srtcm(func(w *Words) { w.Green = "priority=0x10" }), []string{`--green: "0x10" is no priority: write a whole number from 0 to 4294967295`}},
		"one prefix": {srtcm(func(w *Words) { w.Per = "src/24" }), []string{
			`--per: "src/24" needs two prefix lengths, of IPv4 and of IPv6: such as src/24,56`,
		}},
		"prefix too long": {srtcm(func(w *Words) { w.Per = "dst/33,56" }), []string{
			`--per: "dst/33,56": "33" is no prefix length of an IPv4 address: from 0 to 32, such as dst/24,56`,
		}},
		"IPv6 prefix too long": {srtcm(func(w *Words) { w.Per = "dst/32,129" }), []string{
			`--per: "dst/32,129": "129" is no prefix length of an IPv6 address: from 0 to 128, …`,
		}},
		"octal prefix":       {srtcm(func(w *Words) { w.Per = "src/024,56" }), []string{`--per: "src/024,56": "024" is no prefix length of …`}},
		"prefix of a flow":   {srtcm(func(w *Words) { w.Per = "flow/24,56" }), []string{`--per: "flow/24,56": flow takes no prefix: …`}},
		"overhead too large": {srtcm(func(w *Words) { w.Overhead = "-65536" }), []string{"--overhead: -65536 is out of range: from -65535 to +65535"}},
		"octal overhead":     {srtcm(func(w *Words) { w.Overhead = "010" }), []string{`--overhead: "010" is no overhead: …`}},
		"DSCP out of range":  {srtcm(func(w *Words) { w.Yellow = "dscp=64" }), []string{`--yellow: "64" is no DSCP: …`}},
		"DSCP of nothing":    {srtcm(func(w *Words) { w.Yellow = "dscp=" }), []string{`--yellow: "" is no DSCP: …`}},
		"too many flows": {srtcm(func(w *Words) { w.Flows = "100M" }), []string{
			"--flows: 100000000 bucket slots are too many: at most 67108864 (8 GiB)",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := test.words.Policy()
			if !errors.Is(err, ErrPolicy) {
				t.Fatalf("error %v; want one that wraps ErrPolicy", err)
			}
			got := strings.Split(err.Error(), "\n")
			for i, want := range test.want {
				if begin, cut := strings.CutSuffix(want, "…"); cut && i < len(got) && strings.HasPrefix(got[i], begin) {
					got[i] = want
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
		})
	}
}
