package pcaptest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/marker"
)

// features are what a packet's class is made of, and what became of the packet.
func (m *metered) features(found map[string]bool) {
	for position, meter := range m.class.Meters {
		found["per "+meter.Per.String()] = true
		if position > 0 {
			found[fmt.Sprintf("chain of %d", position+1)] = true
		}
		for i := range m.policy.Profiles {
			p := &m.policy.Profiles[i]
			if p.Name != meter.Profile {
				continue
			}
			found["meter "+p.Meter.String()] = true
			if p.Aware {
				found["aware"] = true
			}
			if p.Coupling {
				found["coupling"] = true
			}
		}
	}
	action := m.class.Actions[m.Color]
	for verb, name := range map[marker.Verb]string{
		marker.VerbDrop: "drop", marker.VerbDSCP: "dscp", marker.VerbCE: "ecn-ce", marker.VerbMark: "mark", marker.VerbPriority: "priority",
	} {
		if action.Verbs&verb != 0 {
			found["verb "+name] = true
		}
	}
	if action.Verbs == 0 {
		found["verb pass"] = true
	}
	match := &m.class.Match
	for key, given := range map[string]bool{
		"src": len(match.Src) > 0, "dst": len(match.Dst) > 0, "src file": match.SrcSet != nil, "dst file": match.DstSet != nil,
		"sport": len(match.Sport) > 0, "dport": len(match.Dport) > 0, "proto": len(match.Proto) > 0, "dscp": len(match.DSCP) > 0,
		"vlan": len(match.VLAN) > 0, "mark": len(match.Mark) > 0, "ip 4": match.Families == marker.FamilyIPv4,
		"ip 6": match.Families == marker.FamilyIPv6, "ip none": match.Families == marker.FamilyNone,
		"fragment true": match.Fragment == marker.FragmentYes, "fragment false": match.Fragment == marker.FragmentNo,
	} {
		if given {
			found["match "+key] = true
		}
	}
	found["count "+m.class.Count.String()] = true
	found["color "+m.Color.String()] = true
	if m.class.Overhead != 0 {
		found["overhead"] = true
	}
	if m.class.Arrival != marker.DefaultArrival() {
		found["arrival"] = true
	}
}

// allFeatures are those that must occur.
var allFeatures = strings.Split("meter token,meter srtcm,meter trtcm,meter rfc4115,coupling,aware,arrival,overhead,"+
	"per flow,per src,per dst,per vlan,per dscp,per class,per interface,chain of 2,chain of 3,"+
	"verb pass,verb drop,verb dscp,verb ecn-ce,verb mark,verb priority,count l3,count l2,count l1,count packets,"+
	"match src,match dst,match src file,match dst file,match sport,match dport,match proto,match dscp,match vlan,match mark,"+
	"match ip 4,match ip 6,match ip none,match fragment true,match fragment false,color green,color yellow,color red,"+
	"overflow,forgetting,clock back,malformed pass,change,lapsed deadline", ",")

// Mirror and kernel agree on made-up packets under made-up policies, that follow each other and lapse. A
// difference is shrunk and printed as a test to paste.
func TestPoliciesOnMadeUpFrames(t *testing.T) {
	testutils.RequireKernel(t)
	run := newCaseRun(t)
	covered := map[string]int{}
	cases, policies, takenPackets := 0, 0, 0
	var failed *policyCase // the last, which is the simplest that rapid found
	defer func() {
		if failed != nil {
			shrunk := failed.shrunk(func(c *policyCase) bool {
				var difference differenceError
				return errors.As(run.run(c), &difference)
			})
			t.Logf("%v\n\nThe same as a test, for this folder:\n\n%s", run.run(shrunk), shrunk.source())
		}
	}()
	property := func(rt *rapid.T) {
		c := drawCase(rt)
		found := map[string]bool{}
		taken, forgot, lapsed := 0, run.forgot, run.lapsed
		run.metered = func(m *metered) {
			taken++
			m.features(found)
		}
		if err := run.run(c); err != nil {
			failed = c
			rt.Fatal(err)
		}
		cases++
		policies += len(c.policies)
		takenPackets += taken
		found["forgetting"], found["lapsed deadline"] = run.forgot > forgot, run.lapsed > lapsed
		found["malformed pass"] = run.stats.Port.Malformed > 0 && strings.Contains(c.policies[0].text, "malformed: pass")
		found["change"] = slices.ContainsFunc(c.steps, func(s policyStep) bool { return s.apply != 0 })
		for _, class := range run.stats.Classes {
			found["overflow"] = found["overflow"] || class.Overflow > 0
			found["clock back"] = found["clock back"] || class.ClockBack > 0
		}
		for feature, was := range found {
			if was {
				covered[feature]++
			}
		}
	}
	for range 3 { // times -rapid.checks, which is 100
		rapid.Check(t, property)
	}
	if t.Failed() || cases == 0 {
		return
	}
	t.Logf("%d cases, %d policies, %d packets, %d of them metered; share of cases with a packet of each:", cases, policies, run.packets, takenPackets)
	for _, feature := range slices.Sorted(maps.Keys(covered)) {
		t.Logf("  %5.1f %% %s", 100*float64(covered[feature])/float64(cases), feature)
	}
	// What hardly ever occurred was hardly compared.
	for _, feature := range allFeatures {
		if 100*covered[feature] < cases {
			t.Errorf("%s: only in %d of %d cases", feature, covered[feature], cases)
		}
	}
	if 2*takenPackets < run.packets {
		t.Errorf("only %d of %d packets were metered", takenPackets, run.packets)
	}
}

// The fuzzer's policies are what the compiler takes.
func TestMadeUpPoliciesCompile(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var prev *marker.Plan
		d := &policyDraw{T: rt}
		for range 3 {
			files := d.next()
			p, err := files.parse()
			if err != nil {
				rt.Fatalf("%s\n%v\n%v", files.text, files.csv, err)
			}
			if prev, err = p.CompileAfter(prev); err != nil {
				rt.Fatalf("%s\n%v", files.text, err)
			}
		}
	})
}
