package main

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tricolor-policer/tricolor/marker"
	"github.com/tricolor-policer/tricolor/policy"
)

// policyFlags are the flags that say what the policy is: one class, without a file.
type policyFlags struct {
	words policy.Words
	seed  *plain
}

// policyHelp closes the description of each command that takes the flags.
const policyHelp = `
Rates are bits or bytes per second (10mbit, 2.048mbit, 1.25MB/s, 5kpps), sizes bytes (96KiB, 2MB, 1500B),
packets (10pkt) or a time at the rate (10ms). token takes --cir --cbs; srtcm (RFC 2697) --cir --cbs --ebs;
trtcm (RFC 2698) --cir --cbs --pir --pbs; rfc4115 --cir --cbs --eir --ebs. A rate or size left out is 0.`

// addPolicy adds the policy's flags. seed is the default of --seed and says what stands without it.
func addPolicy(flags *pflag.FlagSet, seed plain, seedUsage string) *policyFlags {
	f := &policyFlags{seed: &seed}
	w := &f.words
	flags.StringVar(&w.Meter, "meter", "", "`METER` that judges packets: token, srtcm, trtcm or rfc4115")
	flags.StringVar(&w.CIR, "cir", "", "committed information `RATE`")
	flags.StringVar(&w.CBS, "cbs", "", "committed burst `SIZE`")
	flags.StringVar(&w.EBS, "ebs", "", "excess burst `SIZE` (srtcm, rfc4115)")
	flags.StringVar(&w.PIR, "pir", "", "peak information `RATE` (trtcm)")
	flags.StringVar(&w.PBS, "pbs", "", "peak burst `SIZE` (trtcm)")
	flags.StringVar(&w.EIR, "eir", "", "excess information `RATE` (rfc4115)")
	flags.StringVar(&w.Color, "color", "", "`MODE` of the meter: blind, or aware of the colour that a packet's DSCP says on arrival (default blind)")
	flags.BoolVar(&w.Coupling, "coupling", false, "the excess bucket also gets what the committed one cannot hold (rfc4115)")
	flags.StringVar(&w.Per, "per", "", "`KEY` of a bucket, who shares it: flow, src, dst, src/24,56, dst/24,56 or class (default flow)")
	flags.StringVar(&w.Count, "count", "", "`UNIT` of a packet's cost: l3 (IP bytes), l2 (frame), l1 (with preamble and gap) or packets (default l3)")
	flags.StringVar(&w.Overhead, "overhead", "", "add `N` (also negative) to each packet's cost")
	flags.StringVar(&w.Flows, "flows", "", "make `N` bucket slots, rounded up to a power of two (default 1M)")
	flags.StringVar(&w.Green, "green", "", "`ACTION` on green packets: pass, drop or dscp=af11 (default pass)")
	flags.StringVar(&w.Yellow, "yellow", "", "`ACTION` on yellow packets (default pass)")
	flags.StringVar(&w.Red, "red", "", "`ACTION` on red packets (default drop)")
	flags.StringVar(&w.Malformed, "malformed", "", "`ACTION` on malformed packets: drop or pass (default drop)")
	flags.Var(f.seed, "seed", seedUsage)
	flags.SortFlags = false
	return f
}

// compile reads the flags. Its error wraps policy.ErrPolicy.
func (f *policyFlags) compile() (*policy.Policy, *marker.Plan, error) {
	p, err := f.words.Policy()
	if err != nil {
		return nil, nil, err
	}
	plan, err := p.Compile()
	return p, plan, err
}

// choice is a flag of a few words; its first is the default.
type choice struct {
	word  string
	words []string
}

func newChoice(words ...string) *choice { return &choice{words[0], words} }

// String implements pflag.Value.
func (c *choice) String() string { return c.word }

// Type implements pflag.Value.
func (c *choice) Type() string { return strings.Join(c.words, "|") }

// Set implements pflag.Value.
func (c *choice) Set(word string) error {
	for _, w := range c.words {
		if w == word {
			c.word = w
			return nil
		}
	}
	return usage("say %s", oneOf(c.words))
}

// oneOf joins words for a sentence: "a, b or c".
func oneOf(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// plain is a flag of a plain decimal number, without a unit.
type plain uint64

// String implements pflag.Value.
func (n *plain) String() string { return strconv.FormatUint(uint64(*n), 10) }

// Type implements pflag.Value.
func (*plain) Type() string { return "N" }

// Set implements pflag.Value.
func (n *plain) Set(word string) error {
	value, err := strconv.ParseUint(word, 10, 64)
	if err != nil {
		return usage("say a whole number from 0 to 2^64-1")
	}
	if len(word) > 1 && word[0] == '0' {
		return usage("a leading 0 is unclear: say %d, or its octal value in decimal", value)
	}
	*n = plain(value)
	return nil
}

// addOutput adds -o with its formats, the first of which is the default.
func addOutput(cmd *cobra.Command, formats ...string) *choice {
	c := newChoice(formats...)
	cmd.Flags().VarP(c, "output", "o", "what to print: "+oneOf(formats))
	return c
}
