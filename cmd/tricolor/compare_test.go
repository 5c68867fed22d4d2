package main

import (
	"bytes"
	"errors"
	"io"
	"math/big"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tricolor-policer/tricolor/contract"
	"github.com/tricolor-policer/tricolor/internal/plot"
	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/marker"
	"github.com/tricolor-policer/tricolor/pcaptest"
)

// The token bucket of a comparison admits what a replay through the policer calls green, and GCRA the same.
func TestCompareTokenIsReplay(t *testing.T) {
	root := testutils.ModuleRoot(t)
	files, err := filepath.Glob(filepath.Join(root, "testdata", "captures", "*.pcap"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no captures (%v)", err)
	}
	shared, err := filepath.Glob(filepath.Join(root, "..", "shared", "pcaps", "*.pcap"))
	if err != nil {
		t.Fatal(err)
	}
	if len(shared) == 0 {
		t.Log("the captures of ../shared/pcaps are absent: only those of testdata are compared")
	}
	red := uint64(0)
	for _, file := range append(files, shared...) {
		for _, words := range [][3]string{{"256kbit", "3kB", "whole"}, {"64kbit", "1500B", "flow"}, {"10pps", "4pkt", "src/24,56"}} {
			c := &comparer{
				scenario: &choice{}, rate: words[0], burst: words[1], per: words[2], window: 1e9, flows: "64k", plot: &plotFlag{},
				stdout: io.Discard, stderr: io.Discard,
			}
			if c.terms, err = c.readTerms(); err != nil {
				t.Fatal(err)
			}
			run, err := c.runFile(t.Context(), file)
			if err != nil {
				t.Fatal(err)
			}
			plan, err := c.plan()
			if err != nil {
				t.Fatal(err)
			}
			replay, err := pcaptest.ReplayCapture(t.Context(), file, pcaptest.ReplayOptions{Plan: plan, Seeds: marker.SeedsFrom(defaultSeed)})
			if err != nil {
				t.Fatal(err)
			}
			stats := &replay.Stats.Classes[0]
			if stats.Overflow > 0 {
				t.Fatalf("%s: %d packets in overflow", file, stats.Overflow)
			}
			red += stats.Packets[marker.Red]
			rows := run.Rows()
			for _, row := range rows[:contract.Fixed] {
				if row.Packets != stats.Packets[marker.Green] {
					t.Errorf("%s %v: %v admits %d packets, of which the policer calls %d green", filepath.Base(file), words, row.Contract, row.Packets, stats.Packets[marker.Green])
				}
				if row.Excess.Sign() != 0 {
					t.Errorf("%s %v: %v is over its envelope by %v", filepath.Base(file), words, row.Contract, row.Excess)
				}
			}
		}
	}
	if red == 0 {
		t.Error("nothing was red: nothing was tested")
	}
}

func TestPrintAuditThatFailed(t *testing.T) {
	a, err := contract.RunAudit()
	if err != nil {
		t.Fatal(err)
	}
	if err := verdictOf(a, nil); err != nil {
		t.Fatalf("an audit that passed: %v", err)
	}
	a.CasesPassed--
	a.Passed[contract.Envelope]--
	a.Faults = []contract.Fault{{
		Case:  contract.Case{Scenario: "edge", Params: contract.Params{Rate: 2, Burst: 3, Window: 3e9, Queue: 8}},
		Check: contract.Envelope, What: "token bucket admits 5 nano-units over B + rT",
	}}
	var out bytes.Buffer
	if err := printAudit(&out, a); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"  323/324  accepted never over B + rT in any interval\n",
		"  failed: accepted never over B + rT in any interval (edge, rate 2/s, burst 3, window 3 s, queue 8): token bucket admits 5 nano-units over B + rT\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if want := "cases 323/324, checks 2,591/2,592\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("does not end with %q:\n%s", want, out.String())
	}
	if err := verdictOf(a, nil); !errors.Is(err, errReported) || exitCode(err) != exitFailed {
		t.Errorf("exits with %d (%v)", exitCode(err), err)
	}
}

func TestShortTime(t *testing.T) {
	for ns, want := range map[uint64]string{
		0: "0 s", 1: "1 ns", 999: "999 ns", 1000: "1 us", 1500: "1.5 us", 999_499: "999.499 us", 999_500: "1 ms",
		5_094_000: "5.094 ms", 999_499_999: "999.5 ms", 999_500_000: "1 s", 3_600_000_000: "3.6 s", 3_600_499_999: "3.6 s",
		3_600_500_000: "3.601 s", 9_999_999_999: "10 s", 4_000_000_000_000: "4,000 s", ^uint64(0): "18,446,744,073.71 s",
	} {
		if got := shortTime(ns); got != want {
			t.Errorf("%d ns: %q, want %q", ns, got, want)
		}
	}
}

func TestNanoUnits(t *testing.T) {
	for nano, want := range map[int64]string{0: "0", 1: "0.001", 1_000_000: "0.001", 24_350_000_000: "24.35", 19_600_000_001: "19.601", 1_151_196_000_000_000: "1,151,196"} {
		if got := nanoUnits(big.NewInt(nano)); got != want {
			t.Errorf("%d: %q, want %q", nano, got, want)
		}
	}
}

// However many values a curve is given, its points are few, in order, and the peak and the last sum are there.
func TestCompareCurve(t *testing.T) {
	c := curve{most: 64}
	const n, peak = 100_000, 77_777
	for i := range uint64(n) {
		value := i % 10
		if i == peak {
			value = 1000
		}
		c.add(float64(i), value)
		c.sum++
	}
	if len(c.points) > 64 || len(c.points) < 32 {
		t.Fatalf("%d points", len(c.points))
	}
	found := false
	for i, p := range c.points {
		found = found || p == plot.Point{X: peak, Y: 1000}
		if i > 0 && p.X <= c.points[i-1].X {
			t.Errorf("point %d is at %v, the one before at %v", i, p.X, c.points[i-1].X)
		}
	}
	if !found {
		t.Error("the peak is lost")
	}
	if all := c.until(2 * n); all[0] != (plot.Point{}) || all[len(all)-1] != (plot.Point{X: 2 * n, Y: n}) {
		t.Errorf("from %v to %v", all[0], all[len(all)-1])
	}
}

// The figure says what the table says: each contract's last sum, and its greatest held over B.
func TestCompareFigure(t *testing.T) {
	c := &comparer{scenario: &choice{word: "edge"}, per: "whole", window: 6e9, plot: &plotFlag{"edge.svg"}}
	var err error
	if c.terms, err = c.readTerms(); err != nil {
		t.Fatal(err)
	}
	run, err := c.runScenario()
	if err != nil {
		t.Fatal(err)
	}
	panels := run.curves.figure("edge", c.terms).Panels
	find := func(panel int, name string) (points []plot.Point) {
		for _, s := range panels[panel].Series {
			if s.Name == name {
				points = s.Points
			}
		}
		if len(points) == 0 {
			t.Fatalf("panel %d has no %s", panel, name)
		}
		return points
	}
	for _, row := range run.Rows() {
		sums := find(0, row.Contract.String())
		if last := sums[len(sums)-1].Y; last != float64(row.Packets) {
			t.Errorf("%v: the last sum is %v, the table has %d", row.Contract, last, row.Packets)
		}
		most := 0.0
		for _, p := range find(1, row.Contract.String()) {
			most = max(most, p.Y)
		}
		if over := new(big.Int).Add(row.Excess, big.NewInt(int64(c.terms.Burst)*marker.Nano)); row.Excess.Sign() > 0 && most != float64((over.Int64()+marker.Nano-1)/marker.Nano) {
			t.Errorf("%v: holds %v at most, the table has %v over B", row.Contract, most, row.Excess)
		}
		if row.Excess.Sign() == 0 && most > float64(c.terms.Burst) {
			t.Errorf("%v: holds %v, and is not over B", row.Contract, most)
		}
	}
	if arrived := find(0, "arrived"); arrived[len(arrived)-1].Y != 40 {
		t.Errorf("%v arrived", arrived[len(arrived)-1])
	}
}
