// Command bench measures tricolor on this machine and prints one table: see docs/performance.md. As
// root it measures the kernel program too.
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/tricolor-policer/tricolor/loader"
	"github.com/tricolor-policer/tricolor/marker"
)

const rounds = 7

// figure is one quantity, measured in several rounds.
type figure []float64

func (f figure) median() float64 {
	s := slices.Clone(f)
	slices.Sort(s)
	return s[len(s)/2]
}

// udpFrame is a small UDP packet on Ethernet.
func udpFrame() []byte {
	f := make([]byte, 64)
	f[12] = 0x08
	ip := f[14:]
	ip[0], ip[3], ip[8], ip[9] = 0x45, 50, 64, 17
	copy(ip[12:], []byte{10, 0, 0, 1, 192, 0, 2, 1})
	copy(ip[20:], []byte{0x10, 0x00, 0x20, 0x00, 0, 30, 0, 0})
	return f
}

// onePlan has one class, a bucket a flow, 2^21 slots.
func onePlan(params marker.Params) (*marker.Plan, error) {
	profile, err := params.Compile()
	if err != nil {
		return nil, err
	}
	g, err := marker.NewGeometry(1<<21, [marker.MaxChain]bool{true}, 1)
	if err != nil {
		return nil, err
	}
	profile.Overflow = g.OverflowSet(0, 0)
	m := marker.NewMeter(0, 0, marker.PerFlow, [2]int{32, 64})
	m.Reserved = g.ReservedSet(0)
	return &marker.Plan{
		Geometry: g, Profiles: []marker.Profile{profile}, Rules: []marker.Rule{marker.AnyRule(0)},
		Classes: []marker.Class{{Name: "all", Meters: []marker.Meter{m}}},
	}, nil
}

var meters = []struct {
	name   string
	params marker.Params
}{
	{"token", marker.Params{Meter: marker.Token, CIR: 60e6, CBS: 32e3}},
	{"srtcm", marker.Params{Meter: marker.SRTCM, CIR: 60e6, CBS: 32e3, EBS: 32e3}},
	{"trtcm", marker.Params{Meter: marker.TRTCM, CIR: 30e6, CBS: 32e3, PIR: 60e6, PBS: 32e3}},
	{"rfc4115", marker.Params{Meter: marker.RFC4115, CIR: 30e6, CBS: 32e3, EIR: 30e6, EBS: 32e3}},
}

// table collects the rows.
type table struct{ *tabwriter.Writer }

func (t table) row(what string, f figure, target string) {
	fmt.Fprintf(t, "%s\t%8.1f\t%8.1f\t%8.1f\t%s\n", what, f.median(), slices.Min(f), slices.Max(f), target)
}

func run() error {
	fmt.Printf("%s, %d CPUs, Linux %s, %s; medians of %d rounds, ns a packet\n\n", processor(), runtime.NumCPU(), release(), runtime.Version(), rounds)
	t := table{tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)}
	defer t.Flush()
	fmt.Fprintf(t, "%s\t%8s\t%8s\t%8s\t%s\n", "what", "median", "least", "most", "target")
	srtcm, err := onePlan(marker.Params{Meter: marker.SRTCM, CIR: 12_500_000_000, CBS: 1 << 30, EBS: 1 << 20})
	if err != nil {
		return err
	}
	for _, k := range []struct {
		name   string
		flows  uint32
		target string
	}{{"1 flow", 1, "<= 60"}, {"100k flows at random", 100_000, ""}, {"900k flows at random", 900_000, "<= 310"}} {
		over, floor, err := kernel(srtcm, k.flows, rounds, 2_000_000)
		if errors.Is(err, loader.ErrPrivilege) {
			fmt.Fprintln(os.Stderr, "bench: the kernel program is left out:", err)
			break
		}
		if err != nil {
			return err
		}
		t.row("kernel program over an empty one, srtcm, "+k.name, over, k.target)
		t.row("  the empty program itself", floor, "")
	}
	for _, m := range meters {
		for _, mixed := range []bool{false, true} {
			f, err := meter(m.params, mixed, rounds, 4_000_000)
			if err != nil {
				return err
			}
			name, target := " green", "<= 2.5"
			if mixed {
				name, target = " mixed colours", "<= 4.5"
			}
			t.row("Go meter alone, "+m.name+name, f, target)
		}
	}
	for _, m := range []struct {
		name   string
		flows  uint32
		target string
	}{{"1 flow", 1, "<= 11"}, {"100k flows at random", 100_000, ""}, {"1M flows at random", 1_000_000, "<= 50"}} {
		f, err := mirror(srtcm, m.flows, rounds, 2_000_000)
		if err != nil {
			return err
		}
		t.row("Go mirror, parser to counters, "+m.name, f, m.target)
	}
	f, err := replay(srtcm, 50_000, rounds, 1_000_000)
	if err != nil {
		return err
	}
	t.row("replay of a capture, 1M packets of 96 bytes, 50k flows", f, "<= 45")
	return nil
}

func processor() string {
	info, _ := os.ReadFile("/proc/cpuinfo")
	_, after, _ := strings.Cut(string(info), "model name\t: ")
	name, _, _ := strings.Cut(after, "\n")
	return name
}

func release() string {
	b, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return strings.TrimSpace(string(b))
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}
