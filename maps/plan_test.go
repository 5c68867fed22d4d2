package maps

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tricolor-policer/tricolor/bpf"
	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/marker"
	"github.com/tricolor-policer/tricolor/policy"
)

// A policy of every meter, unit, key, verb and match.
const rich = `
version: 1
flows: 256
malformed: pass
profiles:
  gold:   { meter: trtcm, cir: 50mbit, cbs: 128KiB, pir: 100mbit, pbs: 256KiB, color: aware }
  bronze: { meter: srtcm, cir: 10mbit, cbs: 96KiB, ebs: 192KiB }
  tenant: { meter: rfc4115, cir: 200mbit, cbs: 10ms, eir: 50mbit, ebs: 10ms, coupling: true }
  link:   { meter: token, cir: 1gbit, cbs: 20ms }
  pace:   { meter: token, cir: 100pps, cbs: 50pkt }
classes:
  - name: voice
    match:   { proto: udp, dscp: [ef, 7], fragment: false, mark: 9 }
    meters:  [ { profile: gold, per: flow } ]
    arrival: { af11: yellow, af12: red, default: green }
    green:   { mark: 4294967295, priority: 7 }
    yellow:  { dscp: af41 }
  - name: lines
    match:   { src: "@lines.csv" }
    meters:  [ { profile: bronze, per: "src/32,128" }, { profile: tenant, per: class } ]
    overhead: -18
    count:   l1
  - name: customers
    match:   { src: [10.0.0.0/8, "2001:db8::/32"], dport: [443, 8000-8080], vlan: 100 }
    count:   l2
    meters:
      - { profile: bronze, per: flow }
      - { profile: tenant, per: "src/24,56" }
      - { profile: link,   per: interface }
    green:   { dscp: af11 }
    yellow:  { ecn-ce: true, dscp: af12 }
    red:     drop
  - name: to-here
    match:   { dst: "@to.csv", ip: 6 }
    meters:  [ { profile: pace, per: "dst/32,48" }, { profile: pace, per: dscp } ]
    count:   packets
  - name: rest-of-the-link
    match:   { ip: none }
    meters:  [ { profile: link, per: vlan } ]
    count:   l2
`

const plain = `
version: 1
flows: 256
profiles: { link: { meter: token, cir: 1gbit, cbs: 20ms } }
classes: [ { name: all, match: { dst: "@to.csv" }, meters: [ { profile: link, per: class } ] } ]
`

var files = map[string]string{
	"lines.csv": "10.1.0.0/16,gold\n10.1.2.0/24\n192.0.2.7/32,link\n0.0.0.0/0\n2001:db8::/32,gold\n2001:db8::1/128\n::/0\n",
	"to.csv":    "2001:db8:1::/48\n203.0.113.0/24\n",
}

func planOf(tb testing.TB, text string, prev *marker.Plan) *marker.Plan {
	tb.Helper()
	p, err := policy.Parse("policy.yaml", []byte(text), func(name string) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(files[name])), nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	plan, err := p.CompileAfter(prev)
	if err != nil {
		tb.Fatal(err)
	}
	for i := range plan.Sets { // as they are read
		plan.Sets[i].Name = fmt.Sprintf("set %d", i+1)
		slices.SortFunc(plan.Sets[i].Entries, func(a, b marker.PrefixEntry) int {
			return cmp.Or(a.Prefix.Addr().Compare(b.Prefix.Addr()), cmp.Compare(a.Prefix.Bits(), b.Prefix.Bits()))
		})
	}
	return plan
}

// newMaps makes the maps of a program without the program.
func newMaps(tb testing.TB, plan *marker.Plan) *Maps {
	tb.Helper()
	testutils.RequireKernel(tb)
	spec, err := bpf.LoadPolicer()
	if err != nil {
		tb.Fatal(err)
	}
	Resize(spec, plan.Geometry)
	var m Maps
	if err := spec.LoadAndAssign(&m, nil); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := m.Close(); err != nil {
			tb.Error(err)
		}
	})
	if err := m.WriteTable(plan.Geometry, marker.SeedsFrom(1)); err != nil {
		tb.Fatal(err)
	}
	write(tb, &m, plan)
	if err := m.Switch(plan.Generation, 0); err != nil {
		tb.Fatal(err)
	}
	return &m
}

func write(tb testing.TB, m *Maps, plan *marker.Plan) {
	tb.Helper()
	if err := m.WritePlan(plan); err != nil {
		tb.Fatal(err)
	}
}

func wantCopy(tb testing.TB, what string, m *Maps, want *marker.Plan) {
	tb.Helper()
	got, err := m.ReadCopy(want.Generation & 1)
	if err != nil {
		tb.Errorf("%s: %v", what, err)
		return
	}
	if diff := gocmp.Diff(want, got, cmpopts.EquateComparable(marker.PrefixEntry{}), cmpopts.EquateEmpty()); diff != "" {
		tb.Errorf("%s (-written +read):\n%s", what, diff)
	}
}

// What is written is what is read, in either copy, whatever stood there before.
func TestPlanRoundTrip(t *testing.T) {
	first := planOf(t, rich, nil)
	first.Since = 1<<63 + 5
	var verbs marker.Verb
	for i := range first.Classes {
		for _, a := range first.Classes[i].Actions {
			verbs |= a.Verbs
		}
	}
	if verbs != marker.VerbDrop|marker.VerbDSCP|marker.VerbCE|marker.VerbMark|marker.VerbPriority || len(first.Sets) != 2 || len(first.Rules) < 8 {
		t.Fatalf("the plan is not rich: verbs %b, %d sets, %d rules", verbs, len(first.Sets), len(first.Rules))
	}
	m := newMaps(t, first)
	wantCopy(t, "the first", m, first)

	second := planOf(t, plain, first)
	write(t, m, second)
	wantCopy(t, "the second", m, second)
	wantCopy(t, "the first, beside the second", m, first)
	if got, err := m.ReadPlan(); err != nil || got.Generation != first.Generation {
		t.Errorf("in force: %v, %v", got, err)
	}
	if err := m.Switch(second.Generation, 1<<62); err != nil {
		t.Fatal(err)
	}
	if parity, deadline, err := m.InForce(); parity != second.Generation&1 || deadline != 1<<62 || err != nil {
		t.Errorf("in force: copy %d until %d, %v", parity, deadline, err)
	}

	third := planOf(t, plain, second)
	write(t, m, third)
	wantCopy(t, "the third, in place of the first", m, third)
	fourth := planOf(t, rich, third)
	write(t, m, fourth)
	wantCopy(t, "the fourth, in place of the second", m, fourth)
	wantCopy(t, "the third, beside the fourth", m, third)
}

// A new number is all that Renumber changes.
func TestRenumber(t *testing.T) {
	first := planOf(t, rich, nil)
	m := newMaps(t, first)
	if err := m.Renumber(first.Generation+2, 77); err != nil {
		t.Fatal(err)
	}
	if got, err := m.Generation(first.Generation); got != first.Generation+2 || err != nil {
		t.Errorf("generation %d, %v", got, err)
	}
	first.Generation, first.Since = first.Generation+2, 77
	wantCopy(t, "renumbered", m, first)
}

// Only counters that the plan before did not use start anew.
func TestClearStats(t *testing.T) {
	first := planOf(t, rich, nil)
	m := newMaps(t, first)
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		t.Fatal(err)
	}
	full := make([]bpf.PolicerClassStats, cpus)
	for i := range full {
		full[i].Packets[marker.Red] = 3
	}
	for i := range uint32(marker.MaxStats) {
		if err := m.ClassStats.Put(i, full); err != nil {
			t.Fatal(err)
		}
	}
	second := planOf(t, strings.Replace(rich, "name: to-here", "name: fro", 1), first)
	if err := m.ClearStats(second, first); err != nil {
		t.Fatal(err)
	}
	s, err := m.Stats(second)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range second.Classes {
		want := uint64(3 * cpus)
		if c.Name == "fro" {
			want = 0
		}
		if got := s.Classes[i].Packets[marker.Red]; got != want {
			t.Errorf("class %s counts %d, want %d", c.Name, got, want)
		}
	}
}

// A copy that a command left half written, in any way, is no hindrance to the next.
func TestWriteOverAnything(t *testing.T) {
	first := planOf(t, rich, nil)
	m := newMaps(t, first)
	idle := ^first.Generation & 1
	if err := m.Policies.Put(idle, bytes.Repeat([]byte{0xa5}, int(m.Policies.ValueSize()))); err != nil {
		t.Fatal(err)
	}
	for i := range first.Geometry.Profiles {
		if err := m.Profiles.Put(idle*first.Geometry.Profiles+i, bytes.Repeat([]byte{0xff}, int(m.Profiles.ValueSize()))); err != nil {
			t.Fatal(err)
		}
	}
	for i := range byte(100) {
		k := bpf.PolicerPrefixKey{Length: 32 + uint32(i), Set: idle<<prefixCopyShift | uint32(i)}
		k.Address[0] = i
		if err := m.Prefixes.Put(&k, uint32(i)); err != nil {
			t.Fatal(err)
		}
	}
	wantCopy(t, "the copy in force", m, first)
	second := planOf(t, rich, first)
	write(t, m, second)
	wantCopy(t, "the next", m, second)
	wantCopy(t, "the one before", m, first)
}

// More prefixes than one system call takes, in both copies, and fewer afterwards.
func TestManyPrefixes(t *testing.T) {
	plan := planOf(t, plain, nil)
	many := func(n int) *marker.Plan {
		next := *plan
		next.Generation++
		next.Sets = []marker.PrefixSet{{Name: "set 1"}}
		for i := range n {
			address := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
			next.Sets[0].Entries = append(next.Sets[0].Entries, marker.PrefixEntry{Prefix: netip.PrefixFrom(address, 32), Profile: marker.NoProfile})
		}
		plan = &next
		return plan
	}
	m := newMaps(t, plan)
	var before *marker.Plan
	for _, n := range []int{2*prefixBatch + 7, prefixBatch, 3 * prefixBatch, 5} {
		next := many(n)
		write(t, m, next)
		wantCopy(t, fmt.Sprintf("%d prefixes", n), m, next)
		if before != nil {
			wantCopy(t, fmt.Sprintf("the copy beside %d prefixes", n), m, before)
		}
		before = next
	}
}
