package maps

import (
	"testing"

	"github.com/cilium/ebpf"

	"github.com/tricolor-policer/tricolor/bpf"
)

// What is opened again is held to what the program's object makes.
func TestShapes(t *testing.T) {
	spec, err := bpf.LoadPolicer()
	if err != nil {
		t.Fatal(err)
	}
	var objects bpf.PolicerMapSpecs
	if err := spec.Assign(&objects); err != nil {
		t.Fatal(err)
	}
	made := map[string]*ebpf.MapSpec{
		"buckets": objects.Buckets, "table": objects.TableMap, "policies": objects.Policies,
		"profiles": objects.Profiles, "prefixes": objects.Prefixes, "control": objects.ControlMap, "class_stats": objects.ClassStatsMap,
		"port_stats": objects.PortStatsMap, "about": objects.AboutMap,
	}
	for name := range new(Maps).Named() {
		m, s := made[name], shapes[name]
		if m == nil {
			t.Errorf("the object has no map %s", name)
			continue
		}
		want := shape{m.Type, uintptr(m.KeySize), uintptr(m.ValueSize), m.MaxEntries, m.Flags}
		if s.entries == 0 {
			want.entries = 0
		}
		if s != want {
			t.Errorf("%s: held to %+v, made as %+v", name, s, want)
		}
	}
	if len(shapes) != len(new(Maps).Named()) {
		t.Errorf("%d shapes for %d maps", len(shapes), len(new(Maps).Named()))
	}
}
