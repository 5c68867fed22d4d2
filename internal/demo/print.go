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
	"github.com/tricolor-policer/tricolor/marker"
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

// folded indents a command line, and breaks it before each flag that would take it over columns.
func folded(line, indent string, columns int) string {
	parts := strings.Split(line, " --")
	row := indent + parts[0]
	var rows []string
	for _, part := range parts[1:] {
		if len(row)+len(" --")+len(part)+len(` \`) > columns {
			rows = append(rows, row+` \`)
			row = indent + "   "
		}
		row += " --" + part
	}
	return strings.Join(append(rows, row), "\n")
}

// width of the output, in columns.
const width = 90

// numbers returns a table of right-aligned columns; it indents its rows by two columns.
func numbers(w io.Writer) *tabwriter.Writer {
	return tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
}

func printSetup(w io.Writer, lab *netlab.Lab, policer *loader.Held, during time.Duration) {
	left, right := lab.Left, lab.Right
	fmt.Fprintf(w, "Two network namespaces, joined by a veth pair:\n\n    %s %s %s  ────  %s %s %s\n\n",
		left.Device, left.IPv4.Addr(), left.IPv6.Addr(), right.Device, right.IPv4.Addr(), right.IPv6.Addr())
	fmt.Fprintf(w, "What leaves %s is policed (hook %v), as by this command, until the demo ends:\n\n%s\n\n",
		left.Device, policer.Mechanism, folded(command(left.Device, loader.Egress, words), "    ", width))
	fmt.Fprintf(w, "Flows under, near and over the rate, all at once for %v, each with a bucket of its own.\n"+
		"The policer counts every try of TCP, which sends again what was red:\n\n", during)
}

// printFlows prints what the policer's counters say of each flow.
func printFlows(w io.Writer, e *evidence) {
	t := numbers(w)
	fmt.Fprintln(t, "  "+pad("flow", flowWidth)+"\tpackets\tgreen\tyellow\tred\tlet through\t")
	for i := range e.flows {
		f := &e.flows[i]
		through, bytes := f.through()
		fmt.Fprintf(t, "  %s\t%s\t", pad(f.flow.String(), flowWidth), units.FormatCount(through+f.packets[marker.Red]))
		for _, n := range f.packets {
			fmt.Fprintf(t, "%s\t", units.FormatCount(n))
		}
		fmt.Fprintf(t, "%s\t\n", units.FormatMeanRate(bytes*uint64(time.Second)/max(1, uint64(f.took))))
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
The proof: what a capture at right0 and the receivers counted, packet by packet as on a wire, and
what that should be by the policer's counters, or by its promise (T: the time that a flow took).

`)
	t := numbers(w)
	fmt.Fprintf(t, "  %s\tright0\t\tshould be\t  checks\n", pad("", claimWidth))
	total := 0
	for i := range claims {
		c := &claims[i]
		var sum check
		var bad []check
		for _, k := range c.checks {
			sum.far += k.far
			sum.want += k.want
			if !c.holds(k) {
				bad = append(bad, k)
			}
		}
		verdict := fmt.Sprintf("%d agree", len(c.checks))
		if len(bad) > 0 {
			verdict = fmt.Sprintf("%d of %d DISAGREE", len(bad), len(c.checks))
		}
		row(t, c.what, sum, c.how, verdict)
		for _, k := range bad {
			row(t, "  "+k.of, k, broken[c.how], "DISAGREE")
		}
		total += len(c.checks)
		disagreeing += len(bad)
	}
	t.Flush()
	if disagreeing == 0 {
		fmt.Fprintf(w, "\ndemo: all %d checks agree\n", total)
	} else {
		fmt.Fprintf(w, "\ndemo: %d of %d checks disagree\n", disagreeing, total)
	}
	return disagreeing
}

// broken is how the numbers stand to each other where a claim fails.
var broken = map[relation]relation{equal: "≠", atMost: ">", atLeast: "<"}

func row(w io.Writer, what string, k check, how relation, verdict string) {
	fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t  %s\n", pad(what, claimWidth), units.FormatCount(k.far), how, units.FormatCount(k.want), verdict)
}

// claimWidth is that of the longest claim.
const claimWidth = 45
