package main

import (
	"testing"

	"github.com/tricolor-policer/tricolor/marker"
	"github.com/tricolor-policer/tricolor/policy"
)

// namedPlan compiles a policy file of these classes, after prev.
func namedPlan(t *testing.T, prev *marker.Plan, classes string) *marker.Plan {
	t.Helper()
	text := "version: 1\nflows: 64\nprofiles: { a: { meter: token, cir: 1mbit, cbs: 2kB }, b: { meter: token, cir: 1mbit, cbs: 2kB } }\nclasses:\n" + classes
	p, err := policy.Parse("p.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := p.CompileAfter(prev)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// keyOf is a key of a class's meter.
func keyOf(m *marker.Meter, version int, f marker.KeyFields) marker.KeyFields {
	id := marker.Key{4: m.ID[version]}
	fields := id.Fields()
	f.Kind, f.Class = fields.Kind, fields.Class
	return f
}

func TestBucketNames(t *testing.T) {
	before := namedPlan(t, nil, `
- { name: gone, match: { proto: udp }, meters: [ { profile: a, per: dst } ] }
- { name: x, meters: [ { profile: a, per: "src/24,56" }, { profile: a, per: vlan }, { profile: b, per: interface } ] }
`)
	after := namedPlan(t, before, `
- { name: x, meters: [ { profile: a, per: "src/24,56" }, { profile: a, per: vlan }, { profile: b, per: interface } ] }
- { name: y, meters: [ { profile: a, per: dscp }, { profile: a, per: class }, { profile: b, per: interface } ] }
`)
	later := namedPlan(t, after, `
- { name: z, meters: [ { profile: a, per: "dst/32,128" } ] }
`)
	x, y := after.Classes[0].Meters, after.Classes[1].Meters
	v4 := marker.KeyFields{Src: [16]byte{10, 1, 2}, Dst: [16]byte{10, 1, 2, 3}, Sport: [2]byte{0, 46}}
	v6 := marker.KeyFields{Src: [16]byte{0x20, 1, 0xd, 0xb8}, Dst: [16]byte{0x20, 1, 0xd, 0xb8}}
	names := newBucketNames(after, before)
	for _, test := range []struct {
		key      marker.KeyFields
		overflow bool
		want     string
	}{
		{keyOf(&x[0], 0, v4), false, "x/1 src 10.1.2.0/24"},
		{keyOf(&x[0], 1, v6), false, "x/1 src 2001:db8::/56"},
		{keyOf(&x[0], 0, v4), true, "x/1 (overflow: those without a slot)"},
		{keyOf(&x[1], 0, v4), false, "x/2 vlan 46"},
		{keyOf(&x[2], 0, v4), false, "interface b"},
		{keyOf(&y[0], 0, v4), false, "y/1 dscp 46"},
		{keyOf(&y[1], 0, v4), false, "y/2 class"},
		{keyOf(&y[2], 0, v4), false, "interface b"}, // the same bucket
		{keyOf(&before.Classes[0].Meters[0], 1, v6), false, "gone/1 dst 2001:db8::/64 (gone)"},
		{keyOf(&later.Classes[0].Meters[0], 0, v4), false, "?/1 dst 10.1.2.3 (gone)"},
	} {
		if got := names.name(test.key, test.overflow); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
	// Of a policy of one meter the key alone says it; not of what is left of others.
	names = newBucketNames(later)
	if got, want := names.name(keyOf(&later.Classes[0].Meters[0], 1, v6), false), "2001:db8::"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := names.name(keyOf(&x[0], 0, v4), false), "?/1 src 10.1.2.0 (gone)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
