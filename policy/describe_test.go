package policy

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tricolor-policer/tricolor/marker"
)

func TestDescribe(t *testing.T) {
	for name, test := range map[string]struct {
		words Words
		want  string
	}{
		"srtcm": {
			srtcm(func(w *Words) { w.Yellow = "dscp=af12" }),
			"srtcm CIR 10 Mbit/s, CBS 96 KiB, EBS 192 KiB, blind, per flow, count l3; green pass, yellow dscp=af12, red drop",
		},
		"trtcm": {
			Words{Meter: "trtcm", CIR: "1.5mbit", CBS: "3ms", PIR: "187501B/s", PBS: "0.5kB", Color: "aware", Per: "src", Count: "l2", Overhead: "4", Red: "dscp=5"},
			"trtcm CIR 1500 kbit/s, CBS 562 B, PIR 187501 B/s, PBS 500 B, aware, per src, count l2, overhead +4; green pass, yellow pass, red dscp=5",
		},
		"rfc4115": {
			Words{Meter: "rfc4115", CIR: "5pps", CBS: "5pkt", EBS: "3pkt", Coupling: true, Count: "packets", Per: "dst/24,56"},
			"rfc4115 CIR 5 pps, CBS 5 pkt, EIR 0 pps, EBS 3 pkt, coupled, blind, per dst/24,56, count packets; green pass, yellow pass, red drop",
		},
		"token": {
			Words{Meter: "token", CIR: "1gbit", CBS: "20ms", Per: "class", Overhead: "-4"},
			"token CIR 1 Gbit/s, CBS 2500 kB, blind, per class, count l3, overhead -4; green pass, yellow pass, red drop",
		},
	} {
		t.Run(name, func(t *testing.T) {
			test.words.Flows, test.words.Malformed = "1M", "pass"
			p, err := test.words.Policy()
			if err != nil {
				t.Fatal(err)
			}
			plan, err := p.Compile()
			if err != nil {
				t.Fatal(err)
			}
			want := []string{"class default: " + test.want, "table: 1,048,576 bucket slots, 135 MB; malformed pass"}
			if diff := cmp.Diff(want, Describe(plan)); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
		})
	}
}

// A plan read back from a kernel may be of another version, or damaged: it is described all the same.
func TestDescribeOddPlans(t *testing.T) {
	p := chainable()
	plan, err := p.Compile()
	if err != nil {
		t.Fatal(err)
	}
	first := &plan.Classes[0]
	first.Meters = append(first.Meters, plan.Classes[1].Meters[0])
	second := &plan.Classes[1]
	second.Meters[0].Profile, second.Count, second.Meters[0].Per = 9, 7, 9
	plan.Profiles[0].Meter = 8
	want := []string{
		"class default: meter(8) CIR 10 Mbit/s, CBS 96 KiB, blind, per flow" +
			", then srtcm CIR 10 Mbit/s, CBS 96 KiB, EBS 192 KiB, blind, per class, count l3; green pass, yellow pass, red drop",
		"class second: profile 9 (unknown), per per(9), count count(7); green pass, yellow pass, red drop",
		"table: 128 bucket slots, 819 kB; malformed drop",
	}
	if diff := cmp.Diff(want, Describe(plan)); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"table: 0 bucket slots, 0 B; malformed pass"}, Describe(&marker.Plan{})); diff != "" {
		t.Errorf("an empty plan (-want +got):\n%s", diff)
	}
}
