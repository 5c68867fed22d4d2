package demo

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tricolor-policer/tricolor/internal/netlab"
	"github.com/tricolor-policer/tricolor/loader"
	"github.com/tricolor-policer/tricolor/marker"
)

// consistent returns evidence of which both sides tell the same.
func consistent(t *testing.T) *evidence {
	t.Helper()
	p, err := words.Policy()
	if err != nil {
		t.Fatal(err)
	}
	plan, err := p.Compile()
	if err != nil {
		t.Fatal(err)
	}
	e := &evidence{profile: plan.Profiles[0], flows: make([]flowEvidence, len(flows))}
	add := func(to *netlab.Count, packets uint64) {
		to.Packets += packets
		to.Bytes += packets * packetLen
	}
	for i := range flows {
		f := &e.flows[i]
		f.flow = flows[i]
		f.took = time.Second
		for color, n := range [marker.Colors]uint64{1000, uint64(100 + i), 10} {
			f.packets[color], f.bytes[color] = n, n*packetLen
			e.class.Packets[color] += n
			e.class.Bytes[color] += n * packetLen
			f.sent += n
			if marker.Color(color) == marker.Red {
				continue
			}
			f.received += n
			for _, seen := range []*netlab.Seen{&f.seen, &e.total} {
				add(&seen.Total, n)
				add(&seen.DSCP[[]int{af11, af12}[color]], n)
				add(&seen.ECN[f.flow.ecn], n)
			}
		}
		if f.flow.tcp() {
			f.sent, f.received = 1_000_000, 1_000_000
		}
	}
	return e
}

// disagreeing lists the checks that fail.
func disagreeing(claims []claim) (list []string) {
	for i := range claims {
		for _, k := range claims[i].checks {
			if !claims[i].holds(k) {
				list = append(list, claims[i].what+"; "+k.of)
			}
		}
	}
	return list
}

func TestProofAgrees(t *testing.T) {
	if list := disagreeing(prove(consistent(t))); len(list) != 0 {
		t.Errorf("disagreeing: %q", list)
	}
}

// Whatever is altered on either side is seen, by at least one check and not by all.
func TestProofSees(t *testing.T) {
	alter := map[string]func(e *evidence){
		"the policer lets too much through": func(e *evidence) {
			f := &e.flows[3]
			const more = 300
			f.seen.DSCP[af11].Bytes += more * packetLen
			f.seen.Total.Bytes += more * packetLen
			f.bytes[marker.Green] += more * packetLen
			e.class.Bytes[marker.Green] += more * packetLen
			e.total.DSCP[af11].Bytes += more * packetLen
		},
		"the policer starves a flow": func(e *evidence) {
			f := &e.flows[0]
			f.seen.Total.Bytes = 50_000
		},
		"a packet lost its mark": func(e *evidence) {
			for _, seen := range []*netlab.Seen{&e.flows[1].seen, &e.total} {
				seen.DSCP[af11].Packets--
				seen.DSCP[0].Packets++
			}
		},
		"ARP":                   func(e *evidence) { e.total.Ignored++ },
		"IPv4 checksum":         func(e *evidence) { e.total.BadChecksums++ },
		"UDP checksum":          func(e *evidence) { e.badChecksums++ },
		"capture of all lost":   func(e *evidence) { e.total.Dropped++ },
		"class: green packets":  func(e *evidence) { e.class.Packets[marker.Green]++ },
		"class: green bytes":    func(e *evidence) { e.class.Bytes[marker.Green]++ },
		"class: yellow packets": func(e *evidence) { e.class.Packets[marker.Yellow]++ },
		"class: yellow bytes":   func(e *evidence) { e.class.Bytes[marker.Yellow]++ },
	}
	for i := range flows {
		for what, f := range map[string]func(f *flowEvidence){
			"AF11 packets":   func(f *flowEvidence) { f.seen.DSCP[af11].Packets++ },
			"AF11 bytes":     func(f *flowEvidence) { f.seen.DSCP[af11].Bytes-- },
			"AF12 packets":   func(f *flowEvidence) { f.seen.DSCP[af12].Packets-- },
			"AF12 bytes":     func(f *flowEvidence) { f.seen.DSCP[af12].Bytes++ },
			"ECN":            func(f *flowEvidence) { f.seen.ECN[f.flow.ecn].Packets--; f.seen.ECN[3^f.flow.ecn].Packets++ },
			"green packets":  func(f *flowEvidence) { f.packets[marker.Green]++ },
			"yellow bytes":   func(f *flowEvidence) { f.bytes[marker.Yellow]++ },
			"received":       func(f *flowEvidence) { f.received-- },
			"capture lost":   func(f *flowEvidence) { f.seen.Dropped++ },
			"receiver lost":  func(f *flowEvidence) { f.lost++ },
			"took much less": func(f *flowEvidence) { f.took = time.Millisecond },
		} {
			alter[fmt.Sprintf("%s of flow %d", what, i)] = func(e *evidence) { f(&e.flows[i]) }
		}
	}
	for what, alter := range alter {
		t.Run(what, func(t *testing.T) {
			e := consistent(t)
			alter(e)
			list := disagreeing(prove(e))
			if len(list) == 0 || len(list) > 4 {
				t.Errorf("disagreeing: %q, want 1 to 4", list)
			}
			var out strings.Builder
			if n := printProof(&out, prove(e)); n != len(list) || strings.Count(out.String(), "DISAGREE\n") < n+1 ||
				!strings.Contains(out.String(), fmt.Sprintf("demo: %d of 67 checks disagree\n", n)) {
				t.Errorf("%d checks disagree, printed as:\n%s", len(list), out.String())
			}
		})
	}
}

// The command line that is shown is the one that a person may type.
func TestCommand(t *testing.T) {
	const want = "tricolor attach left0 --direction egress --meter srtcm --cir 10mbit --cbs 96KiB --ebs 192KiB" +
		" --flows 1024 --green dscp=af11 --yellow dscp=af12 --red drop"
	line := command("left0", loader.Egress, words)
	if line != want {
		t.Errorf("command:\n%s\nwant:\n%s", line, want)
	}
	text := folded(line, "    ", 60)
	for row := range strings.Lines(text) {
		if n := len(strings.TrimSuffix(row, "\n")); n > 60 {
			t.Errorf("%d columns: %q", n, row)
		}
	}
	if joined := strings.Join(strings.Fields(strings.ReplaceAll(text, "\\\n", "")), " "); joined != want {
		t.Errorf("folded, it reads:\n%s\nwant:\n%s", joined, want)
	}
}
