package demo

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tricolor-policer/tricolor/internal/netlab"
	"github.com/tricolor-policer/tricolor/internal/units"
	"github.com/tricolor-policer/tricolor/loader"
	"github.com/tricolor-policer/tricolor/policy"
)

// command is the command line that polices device as the demo does.
func command(device string, d loader.Direction, w policy.Words) string {
	line := fmt.Sprintf("tricolor attach %s --direction %s", device, d)
	for _, f := range [][2]string{
		{"meter", w.Meter}, {"cir", w.CIR}, {"cbs", w.CBS}, {"ebs", w.EBS}, {"flows", w.Flows},
		{"green", w.Green}, {"yellow", w.Yellow}, {"red", w.Red},
	} {
		line += fmt.Sprintf(" --%s %s", f[0], f[1])
	}
	return line
}

// folded breaks a command line before the flag that would take it over width columns.
func folded(line, indent string, width int) string {
	var out strings.Builder
	column := 0
	for i, part := range strings.Split(line, " --") {
		if i > 0 {
			part = "--" + part
			if column+1+len(part)+2 > width {
				out.WriteString(" \\\n" + indent + "    ")
				column = len(indent) + 4
			} else {
				out.WriteString(" ")
				column++
			}
		} else {
			out.WriteString(indent)
			column = len(indent)
		}
		out.WriteString(part)
		column += len(part)
	}
	return out.String()
}

const width = 90

func printSetup(w io.Writer, lab *netlab.Lab, policer *loader.Held, o Options) {
	left, right := lab.Left, lab.Right
	fmt.Fprintf(w, `Two network namespaces, a veth pair between them, and a policer on what leaves %s (hook %v):

    %[1]s  %s  %s  ────  %s  %s  %s

%s

Six flows for %v, each with a bucket of its own:

`, left.Device, policer.Mechanism,
		left.IPv4.Addr(), left.IPv6.Addr(), right.Device, right.IPv4.Addr(), right.IPv6.Addr(),
		folded(command(left.Device, loader.Egress, words), "    ", width), o.For)
}

// printFlows prints what the policer's counters say of each flow.
func printFlows(w io.Writer, e *evidence) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "    "+pad("flow, as it is sent", flowWidth)+"\tpackets\tgreen\tyellow\tred\tlet through\t")
	for i := range e.flows {
		f := &e.flows[i]
		row := "    " + pad(f.flow.String(), flowWidth)
		sum := uint64(0)
		for _, n := range f.packets {
			sum += n
		}
		row += "\t" + units.FormatCount(sum)
		for _, n := range f.packets {
			row += "\t" + units.FormatCount(n)
		}
		_, bytes := f.through()
		rate := bytes * uint64(time.Second) / max(1, uint64(f.took))
		fmt.Fprintln(t, row+"\t"+units.FormatMeanRate(rate)+"\t")
	}
	t.Flush()
}

// flowWidth is that of the longest flow's String.
const flowWidth = 30

func pad(s string, columns int) string { return fmt.Sprintf("%-*s", columns, s) }

// printProof prints the claims, each with its sums; of one that fails, the checks that do. It returns
// how many these are.
func printProof(w io.Writer, claims []claim) (disagreeing int) {
	fmt.Fprintf(w, `
The proof. Left, what a capture at right0 and the receivers counted, packet by packet on the wire;
right, what that should be: the policer's counters, or its promise. T is the time a flow took.

`)
	total := 0
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for i := range claims {
		c := &claims[i]
		var far, want uint64
		var bad []check
		for _, k := range c.checks {
			far += k.far
			want += k.want
			if !c.holds(k) {
				bad = append(bad, k)
			}
		}
		total += len(c.checks)
		disagreeing += len(bad)
		c.row(t, c.what, far, want, len(bad) == 0)
		for _, k := range bad {
			c.row(t, "  in: "+k.of, k.far, k.want, false)
		}
	}
	t.Flush()
	fmt.Fprintln(w)
	if disagreeing == 0 {
		fmt.Fprintf(w, "demo: all %d checks agree\n", total)
	} else {
		fmt.Fprintf(w, "demo: %d of %d checks disagree\n", disagreeing, total)
	}
	return disagreeing
}

func (c *claim) row(w io.Writer, what string, far, want uint64, agrees bool) {
	word := "DISAGREE"
	if agrees {
		word = "agree"
	}
	fmt.Fprintf(w, "    %s\t%s\t%s\t%s\t  %s\n", pad(what, claimWidth), units.FormatCount(far), c.how, units.FormatCount(want), word)
}

// claimWidth is that of the longest claim.
const claimWidth = 44

