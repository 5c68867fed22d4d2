package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tricolor-policer/tricolor/marker"
	"github.com/tricolor-policer/tricolor/policy"
)

// policyFlags are the flags that say what the policy is: a file, or one class without a file.
type policyFlags struct {
	file  string
	words policy.Words
	class *pflag.FlagSet // the flags of words
	seed  *plain
}

// policyHelp closes the description of each command that takes the flags.
const policyHelp = `
The policy is a file (-f policy.yaml; "tricolor check" says what it promises), or one class in flags. Rates
are bits or bytes per second (10mbit, 2.048mbit, 1.25MB/s, 5kpps), sizes bytes (96KiB, 2MB, 1500B), packets
(10pkt) or a time at the rate (10ms). token takes --cir --cbs; srtcm (RFC 2697) --cir --cbs --ebs; trtcm (RFC 2698)
--cir --cbs --pir --pbs; rfc4115 --cir --cbs --eir --ebs. A rate or size left out is 0.`

// addPolicy adds the policy's flags. seed is the default of --seed and says what stands without it.
func addPolicy(flags *pflag.FlagSet, seed plain, seedUsage string) *policyFlags {
	f := &policyFlags{seed: &seed, class: pflag.NewFlagSet("", pflag.ContinueOnError)}
	w, class := &f.words, f.class
	class.StringVar(&w.Meter, "meter", "", "`METER` that judges packets: token, srtcm, trtcm or rfc4115")
	class.StringVar(&w.CIR, "cir", "", "committed information `RATE`")
	class.StringVar(&w.CBS, "cbs", "", "committed burst `SIZE`")
	class.StringVar(&w.EBS, "ebs", "", "excess burst `SIZE` (srtcm, rfc4115)")
	class.StringVar(&w.PIR, "pir", "", "peak information `RATE` (trtcm)")
	class.StringVar(&w.PBS, "pbs", "", "peak burst `SIZE` (trtcm)")
	class.StringVar(&w.EIR, "eir", "", "excess information `RATE` (rfc4115)")
	class.StringVar(&w.Color, "color", "", "`MODE` of the meter: blind, or aware of the colour that a packet's DSCP says on arrival (default blind)")
	class.BoolVar(&w.Coupling, "coupling", false, "the excess bucket also gets what the committed one cannot hold (rfc4115)")
	class.StringVar(&w.Per, "per", "", "`KEY` of a bucket, who shares it: flow, src, dst, src/24,56, dst/24,56, vlan, dscp or class (default flow)")
	class.StringVar(&w.Count, "count", "", "`UNIT` of a packet's cost: l3 (IP bytes), l2 (frame), l1 (with preamble and gap) or packets (default l3)")
	class.StringVar(&w.Overhead, "overhead", "", "add `N` (also negative) to each packet's cost")
	class.StringVar(&w.Flows, "flows", "", "make `N` bucket slots, rounded up to a power of two (default 1M)")
	class.StringVar(&w.Green, "green", "", "`ACTION` on green packets: pass, drop, or some of ecn-ce, dscp=af11, mark=N, priority=N with commas (default pass)")
	class.StringVar(&w.Yellow, "yellow", "", "`ACTION` on yellow packets (default pass)")
	class.StringVar(&w.Red, "red", "", "`ACTION` on red packets (default drop)")
	class.StringVar(&w.Malformed, "malformed", "", "`ACTION` on malformed packets: drop or pass (default drop)")
	addFile(flags, &f.file, "policy `FILE`, in place of the flags from --meter to --malformed")
	class.SortFlags, flags.SortFlags = false, false
	flags.AddFlagSet(class)
	flags.Var(f.seed, "seed", seedUsage)
	return f
}

// addFile adds -f.
func addFile(flags *pflag.FlagSet, file *string, usage string) {
	flags.StringVarP(file, "file", "f", "", usage)
}

// compile reads the policy. Its error wraps policy.ErrPolicy, or is of usage.
func (f *policyFlags) compile() (*policy.Policy, *marker.Plan, error) {
	if f.file != "" {
		if given := f.given(); len(given) > 0 {
			return nil, nil, usage("-f %s is the whole policy: leave out %s, or leave out -f", f.file, strings.Join(given, ", "))
		}
		return compileFile(f.file)
	}
	if f.words == (policy.Words{}) {
		return nil, nil, usage("no policy is given: name a file with -f FILE, or say --meter token, srtcm (RFC 2697), trtcm (RFC 2698) or rfc4115")
	}
	p, err := f.words.Policy()
	if err != nil {
		return nil, nil, err
	}
	plan, err := p.Compile()
	return p, plan, err
}

// given are the flags of one class that were given.
func (f *policyFlags) given() (names []string) {
	f.class.VisitAll(func(flag *pflag.Flag) {
		if flag.Changed {
			names = append(names, "--"+flag.Name)
		}
	})
	return names
}

// warnPolicy prints what is legal in a policy and yet hardly meant.
func warnPolicy(w io.Writer, p *policy.Policy, link policy.Link) {
	const most = 20 // a file of lines may have thousands of one kind
	warnings := p.Warn(link)
	for i, warning := range warnings {
		if i == most {
			warn(w, "and %d more", len(warnings)-most)
			return
		}
		warn(w, "%s", printable(warning.String()))
	}
}

// printPlan says what a plan does, a meter of a chain a line.
func printPlan(w io.Writer, plan *marker.Plan) {
	for _, line := range policy.Describe(plan) {
		fmt.Fprintln(w, describedChain(line))
	}
}

// describedChain breaks the line of a class with a chain at its meters.
func describedChain(line string) string {
	return strings.ReplaceAll(printable(line), ", then ", ",\n    then ")
}
