package pcaptest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tricolor-policer/tricolor/internal/capture"
	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/marker"
)

// verifyFile runs a capture through fresh sides, and counts the buckets that were forgotten.
func verifyFile(t testing.TB, path string, plan *marker.Plan, forgotten *int) (*Verification, error) {
	t.Helper()
	r, err := capture.Open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	seeds := marker.SeedsFrom(1)
	m, err := NewMirror(plan, seeds)
	if err != nil {
		t.Fatal(err)
	}
	m.OnForget(func(*marker.Slot) { *forgotten++ })
	k, err := NewKernel(plan, seeds)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	return Verify(context.Background(), r, VerifyOptions{File: filepath.Base(path), Plan: plan, Mirror: m, Kernel: k})
}

// indexed returns the records of each shared capture.
func indexed(t *testing.T, dir string) map[string]int64 {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, "INDEX.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	records := map[string]int64{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	lines.Scan()
	columns := strings.Split(lines.Text(), "\t")
	at := map[string]int{}
	for i, c := range columns {
		at[c] = i
	}
	for lines.Scan() {
		row := strings.Split(lines.Text(), "\t")
		n, err := strconv.ParseInt(row[at["records"]], 10, 64)
		if err != nil {
			continue // no figure for this one
		}
		records[row[at["file"]]] = n
	}
	if len(records) < 50 {
		t.Fatalf("INDEX.tsv has only %d rows with a number of records", len(records))
	}
	return records
}

// The files that are refused before or at their first packet, and why.
var refused = map[string]error{
	"odd/libpcap__linktype-reserved-field-not-zero.pcap": capture.ErrDamaged,
	"odd/libpcap__pcap-invalid-version-1.pcap":           capture.ErrFormat,
	"odd/libpcap__pcap-invalid-version-2.pcap":           capture.ErrFormat,
	"odd/libpcap__pcapng-invalid-vers-1.pcapng":          capture.ErrFormat,
	"odd/libpcap__pcapng-invalid-vers-2.pcapng":          capture.ErrFormat,
	"odd/libpcap__shb-option-too-long.pcapng":            capture.ErrDamaged,
	"odd/libpcap__slip-bad-direction.pcap":               capture.ErrLinkType,
}

var verifiedMeters = []struct {
	name   string
	params marker.Params
}{
	{"srtcm blind", marker.Params{Meter: marker.SRTCM, CIR: 20_000, CBS: 3000, EBS: 4000}},
	{"srtcm aware", marker.Params{Meter: marker.SRTCM, CIR: 20_000, CBS: 3000, EBS: 4000, Aware: true}},
	{"trtcm blind", marker.Params{Meter: marker.TRTCM, CIR: 10_000, CBS: 3000, PIR: 20_000, PBS: 6000}},
	{"trtcm aware", marker.Params{Meter: marker.TRTCM, CIR: 10_000, CBS: 3000, PIR: 20_000, PBS: 6000, Aware: true}},
	{"token blind", marker.Params{Meter: marker.Token, CIR: 20_000, CBS: 3000}},
	{"rfc4115 coupled", marker.Params{Meter: marker.RFC4115, CIR: 10_000, CBS: 3000, EIR: 5000, EBS: 4000, Coupling: true}},
}

// Mirror and kernel agree on every packet of every shared capture, with room and without.
func TestVerifySharedCaptures(t *testing.T) {
	testutils.RequireKernel(t)
	dir := filepath.Join(testutils.SharedDir(t), "pcaps")
	records := indexed(t, dir)
	var files []string
	for _, pattern := range []string{"*.pcap", "*.pcapng", "odd/*.pcap", "odd/*.pcapng"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	files = append(files, filepath.Join(dir, "perf", "3-gopacket-cip-3000-flows.pcap")) // more flows than slots
	for _, meter := range verifiedMeters {
		for _, flows := range []uint64{64, 4096} {
			t.Run(fmt.Sprintf("%s, %d slots", meter.name, flows), func(t *testing.T) {
				params := meter.params
				if flows == 64 { // so slow that many buckets are still in use when the table is full
					params.CIR, params.PIR, params.EIR = params.CIR/100, params.PIR/100, params.EIR/100
				}
				plan := planOf(t, params, marker.PerFlow, flows)
				var forgotten int
				var colors [marker.Colors]uint64
				var packets int64
				var overflow, back uint64
				for _, path := range files {
					name, err := filepath.Rel(dir, path)
					if err != nil {
						t.Fatal(err)
					}
					v, err := verifyFile(t, path, plan, &forgotten)
					if want := refused[name]; want != nil {
						if !errors.Is(err, want) {
							t.Errorf("%s: %v, not %v", name, err, want)
						}
						continue
					}
					if err != nil {
						t.Errorf("%s: %v", name, err)
						continue
					}
					if v.First != nil {
						t.Errorf("%s: %v", name, v.First)
					}
					if want, ok := records[name]; ok && v.Compared != want {
						t.Errorf("%s: %d packets compared, %d records", name, v.Compared, want)
					}
					if v.Skipped != 0 {
						t.Errorf("%s: %d packets skipped", name, v.Skipped)
					}
					packets += v.Compared
					for c, n := range v.Stats.Classes[0].Packets {
						colors[c] += n
					}
					overflow += v.Stats.Classes[0].Overflow
					back += v.Stats.Classes[0].ClockBack
				}
				t.Logf("%d packets of %d files: green/yellow/red %v, %d in overflow, %d buckets forgotten, %d packets with a clock gone back", packets, len(files)-len(refused), colors, overflow, forgotten, back)
				// What never happened was not compared.
				if colors[marker.Green] == 0 || colors[marker.Red] == 0 || (meter.params.Meter != marker.Token && colors[marker.Yellow] == 0) {
					t.Errorf("a colour never occurred: %v", colors)
				}
				if flows == 64 && (overflow == 0 || forgotten == 0) || back == 0 {
					t.Errorf("overflow %d, forgotten %d, clock back %d: a case never occurred", overflow, forgotten, back)
				}
			})
		}
	}
}

// The large captures, once.
func TestVerifyLargeCaptures(t *testing.T) {
	testutils.RequireKernel(t)
	dir := filepath.Join(testutils.SharedDir(t), "pcaps")
	records := indexed(t, dir)
	for _, name := range []string{"perf/1-l4s-wifi-bulk-3x-merged.pcap", "perf/2-zeek-echo-500-conns.pcap", "perf/3-gopacket-cip-3000-flows.pcap"} {
		forgotten := 0
		plan := planOf(t, marker.Params{Meter: marker.SRTCM, CIR: 20_000, CBS: 3000, EBS: 4000}, marker.PerFlow, 1024)
		v, err := verifyFile(t, filepath.Join(dir, name), plan, &forgotten)
		if err != nil {
			t.Fatal(err)
		}
		if v.First != nil {
			t.Errorf("%s: %v", name, v.First)
		}
		if v.Compared != records[name] {
			t.Errorf("%s: %d packets compared, %d records", name, v.Compared, records[name])
		}
		t.Logf("%s: %d packets, %d in overflow, %d buckets forgotten", name, v.Compared, v.Stats.Classes[0].Overflow, forgotten)
	}
}

// tamper is a side with one fault, from packet At on.
type tamper struct {
	Side
	at     int64
	before func(f *marker.Frame, now *uint64)
	after  func(f *marker.Frame, o *marker.Outcome)
	set    func(i uint32, s *marker.Set)
	stats  func(s *marker.Stats)

	packet int64
}

func (s *tamper) on() bool { return s.packet >= s.at }

func (s *tamper) Packet(f *marker.Frame, now uint64) (marker.Outcome, error) {
	s.packet++
	if s.on() && s.before != nil {
		s.before(f, &now)
	}
	o, err := s.Side.Packet(f, now)
	if s.on() && s.after != nil {
		s.after(f, &o)
	}
	return o, err
}

func (s *tamper) Set(i uint32, out *marker.Set) error {
	err := s.Side.Set(i, out)
	if s.on() && s.set != nil {
		s.set(i, out)
	}
	return err
}

func (s *tamper) Stats() (marker.Stats, error) {
	st, err := s.Side.Stats()
	if s.on() && s.stats != nil {
		st.Classes = append([]marker.ClassStats(nil), st.Classes...)
		s.stats(&st)
	}
	return st, err
}

// A verify that cannot fail is worth nothing: each kind of fault, in either side, is reported at the
// right packet.
func TestVerifyReportsFaults(t *testing.T) {
	testutils.RequireKernel(t)
	file := filepath.Join(testutils.ModuleRoot(t), "testdata", "captures", "07-cesnet-ntp-af11-ef-cs6.pcap")
	const at = 23 // the packet from which the fault is there
	plan := func() *marker.Plan {
		return planOf(t, marker.Params{Meter: marker.SRTCM, CIR: 10, CBS: 100, EBS: 200}, marker.PerFlow, 64)
	}
	type fault struct {
		name   string
		plan   func(*marker.Plan) // changes one side's plan from the start
		seeds  uint64             // another hash seed on one side from the start
		tamper tamper
		packet int64    // where it must be reported
		fields []string // what must be named, among others
	}
	ip := func(f *marker.Frame) []byte { return f.Data[14:] }
	for _, f := range []fault{
		{name: "nothing", packet: 0},
		{name: "rate", plan: func(p *marker.Plan) { p.Profiles[0].CIR++ }, packet: firstRefill(t, file), fields: []string{"tc"}},
		{name: "burst", plan: func(p *marker.Plan) { p.Profiles[0].CBS++ }, packet: 1, fields: []string{"tc"}},
		{name: "cost", plan: func(p *marker.Plan) { p.Classes[0].Overhead = 1 }, packet: 1, fields: []string{"cost", "green bytes", "tc"}},
		{name: "key", plan: func(p *marker.Plan) { p.Classes[0].Meters[0] = marker.NewMeter(0, 0, marker.PerSrc, [2]int{32, 64}) }, packet: 1, fields: []string{"bucket of meter 1"}},
		{name: "class number in the key", plan: func(p *marker.Plan) { p.Classes[0].Meters[0] = marker.NewMeter(1, 0, marker.PerFlow, [2]int{32, 64}) }, packet: 1, fields: []string{"bucket of meter 1"}},
		{name: "seed", seeds: 2, packet: 1, fields: []string{"bucket of meter 1"}},
		{name: "DSCP of the plan", plan: func(p *marker.Plan) { p.Classes[0].Actions[marker.Green].DSCP = 14 }, packet: 1, fields: []string{"frame byte 15"}},
		{name: "colour", tamper: tamper{after: func(_ *marker.Frame, o *marker.Outcome) { o.Color ^= 1 }}, packet: at, fields: []string{"colour"}},
		{name: "arrival colour", tamper: tamper{after: func(_ *marker.Frame, o *marker.Outcome) { o.Arrival ^= 1 }}, packet: at, fields: []string{"arrival colour"}},
		{name: "class", tamper: tamper{after: func(_ *marker.Frame, o *marker.Outcome) { o.Class++ }}, packet: at, fields: []string{"class"}},
		{name: "kind", tamper: tamper{after: func(_ *marker.Frame, o *marker.Outcome) { o.Kind ^= 1 }}, packet: at, fields: []string{"kind"}},
		{name: "verdict", tamper: tamper{after: func(_ *marker.Frame, o *marker.Outcome) { o.Dropped = !o.Dropped }}, packet: at, fields: []string{"verdict"}},
		{name: "DSCP of the frame", tamper: tamper{after: func(f *marker.Frame, _ *marker.Outcome) { ip(f)[1] ^= 4 }}, packet: at, fields: []string{"frame byte 15"}},
		{name: "ECN of the frame", tamper: tamper{after: func(f *marker.Frame, _ *marker.Outcome) { ip(f)[1] ^= 1 }}, packet: at, fields: []string{"frame byte 15"}},
		{name: "checksum", tamper: tamper{after: func(f *marker.Frame, _ *marker.Outcome) { ip(f)[10] ^= 1 }}, packet: at, fields: []string{"frame byte 24"}},
		{name: "last byte", tamper: tamper{after: func(f *marker.Frame, _ *marker.Outcome) { f.Data[len(f.Data)-1] ^= 1 }}, packet: at, fields: []string{"frame byte"}},
		{name: "clock", tamper: tamper{before: func(_ *marker.Frame, now *uint64) { *now++ }}, packet: at, fields: []string{"last"}},
		{name: "frame's length", tamper: tamper{before: func(f *marker.Frame, _ *uint64) { f.Length = 20 }}, packet: at, fields: []string{"kind"}},
		{name: "counter of a colour", tamper: tamper{stats: func(s *marker.Stats) { s.Classes[0].Packets[marker.Green]++ }}, packet: at, fields: []string{"counter of class all: green packets"}},
		{name: "counter of bytes", tamper: tamper{stats: func(s *marker.Stats) { s.Classes[0].Bytes[marker.Red]++ }}, packet: at, fields: []string{"counter of class all: red bytes"}},
		{name: "counter overflow", tamper: tamper{stats: func(s *marker.Stats) { s.Classes[0].Overflow++ }}, packet: at, fields: []string{"counter of class all: overflow"}},
		{name: "counter contended", tamper: tamper{stats: func(s *marker.Stats) { s.Classes[0].Contended++ }}, packet: at, fields: []string{"counter of class all: contended"}},
		{name: "counter clock_back", tamper: tamper{stats: func(s *marker.Stats) { s.Classes[0].ClockBack++ }}, packet: at, fields: []string{"counter of class all: clock_back"}},
		{name: "counter unmatched", tamper: tamper{stats: func(s *marker.Stats) { s.Port.Unmatched++ }}, packet: at, fields: []string{"counter unmatched"}},
		{name: "counter not-ip", tamper: tamper{stats: func(s *marker.Stats) { s.Port.NotIP++ }}, packet: at, fields: []string{"counter not-ip"}},
		{name: "counter malformed", tamper: tamper{stats: func(s *marker.Stats) { s.Port.Malformed++ }}, packet: at, fields: []string{"counter malformed"}},
		{name: "counter long-chain", tamper: tamper{stats: func(s *marker.Stats) { s.Port.LongChain++ }}, packet: at, fields: []string{"counter long-chain"}},
		{name: "tokens of a bucket", tamper: tamper{set: func(_ uint32, s *marker.Set) {
			for i := range s {
				s[i].Bucket.Tx++
			}
		}}, packet: at, fields: []string{"te|tp"}},
		{name: "tag of a bucket", tamper: tamper{set: func(_ uint32, s *marker.Set) { s[0].Tags ^= 1 << 31 }}, packet: at, fields: []string{"set's word"}},
		{name: "counters of a bucket", tamper: tamper{set: func(_ uint32, s *marker.Set) {
			for i := range s {
				s[i].Packets[marker.Yellow]++
			}
		}}, packet: at, fields: []string{"yellow packets"}},
	} {
		for _, side := range []string{"mirror", "kernel"} {
			t.Run(f.name+" in the "+side, func(t *testing.T) {
				plans, seeds := [2]*marker.Plan{plan(), plan()}, [2]uint64{1, 1}
				faulty := 0
				if side == "kernel" {
					faulty = 1
				}
				if f.plan != nil {
					f.plan(plans[faulty])
				}
				if f.seeds != 0 {
					seeds[faulty] = f.seeds
				}
				m, err := NewMirror(plans[0], marker.SeedsFrom(seeds[0]))
				if err != nil {
					t.Fatal(err)
				}
				k, err := NewKernel(plans[1], marker.SeedsFrom(seeds[1]))
				if err != nil {
					t.Fatal(err)
				}
				defer k.Close()
				sides := [2]Side{m, k}
				tampered := f.tamper
				tampered.Side, tampered.at = sides[faulty], at
				sides[faulty] = &tampered
				r, err := capture.Open(file)
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				v, err := Verify(context.Background(), r, VerifyOptions{File: "file", Plan: plan(), Mirror: sides[0], Kernel: sides[1]})
				if err != nil {
					t.Fatal(err)
				}
				if f.packet == 0 {
					if v.First != nil || v.Compared != 56 {
						t.Fatalf("%d packets compared, %v", v.Compared, v.First)
					}
					return
				}
				if v.First == nil {
					t.Fatal("not noticed")
				}
				if v.First.Packet != f.packet || v.Differences != 1 {
					t.Errorf("reported at packet %d, not %d:\n%v", v.First.Packet, f.packet, v.First)
				}
				for _, want := range f.fields {
					if !strings.Contains(v.First.String(), want) {
						t.Errorf("%q is not named in:\n%v", want, v.First)
					}
				}
			})
		}
	}
}

// firstRefill is the number of the first packet whose bucket was not full when it came: only from
// there on does a rate matter.
func firstRefill(t *testing.T, file string) int64 {
	t.Helper()
	spent := map[marker.Key]bool{}
	first := int64(0)
	plan := planOf(t, marker.Params{Meter: marker.SRTCM, CIR: 10, CBS: 100, EBS: 200}, marker.PerFlow, 64)
	_, err := ReplayCapture(context.Background(), file, ReplayOptions{Plan: plan, Seeds: marker.SeedsFrom(1), Each: func(s *Step) error {
		if first == 0 && spent[s.Bucket.Key] {
			first = s.Packet.Number
		}
		spent[s.Bucket.Key] = true
		return nil
	}})
	if err != nil || first == 0 {
		t.Fatalf("no key comes twice: %v", err)
	}
	return first
}

// What is left of a difference found only at the end, in a bucket of no packet.
func TestVerifyReportsFaultsAtTheEnd(t *testing.T) {
	testutils.RequireKernel(t)
	file := filepath.Join(testutils.ModuleRoot(t), "testdata", "captures", "07-cesnet-ntp-af11-ef-cs6.pcap")
	plan := planOf(t, marker.Params{Meter: marker.SRTCM, CIR: 10, CBS: 100, EBS: 200}, marker.PerFlow, 64)
	m, err := NewMirror(plan, marker.SeedsFrom(1))
	if err != nil {
		t.Fatal(err)
	}
	k, err := NewKernel(plan, marker.SeedsFrom(1))
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	m.Sets()[plan.Geometry.Sets-1][3].Profile = 7 // a slot that no packet touches
	r, err := capture.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	v, err := Verify(context.Background(), r, VerifyOptions{File: "file", Plan: plan, Mirror: m, Kernel: k})
	if err != nil {
		t.Fatal(err)
	}
	want := []Field{{Name: fmt.Sprintf("bucket %d: profile", plan.Geometry.Sets*marker.SetSlots-1), Mirror: "7", Kernel: "0"}}
	if v.First == nil || v.First.Packet != 0 || cmp.Diff(want, v.First.Fields) != "" {
		t.Errorf("got %v", v.First)
	}
}
