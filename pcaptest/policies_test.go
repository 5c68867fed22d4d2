package pcaptest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tricolor-policer/tricolor/internal/capture"
	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/marker"
	"github.com/tricolor-policer/tricolor/policy"
)

// customersCSV is a file of n prefixes, always the same: those of the captures, some with a profile, and others.
func customersCSV(n int) string {
	r := rand.New(rand.NewPCG(1, 2))
	profiles := []string{"", "", ",silver", ",gold"}
	var b strings.Builder
	seen := map[netip.Prefix]bool{}
	add := func(p netip.Prefix) {
		if p = p.Masked(); len(seen) < n && !seen[p] && p.Addr() != netip.IPv4Unspecified() {
			seen[p] = true
			fmt.Fprintf(&b, "%v%s\n", p, profiles[r.IntN(len(profiles))])
		}
	}
	for _, s := range []string{"10.0.0.0/9", "172.16.0.0/12", "192.168.0.0/16", "192.168.122.0/24", "fe80::/10", "2001:db8::/32", "2001:db8:1::/48", "127.0.0.0/8"} {
		add(netip.MustParsePrefix(s))
	}
	for i := range 256 {
		for _, network := range [][3]byte{{10, 200, 1}, {10, 50, 1}, {192, 168, 0}, {10, 118, 213}} {
			add(netip.PrefixFrom(netip.AddrFrom4([4]byte{network[0], network[1], network[2], byte(i)}), 28+r.IntN(5)))
		}
	}
	for len(seen) < n {
		var a [16]byte
		for i := range a {
			a[i] = byte(r.Uint32())
		}
		if r.IntN(3) > 0 {
			add(netip.PrefixFrom(netip.AddrFrom4([4]byte(a[:4])), 12+r.IntN(21)))
		} else {
			a[0] = 0x20
			add(netip.PrefixFrom(netip.AddrFrom16(a), 32+r.IntN(97)))
		}
	}
	return b.String()
}

// wholePolicies are the three policies, each of ten classes, that are verified over all captures; the third
// has a file of n prefixes.
func wholePolicies(t *testing.T, n int) (names []string, policies []*policy.Policy) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "customers.csv"), []byte(customersCSV(n)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"chains.yaml", "aware.yaml", "customers.yaml"} {
		text, err := os.ReadFile(filepath.Join(testutils.ModuleRoot(t), "testdata", "policies", name))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := policy.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Classes) != 10 {
			t.Fatalf("%s has %d classes, not 10", name, len(p.Classes))
		}
		names, policies = append(names, name), append(policies, p)
	}
	return names, policies
}

// sharedCaptures are the shared captures that are not refused, but for the largest.
func sharedCaptures(t *testing.T) (dir string, files []string) {
	t.Helper()
	dir = filepath.Join(testutils.SharedDir(t), "pcaps")
	for _, pattern := range []string{"*.pcap", "*.pcapng", "odd/*.pcap", "odd/*.pcapng", "perf/3-*.pcap"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			name, err := filepath.Rel(dir, path)
			if err != nil {
				t.Fatal(err)
			}
			if refused[name] == nil {
				files = append(files, name)
			}
		}
	}
	return dir, files
}

// mustVerify has both sides agree on a capture.
func (r *caseRun) mustVerify(path string, plan *marker.Plan, then []Change, each func(*marker.Outcome)) *Verification {
	r.Helper()
	k := r.kernel(plan)
	mirrors := *plan
	m, err := NewMirror(&mirrors, marker.SeedsFrom(1))
	if err != nil {
		r.Fatal(err)
	}
	m.OnForget(func(*marker.Slot) { r.forgot++ })
	c, err := capture.Open(path)
	if err != nil {
		r.Fatal(err)
	}
	defer c.Close()
	v, err := Verify(context.Background(), c, VerifyOptions{
		File: filepath.Base(path), Plan: plan, Mirror: &toldOf{m, each}, Kernel: k, Then: then,
	})
	if err != nil {
		r.Fatal(err)
	}
	if v.First != nil || v.Skipped != 0 {
		r.Errorf("%s: %d packets skipped, %v", path, v.Skipped, v.First)
	}
	k.generation = k.plan.Generation + 2
	r.packets += int(v.Compared)
	return v
}

// toldOf has each outcome told.
type toldOf struct {
	Side
	each func(*marker.Outcome)
}

func (o *toldOf) Packet(f *marker.Frame, now uint64) (marker.Outcome, error) {
	out, err := o.Side.Packet(f, now)
	if o.each != nil {
		o.each(&out)
	}
	return out, err
}

// Mirror and kernel agree on every packet of every shared capture, under three policies of ten classes.
func TestVerifyPolicies(t *testing.T) {
	testutils.RequireKernel(t)
	dir, files := sharedCaptures(t)
	records := indexed(t, dir)
	names, policies := wholePolicies(t, 10_000)
	run := newCaseRun(t)
	found := map[string]bool{}
	for i, p := range policies {
		t.Run(names[i], func(t *testing.T) {
			run.TB = t
			plan, err := p.Compile()
			if err != nil {
				t.Fatal(err)
			}
			var colors [marker.Colors]uint64
			var overflow, profiles uint64
			hits := make([]int, len(p.Classes))
			run.forgot, run.packets = 0, 0
			for _, name := range files {
				v := run.mustVerify(filepath.Join(dir, name), plan, nil, func(o *marker.Outcome) {
					if o.Kind == marker.Metered {
						hits[o.Class]++
						(&metered{policy: p, class: &p.Classes[o.Class], Outcome: *o}).features(found)
					}
				})
				if want, ok := records[name]; ok && v.Compared != want {
					t.Errorf("%s: %d packets compared, %d records", name, v.Compared, want)
				}
				for class := range v.Stats.Classes {
					overflow += v.Stats.Classes[class].Overflow
					for c, n := range v.Stats.Classes[class].Packets {
						colors[c] += n
					}
				}
				profiles += linesProfiles(t, run, plan)
			}
			t.Logf("%d packets of %d files: by class %v, green/yellow/red %v, %d in overflow, %d buckets forgotten, %d by a line's profile",
				run.packets, len(files), hits, colors, overflow, run.forgot, profiles)
			// What never happened was not compared.
			for class, n := range hits {
				if n == 0 {
					t.Errorf("class %s had no packet", p.Classes[class].Name)
				}
			}
			if slices.Contains(colors[:], 0) || overflow == 0 || run.forgot == 0 || profiles == 0 && names[i] == "customers.yaml" {
				t.Error("a colour, overflow, forgetting, or a prefix's own profile never occurred")
			}
		})
	}
	t.Logf("covered: %v", slices.Sorted(maps.Keys(found)))
	for _, feature := range allFeatures {
		switch feature {
		case "overflow", "forgetting", "clock back", "malformed pass", "change", "lapsed deadline": // of cases, not of packets
		default:
			if !found[feature] {
				t.Errorf("no packet of %s", feature)
			}
		}
	}
}

// linesProfiles counts the buckets in use by a profile that is no class's first, but a line's of a file.
func linesProfiles(t testing.TB, run *caseRun, plan *marker.Plan) (n uint64) {
	own := map[uint32]bool{}
	for i := range plan.Classes {
		for _, m := range plan.Classes[i].Meters {
			own[m.Profile] = true
		}
	}
	var s marker.Set
	for i := range plan.Geometry.Reserved {
		if err := run.loaded.Set(i, &s); err != nil {
			t.Fatal(err)
		}
		for slot := range s {
			if s.Tag(slot) != 0 && !own[s[slot].Profile] {
				n++
			}
		}
	}
	return n
}

// quarters are the time stamps a quarter, half and three quarters through a capture's records, in order.
func quarters(t testing.TB, path string) (at []uint64) {
	t.Helper()
	c, err := capture.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var times []uint64
	var p capture.Packet
	for {
		if err := c.Next(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		times = append(times, p.Time)
	}
	for i := 1; i < 4 && len(times) > 0; i++ {
		at = append(at, times[i*len(times)/4])
	}
	slices.Sort(at)
	return at
}

// The policies change three times through each capture, into each other and into themselves.
func TestVerifyPoliciesThen(t *testing.T) {
	testutils.RequireKernel(t)
	dir, files := sharedCaptures(t)
	names, policies := wholePolicies(t, 1000) // each change writes them anew
	run := newCaseRun(t)
	for first := range policies {
		order := []int{first, (first + 1) % 3, (first + 1) % 3, (first + 2) % 3}
		t.Run(names[first]+" first", func(t *testing.T) {
			run.TB = t
			var plans []*marker.Plan
			var prev *marker.Plan
			for _, i := range order {
				plan, err := policies[i].CompileAfter(prev)
				if err != nil {
					t.Fatal(err)
				}
				plans, prev = append(plans, plan), plan
			}
			changes := 0
			for _, name := range files {
				path := filepath.Join(dir, name)
				var then []Change
				for i, at := range quarters(t, path) {
					then = append(then, Change{at, plans[i+1]})
				}
				before := *plans[0]
				v := run.mustVerify(path, &before, then, nil)
				if done := int(run.loaded.plan.Generation - before.Generation); v.Compared > 0 {
					if changes += done; done != 3 {
						t.Errorf("%s: %d changes, not 3", name, done)
					}
				}
			}
			t.Logf("%d changes", changes)
		})
	}
}
