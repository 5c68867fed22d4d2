package policy

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tricolor-policer/tricolor/marker"
)

// chainable is a policy of two classes that share a profile: more than words can say.
func chainable() *Policy {
	p := legal(nil)
	p.Flows = 100
	second := p.Classes[0]
	second.Name = "second"
	second.Meters = []Meter{{Profile: "default", Per: marker.PerClass}}
	p.Classes = append(p.Classes, second)
	return p
}

func TestCompile(t *testing.T) {
	p := chainable()
	plan, err := p.Compile()
	if err != nil {
		t.Fatal(err)
	}
	// 100 slots are rounded up to 128: 32 sets; 16 for each chain position that has no keys; then for each
	// profile there is room for a set of its own, and an overflow set for each position.
	geometry := marker.Geometry{Reserved: 64, Sets: 64 + 4*384, Profiles: 384}
	geometry.Stages = [marker.MaxChain]marker.Stage{{Mask: 31}, {Base: 32, Mask: 15}, {Base: 48, Mask: 15}}
	if diff := cmp.Diff(geometry, plan.Geometry); diff != "" {
		t.Errorf("geometry (-want +got):\n%s", diff)
	}
	profile, err := p.Profiles[0].Compile()
	if err != nil {
		t.Fatal(err)
	}
	profile.Name = "default"
	first, second := profile, profile
	first.Overflow, second.Overflow = 64+384, 64+384+1
	if diff := cmp.Diff([]marker.Profile{first, second}, plan.Profiles); diff != "" {
		t.Errorf("profiles (-want +got):\n%s", diff)
	}
	flow := marker.NewMeter(0, 0, marker.PerFlow, [2]int{})
	class := marker.NewMeter(1, 0, marker.PerClass, [2]int{})
	class.Profile, class.Reserved = 1, 64+1
	for i, want := range []marker.Class{
		{Name: "default", Meters: []marker.Meter{flow}},
		{Name: "second", Meters: []marker.Meter{class}, Stats: 1},
	} {
		want.Arrival = marker.DefaultArrival()
		want.Actions[marker.Red] = drop
		if diff := cmp.Diff(want, plan.Classes[i]); diff != "" {
			t.Errorf("class %d (-want +got):\n%s", i, diff)
		}
	}
	if diff := cmp.Diff([]marker.Rule{marker.AnyRule(0), marker.AnyRule(1)}, plan.Rules); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	if plan.NextFamily != 2 {
		t.Errorf("next family %d; want 2", plan.NextFamily)
	}
	if plan.Malformed != drop {
		t.Errorf("malformed %v; want drop", plan.Malformed)
	}
	again, err := chainable().Compile()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(plan, again); diff != "" {
		t.Errorf("the same policy gave another plan (-first +second):\n%s", diff)
	}
}

func TestFlowsRoundedUp(t *testing.T) {
	for flows, want := range map[uint64]uint64{
		0: 64, 1: 64, 64: 64, 65: 128, 1_000_000: 1 << 20, marker.MaxFlows: marker.MaxFlows,
	} {
		p := legal(nil)
		p.Flows = flows
		plan, err := p.Compile()
		if err != nil {
			t.Errorf("%d flows: %v", flows, err)
		} else if got := plan.Geometry.Flows(); got != want {
			t.Errorf("%d flows gave %d slots; want %d", flows, got, want)
		}
	}
}

func TestCompileRefused(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Policy)
		want   string
	}{
		"flows":           {func(p *Policy) { p.Flows = marker.MaxFlows + 1 }, "flows: 67108865 bucket slots are too many: "},
		"malformed":       {func(p *Policy) { p.Malformed = remark(10) }, "malformed: dscp=af11 is no verb for it: say drop or pass"},
		"parameters":      {func(p *Policy) { p.Profiles[0].CIR = 0 }, "profile default: cir: a rate is needed: "},
		"profile twice":   {func(p *Policy) { p.Profiles = append(p.Profiles, p.Profiles[0]) }, "profile default: the name is taken: "},
		"class twice":     {func(p *Policy) { p.Classes[1].Name = "default" }, "class default: name: the name is taken: "},
		"count":           {func(p *Policy) { p.Classes[1].Count = 4 }, "class second: count: count(4) is no unit"},
		"overhead":        {func(p *Policy) { p.Classes[1].Overhead = -65536 }, "class second: overhead: -65536 is out of range"},
		"verbs":           {func(p *Policy) { p.Classes[0].Actions[1].Verbs = 32 }, "class default: yellow: verbs 0x20 "},
		"DSCP":            {func(p *Policy) { p.Classes[0].Actions[0] = remark(64) }, "class default: green: verbs 0x2 with DSCP 64: "},
		"per":             {func(p *Policy) { p.Classes[0].Meters[0].Per = 7 }, "class default: per: per(7) shares no bucket: say flow, "},
		"prefix":          {func(p *Policy) { p.Classes[0].Meters[0].Prefix[1] = 129 }, "class default: per: /129 is no prefix of an IPv6"},
		"no such profile": {func(p *Policy) { p.Classes[0].Meters[0].Profile = "gold" }, `class default: profile: "gold" is not defined`},
		"unit":            {func(p *Policy) { p.Profiles[0].Packets = true }, "class default: count: l3 does not fit profile default, which is written in packets"},
		"no meter":        {func(p *Policy) { p.Classes[0].Meters = nil }, "class default: meters: a class needs a meter"},
		"four meters": {func(p *Policy) {
			p.Classes[0].Meters = slices.Repeat(p.Classes[0].Meters, 4)
		}, "class default: meters: too many: a chain has at most 3"},
		"long name": {func(p *Policy) { p.Classes[0].Name = strings.Repeat("x", 64) }, "plan: class xxx"},
	} {
		t.Run(name, func(t *testing.T) {
			p := chainable()
			test.change(p)
			_, err := p.Compile()
			if !errors.Is(err, ErrPolicy) || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("error %v; want one that wraps ErrPolicy and begins %q", err, test.want)
			}
		})
	}
}

// The mirror takes a plan, and meters by it.
func TestMirrorTakesPlan(t *testing.T) {
	for _, per := range []string{"flow", "src", "dst/24,56", "class"} {
		p, err := srtcm(func(w *Words) {
			w.Per, w.Flows, w.CIR, w.CBS, w.EBS, w.Yellow = per, "64", "8bit", "100B", "50B", "dscp=af12"
		}).Policy()
		if err != nil {
			t.Fatal(err)
		}
		plan, err := p.Compile()
		if err != nil {
			t.Fatal(err)
		}
		mirror, err := marker.NewMirror(plan, marker.SeedsFrom(1))
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []struct {
			color marker.Color
			tos   byte
		}{{marker.Green, 0}, {marker.Green, 0}, {marker.Yellow, 12 << 2}, {marker.Red, 0}} {
			packet := make([]byte, 50) // IPv4, protocol 0, all of it header and zeros
			packet[0], packet[3] = 0x45, 50
			out := mirror.Packet(&marker.Frame{Data: packet, Length: 50, Link: marker.LinkIPv4}, 1)
			if out.Kind != marker.Metered || out.Color != want.color || out.Cost != 50 || packet[1] != want.tos {
				t.Errorf("per %s: packet %d: %+v, TOS %#x; want %v, TOS %#x", per, i+1, out, packet[1], want.color, want.tos)
			}
			if out.Dropped != (want.color == marker.Red) {
				t.Errorf("per %s: packet %d is dropped: %v", per, i+1, out.Dropped)
			}
		}
	}
}
