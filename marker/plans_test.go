package marker

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"
)

// Plans for the tests of many classes, chains and changes.

// testMeter is a meter of a chain. Its number is that of its profile and of its family; two meters with the
// same number are one (interface).
type testMeter struct {
	number uint32
	per    Per
	params Params
	prefix [2]int
	family uint16 // if not 0, in place of the number
}

// testClass is a class; without rules it takes every IP packet.
type testClass struct {
	name   string
	stats  uint8
	meters []testMeter
	rules  []func(*Rule)
	change func(*Class)
}

const testProfiles = 8 // room in the table of a test's plan

// planOf compiles classes, in their order, for a table of 64 slots for each position.
func planOf(t fataler, classes ...testClass) *Plan {
	t.Helper()
	g, err := NewGeometry(MinFlows, [MaxChain]bool{true, true, true}, testProfiles)
	if err != nil {
		t.Fatal(err)
	}
	plan := &Plan{Geometry: g, Malformed: Action{Verbs: VerbDrop}, NextFamily: 100}
	for i := range uint32(testProfiles) {
		plan.Profiles = append(plan.Profiles, Profile{Gone: true, Overflow: g.OverflowSet(0, i)})
	}
	for i, from := range classes {
		class := Class{Name: from.name, Arrival: DefaultArrival(), Stats: from.stats, Actions: [Colors]Action{Red: {Verbs: VerbDrop}}}
		for position, m := range from.meters {
			family := uint16(m.number)
			if m.family != 0 {
				family = m.family
			}
			meter := NewMeter(family, position, m.per, m.prefix)
			meter.Profile = m.number
			if m.per >= PerClass {
				meter.Reserved = g.ReservedSet(m.number)
			}
			class.Meters = append(class.Meters, meter)
			plan.setProfile(t, m.number, position, m.params)
		}
		if from.change != nil {
			from.change(&class)
		}
		plan.Classes = append(plan.Classes, class)
		if from.rules == nil {
			from.rules = []func(*Rule){func(*Rule) {}}
		}
		for _, change := range from.rules {
			rule := AnyRule(uint16(i))
			change(&rule)
			plan.Rules = append(plan.Rules, rule)
		}
	}
	return plan
}

// setProfile puts a profile at its number, for a meter at this position.
func (p *Plan) setProfile(t fataler, number uint32, position int, params Params) {
	t.Helper()
	profile, err := params.Compile()
	if err != nil {
		t.Fatal(err)
	}
	profile.Overflow = p.Geometry.OverflowSet(position, number)
	p.Profiles[number] = profile
}

func mirrorOf(t fataler, plan *Plan) *Mirror {
	t.Helper()
	m, err := NewMirror(plan, SeedsFrom(1))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// bucketOf is the bucket that the packet's meter took.
func bucketOf(m *Mirror, out Outcome, position int) *Slot {
	at := out.Slots[position]
	return &m.Sets()[at/SetSlots][at%SetSlots]
}

// left are the tokens of the buckets of the packet's chain, whole bytes, each Tc and Tx.
func left(t *testing.T, m *Mirror, out Outcome) (bytes []uint64) {
	t.Helper()
	for i, at := range out.Slots {
		if at == NoSet {
			continue
		}
		b := bucketOf(m, out, i).Bucket
		if b.Tc%Nano != 0 || b.Tx%Nano != 0 {
			t.Errorf("no whole bytes: %+v", b)
		}
		bytes = append(bytes, b.Tc/Nano, b.Tx/Nano)
	}
	return bytes
}

// whole is the frame with its true length, that of its bytes.
func whole(f Frame) Frame {
	f.Data = bytes.Clone(f.Data)
	f.Length = max(f.Length, uint32(len(f.Data)))
	return f
}

// from is a whole IPv4 packet of so many bytes from 10.0.x.y, by its last two bytes.
func from(source uint16, total int) Frame {
	f := sized(total)
	binary.BigEndian.PutUint16(f.Data[28:], source)
	return f
}

// wantChain polices a frame at now and compares colour and what is left.
func wantChain(t *testing.T, what string, m *Mirror, f Frame, now uint64, color Color, tokens ...uint64) Outcome {
	t.Helper()
	out := m.Packet(&f, now)
	if got := left(t, m, out); out.Color != color || !slices.Equal(got, tokens) {
		t.Errorf("%s: %v, %d bytes left, not %v, %d", what, out.Color, got, color, tokens)
	}
	return out
}

func prefixOf(s string) AddressMatch { return NewAddressMatch(netip.MustParsePrefix(s)) }

// The slowest there is: within a test's microseconds nothing of weight is earned.
func token(cbs uint64) Params        { return Params{Meter: Token, CIR: 1, CBS: cbs} }
func srtcmOf(cbs, ebs uint64) Params { return Params{Meter: SRTCM, CIR: 1, CBS: cbs, EBS: ebs} }
func aware(p Params) Params {
	p.Aware = true
	return p
}
