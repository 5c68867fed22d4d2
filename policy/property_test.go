package policy

import (
	"errors"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"github.com/tricolor-policer/tricolor/marker"
)

// legalWords draws words that are legal by the rules of each meter.
func legalWords(t *rapid.T) Words {
	pick := func(name string, choices ...string) string { return rapid.SampledFrom(choices).Draw(t, name) }
	action := func(name string) string {
		return pick(name, "", "pass", "drop", "dscp=af12", "dscp=ef", "dscp=0", "dscp=63", "dscp=le")
	}
	w := Words{
		Meter:     pick("meter", "token", "srtcm", "trtcm", "rfc4115"),
		Color:     pick("color", "", "blind", "aware"),
		Per:       pick("per", "", "flow", "src", "dst", "src/0,0", "src/24,56", "dst/32,128", "class"),
		Count:     pick("count", "", "l3", "l2", "l1", "packets"),
		Overhead:  pick("overhead", "", "0", "24", "+4", "-65535"),
		Flows:     pick("flows", "", "0", "64", "4096", "5k", "1M"),
		Green:     action("green"),
		Yellow:    action("yellow"),
		Red:       action("red"),
		Malformed: pick("malformed", "", "drop", "pass"),
	}
	// low is never above high; a size is never 0 at either.
	low, high := []string{"8kbit", "64KiB/s", "1.5mbit"}, []string{"1.5mbit", "10gbit", "137438953472B/s"}
	sizes, zero := []string{"1B", "1500B", "96KiB", "4GB", "10ms", "1000us"}, "0B"
	if w.Count == "packets" {
		low, high = []string{"1kpps", "1500pps"}, []string{"1500pps", "10mpps"}
		sizes, zero = []string{"1pkt", "32pkt", "10ms"}, "0pkt"
	}
	w.CIR, w.CBS = pick("cir", low...), pick("cbs", sizes...)
	switch w.Meter {
	case "srtcm":
		w.EBS = pick("ebs", append(sizes, "", zero)...)
	case "trtcm":
		w.PIR, w.PBS = pick("pir", high...), pick("pbs", sizes...)
	case "rfc4115":
		w.EIR, w.EBS = pick("eir", high...), pick("ebs", sizes...)
		w.Coupling = rapid.Bool().Draw(t, "coupling")
		if rapid.Bool().Draw(t, "excess only") {
			w.CIR, w.CBS = "", ""
		}
	}
	return w
}

func TestLegalWordsCompile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := legalWords(t)
		p, err := w.Policy()
		if err != nil {
			t.Fatal(err)
		}
		plan, err := p.Compile()
		if err != nil {
			t.Fatal(err)
		}
		if err := plan.Check(); err != nil {
			t.Fatal(err)
		}
		if lines := Describe(plan); len(lines) != 2 || !strings.Contains(lines[0], w.Meter+" CIR ") {
			t.Fatalf("described as %q", lines)
		}
		p.Warnings(rapid.IntRange(-1, 1<<20).Draw(t, "mtu"), rapid.IntRange(-1, 1<<40).Draw(t, "largest"))
		if plan.Geometry.Flows() > 1<<14 {
			return // the mirror's table would take long to make
		}
		if _, err := marker.NewMirror(plan, marker.SeedsFrom(1)); err != nil {
			t.Fatal(err)
		}
	})
}

// Words either make a policy that compiles, or are refused with lines that begin with a flag.
func FuzzWords(f *testing.F) {
	f.Add("srtcm", "10mbit", "96KiB", "192KiB", "", "", "", "blind", "flow", "l3", "+4", "1M", "pass", "dscp=af12", "drop", "drop", false)
	f.Add("trtcm", "10mbit", "10ms", "", "20mbit", "10ms", "", "aware", "src/24,56", "l1", "-4", "64", "", "", "", "pass", false)
	f.Add("rfc4115", "10pps", "10pkt", "10ms", "", "", "0pps", "", "class", "packets", "", "", "", "", "", "", true)
	f.Add("token", "010", "1", "2b", "x", "0B", "1bps", "grey", "vlan", "l4", "99999", "9999999M", "ef", "dscp=64", "dscp", "no", true)
	f.Fuzz(func(t *testing.T, meter, cir, cbs, ebs, pir, pbs, eir, color, per, count, overhead, flows, green, yellow, red, malformed string, coupling bool) {
		w := Words{
			Meter: meter, CIR: cir, CBS: cbs, EBS: ebs, PIR: pir, PBS: pbs, EIR: eir, Color: color, Per: per, Count: count,
			Overhead: overhead, Flows: flows, Green: green, Yellow: yellow, Red: red, Malformed: malformed, Coupling: coupling,
		}
		p, err := w.Policy()
		if err != nil {
			if !errors.Is(err, ErrPolicy) {
				t.Errorf("%v: does not wrap ErrPolicy", err)
			}
			for _, line := range strings.Split(err.Error(), "\n") {
				if !strings.HasPrefix(line, "--") {
					t.Errorf("a line begins with no flag: %q", line)
				}
				if strings.ContainsFunc(line, unicode.IsControl) {
					t.Errorf("a control character reaches the terminal: %q", line)
				}
			}
			return
		}
		plan, err := p.Compile()
		if err != nil {
			t.Fatalf("words that were taken do not compile: %v", err)
		}
		if len(Describe(plan)) != 2 {
			t.Errorf("described as %q", Describe(plan))
		}
		p.Warnings(1500, 65536)
	})
}
