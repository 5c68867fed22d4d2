package policy

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWarnings(t *testing.T) {
	token := func(cbs, count, overhead string) Words {
		return Words{Meter: "token", CIR: "1mbit", CBS: cbs, Count: count, Overhead: overhead}
	}
	two := func(cbs, ebs string) Words { return srtcm(func(w *Words) { w.CBS, w.EBS = cbs, ebs }) }
	const below = " is below what the largest packet of the interface costs, "
	const belowSuper = " is below what the largest super-packet (GRO, GSO) of the interface costs, "
	for name, test := range map[string]struct {
		words        Words
		mtu, largest int
		want         []string
	}{
		"fits exactly":       {token("1500B", "", ""), 1500, 0, nil},
		"one byte short":     {token("1499B", "", ""), 1500, 0, []string{"cbs 1499 B" + below + "1500 B: such a packet is always red; raise cbs"}},
		"nothing known":      {token("1B", "", ""), 0, 0, nil},
		"overhead":           {token("1500B", "", "+1"), 1500, 0, []string{"cbs 1500 B" + below + "1501 B: such a packet is always red; raise cbs"}},
		"l2 fits":            {token("1514B", "l2", ""), 1500, 0, nil},
		"l2":                 {token("1513B", "l2", ""), 1500, 0, []string{"cbs 1513 B" + below + "1514 B: such a packet is always red; raise cbs"}},
		"l2 of a tiny MTU":   {token("59B", "l2", ""), 20, 0, []string{"cbs 59 B" + below + "60 B: such a packet is always red; raise cbs"}},
		"l1":                 {token("1537B", "l1", ""), 1500, 0, []string{"cbs 1537 B" + below + "1538 B: such a packet is always red; raise cbs"}},
		"srtcm, green only":  {two("1400B", "1500B"), 1500, 0, []string{"cbs 1400 B" + below + "1500 B: such a packet is never green; raise cbs"}},
		"srtcm, yellow only": {two("1500B", "1400B"), 1500, 0, []string{"ebs 1400 B" + below + "1500 B: such a packet is never yellow; raise ebs"}},
		"srtcm without E":    {two("1400B", "0B"), 1500, 0, []string{"cbs 1400 B" + below + "1500 B: such a packet is always red; raise cbs"}},
		"srtcm without C":    {two("0B", "1400B"), 1500, 0, []string{"ebs 1400 B" + below + "1500 B: such a packet is always red; raise ebs"}},
		"srtcm, none of them": {two("1001B", "900B"), 1500, 0, []string{
			"cbs 1001 B" + below + "1500 B: such a packet is always red; raise cbs",
			"ebs 900 B" + below + "1500 B: such a packet is never yellow; raise ebs",
		}},
		"trtcm": {
			Words{Meter: "trtcm", CIR: "1mbit", CBS: "1kB", PIR: "2mbit", PBS: "1400B"}, 1500, 0,
			[]string{
				"cbs 1 kB" + below + "1500 B: such a packet is never green; raise cbs",
				"pbs 1400 B" + below + "1500 B: such a packet is always red; raise pbs",
			},
		},
		"a super-packet": {token("65535B", "", ""), 1500, 65536, []string{
			"cbs 65535 B" + belowSuper + "64 KiB: such a packet is always red, all its segments; raise cbs, or turn GRO and GSO off",
		}},
		"a super-packet's link headers": {token("6055B", "l2", ""), 1500, 6000, []string{
			"cbs 6055 B" + belowSuper + "6056 B: such a packet is always red, all its segments; raise cbs, or turn GRO and GSO off",
		}},
		"not even the MTU": {token("1499B", "", ""), 1500, 65536, []string{
			"cbs 1499 B" + below + "1500 B: such a packet is always red; raise cbs",
		}},
		"packets": {Words{Meter: "token", CIR: "1pps", CBS: "3pkt", Count: "packets"}, 1500, 6000, []string{
			"cbs 3 pkt" + belowSuper + "4 pkt: such a packet is always red, all its segments; raise cbs, or turn GRO and GSO off",
		}},
		"packets for nothing": {Words{Meter: "token", CIR: "1pps", CBS: "3pkt", Count: "packets", Overhead: "-1"}, 1500, 6000, []string{
			"overhead -1 takes a packet's whole cost away: nothing is ever spent",
		}},
		"C never refilled": {Words{Meter: "rfc4115", CBS: "2kB", EIR: "1mbit", EBS: "2kB"}, 1500, 0, []string{
			"cir 0 never refills cbs (2 kB): once spent, no packet of that bucket is green again; set cbs to 0, or give cir a rate",
		}},
		"no C": {Words{Meter: "rfc4115", EIR: "1mbit", EBS: "2kB"}, 1500, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := test.words.Policy()
			if err != nil {
				t.Fatal(err)
			}
			want := []string(nil)
			for _, line := range test.want {
				want = append(want, "class default: "+line)
			}
			if diff := cmp.Diff(want, p.Warnings(test.mtu, test.largest)); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}
