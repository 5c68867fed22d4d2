// Command bench measures tricolor on this machine and prints one table: see docs/performance.md. As
// root it measures the kernel program too.
package main

import (
	"errors"
	"flag"
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

// onePlan has one class, a bucket a flow, red dropped, 2^21 slots.
func onePlan(params marker.Params) (*marker.Plan, error) { return planOf(params, 1<<21) }

// planOf is onePlan with so many slots.
func planOf(params marker.Params, slots uint64) (*marker.Plan, error) {
	profile, err := params.Compile()
	if err != nil {
		return nil, err
	}
	g, err := marker.NewGeometry(slots, [marker.MaxChain]bool{true}, 1)
	if err != nil {
		return nil, err
	}
	profile.Overflow = g.OverflowSet(0, 0)
	m := marker.NewMeter(0, 0, marker.PerFlow, [2]int{32, 64})
	m.Reserved = g.ReservedSet(0)
	return &marker.Plan{
		Geometry: g, Profiles: []marker.Profile{profile}, Rules: []marker.Rule{marker.AnyRule(0)},
		Classes: []marker.Class{{
			Name: "all", Meters: []marker.Meter{m},
			Actions: [marker.Colors]marker.Action{marker.Red: {Verbs: marker.VerbDrop}},
		}},
	}, nil
}

// section is one part of the table. It writes its rows itself. One that returns errLeftOut is left out, with the
// reason.
type section struct {
	name string
	what string
	run  func(*table) error
}

var sections = []section{
	{"kernel", "the kernel program over an empty one", kernelSection},
	{"maps", "the kernel program beside policers in maps of the kernel's own, over an empty one", mapsSection},
	{"access", "reads of a table at random places, over none", accessSection},
	{"chain", "the kernel program, one thing after the other", chainSection},
	{"scale", "the kernel program, 4 million flows", scaleSection},
	{"contention", "the kernel program, two CPUs at once", contentionSection},
	{"hash", "hashes and the shape of the table", hashSection},
	{"meter", "the Go meters alone", meterSection},
	{"mirror", "the Go mirror", mirrorSection},
	{"flood", "a veth flood, every packet let through", floodSection},
	{"floodred", "a veth flood, nearly every packet red", floodRedSection},
	{"memory", "memory a flow", memorySection},
	{"load", "loading the kernel program", loadSection},
	{"scrape", "how full a table is, for a scrape", scrapeSection},
	{"top", "a reading of a large table, for top", topSection},
	{"replay", "a capture through the mirror", replaySection},
	{"dpdk", "the Go meters beside DPDK's", dpdkSection},
	{"accuracy", "error of the rate, 1 B/s to 1 Tbit/s", accuracySection},
	{"growth", "as flows and captures grow", growthSection},
}

// long are the sections that take minutes: they run only where they are asked for by name.
var long = []string{"growth"}

// table collects the rows.
type table struct{ *tabwriter.Writer }

// row is a quantity, its unit, and what it ought to be ("" where nothing was asked of it).
func (t *table) row(what string, f figure, unit, target string) {
	fmt.Fprintf(t, "%s\t%8.1f\t%8.1f\t%8.1f\t%s\t%s\n", what, f.median(), slices.Min(f), slices.Max(f), unit, target)
}

// note is a line of text in the table.
func (t *table) note(format string, args ...any) {
	fmt.Fprintf(t, "  "+format+"\n", args...)
}

// errLeftOut is wrapped by a section that cannot run here: not root, a tool missing.
var errLeftOut = errors.New("left out")

func run(only []string) error {
	fmt.Printf("%s, %d CPUs, Linux %s, %s; medians of %d rounds\n", processor(), runtime.NumCPU(), release(), runtime.Version(), rounds)
	for _, name := range only {
		if !slices.ContainsFunc(sections, func(s section) bool { return s.name == name }) {
			return fmt.Errorf("there is no section %q", name)
		}
	}
	for _, s := range sections {
		if !slices.Contains(only, s.name) && (len(only) > 0 || slices.Contains(long, s.name)) {
			continue
		}
		t := &table{tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)}
		fmt.Fprintf(t, "\n%s\t%8s\t%8s\t%8s\t%s\t%s\n", s.what, "median", "least", "most", "unit", "target")
		err := s.run(t)
		t.Flush()
		if errors.Is(err, errLeftOut) || errors.Is(err, loader.ErrPrivilege) {
			fmt.Fprintf(os.Stderr, "bench: %s: %v\n", s.name, err)
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
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
	only := flag.String("only", "", "comma-separated sections to measure; without it all but growth, which takes minutes")
	flag.Parse()
	var names []string
	if *only != "" {
		names = strings.Split(*only, ",")
	}
	if err := run(names); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}
