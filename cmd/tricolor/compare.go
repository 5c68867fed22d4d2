package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/tricolor-policer/tricolor/contract"
	"github.com/tricolor-policer/tricolor/internal/units"
	"github.com/tricolor-policer/tricolor/marker"
)

func newCompare() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "compare FILE… | --scenario NAME | --audit",
		Short: "Run the same arrivals through six contracts: token bucket, GCRA, windows, log, shaper",
		Long: `Compare runs the packets of each FILE (a pcap or pcapng capture, or a CSV trace), or a made-up scenario, through
six contracts that all promise the same rate, and prints what each let through:

  token bucket         the policer's own token meter: B + rT in every interval T
  GCRA                 one timestamp (TAT); the token bucket under another name, request by request
  fixed window         rate × window in each window, windows aligned at time 0
  sliding log          rate × window in every window; every admission is remembered
  sliding counter      two counters; the previous window's is weighted by its overlap
  leaky bucket shaper  a queue, sent at the rate; admits while the wait is at most queue / rate

The table says how much each admitted, the most that went on in any window, by how much the worst interval was
over B + rT, the longest wait, and the bytes kept for a key. Rate, burst and queue are all in packets (5pps, 8pkt)
or all in bytes (10mbit, 96KiB): the bytes of IP packets. Scenarios follow them: edge (a group on each side of a
window's edge, then a late one), burst (twice the burst at once, three times), steady (three windows at just the
rate) and herd (a window's quota in the same instant, three times); counted in bytes, a packet has 1500. Without flags
they are of 5pps, 8pkt, 6s and 18pkt. It needs no privilege.

With --audit the algorithms themselves are checked: 324 cases, 8 checks each.`,
		Example: `  tricolor compare --scenario edge
  tricolor compare --scenario edge --plot edge.svg
  tricolor compare --scenario herd --rate 10mbit --burst 96KiB --window 1s --queue 192KiB
  tricolor compare video.pcap --rate 10mbit --burst 96KiB --window 1s --per src
  tricolor compare video.pcap --rate 100pps --burst 20pkt -o json
  tricolor compare --audit`,
	}
	c := &comparer{scenario: &choice{words: scenarioNames()}}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.Var(c.scenario, "scenario", "make up the arrivals: "+oneOf(scenarioNames()))
	flags.StringVar(&c.rate, "rate", "", "`RATE` that all contracts promise (a scenario's default: 5pps)")
	flags.StringVar(&c.burst, "burst", "", "burst `SIZE` of token bucket and GCRA (a scenario's default: 8 packets)")
	c.window = period(6 * time.Second)
	flags.Var(&c.window, "window", "`TIME` that a window takes")
	flags.StringVar(&c.queue, "queue", "", "queue `SIZE` of the shaper (default: the burst; a scenario's: 18 packets)")
	flags.StringVar(&c.per, "per", "whole", "`KEY`, who shares a contract: whole, flow, src, dst, src/24,56, dst/24,56, vlan or dscp")
	flags.StringVar(&c.flows, "flows", "", "tell `N` keys of captures apart, rounded up to a power of two (default 1M)")
	flags.BoolVar(&c.audit, "audit", false, "check the algorithms in 324 cases; exit with 0 only if all checks pass")
	c.plot = addPlot(cmd, "what each contract let through over time, beside B + rT")
	c.output = addOutput(cmd, "table", "json")
	cmd.RunE = func(cmd *cobra.Command, files []string) error {
		c.stdout, c.stderr, c.changed = cmd.OutOrStdout(), cmd.ErrOrStderr(), cmd.Flags().Changed
		return c.run(cmd.Context(), files)
	}
	return cmd
}

func scenarioNames() (names []string) {
	for _, s := range contract.Scenarios {
		names = append(names, s.Name)
	}
	return names
}

// comparer is the compare command.
type comparer struct {
	scenario           *choice
	rate, burst, queue string
	window             period
	per, flows         string
	audit              bool
	plot               *plotFlag
	output             *choice
	stdout, stderr     io.Writer
	changed            func(flag string) bool
	terms              compareTerms
}

// compared is one input's outcome.
type compared struct {
	scenario    string
	file        string
	err         error // what ended a file early
	first, last uint64
	*contract.Comparison
	remarks []string
	curves  *compareCurves // where a plot is asked for
}

func (c *comparer) run(ctx context.Context, files []string) error {
	if c.audit {
		return c.runAudit(files)
	}
	if err := c.check(files); err != nil {
		return err
	}
	var err error
	if c.terms, err = c.readTerms(); err != nil {
		return err
	}
	if c.scenario.word != "" {
		run, err := c.runScenario()
		if err != nil {
			return err
		}
		if err := c.savePlot(run); err != nil {
			return err
		}
		return c.report([]*compared{run})
	}
	var runs []*compared
	failed := false
	for _, file := range files {
		run, err := c.runFile(ctx, file)
		if errors.Is(err, context.Canceled) || isUsage(err) || exitCode(err) == exitUsage || len(files) == 1 && run == nil {
			return err
		}
		if run == nil {
			run = &compared{file: file}
		}
		if run.err = err; err == nil {
			if err := c.savePlot(run); err != nil {
				return err
			}
		}
		runs = append(runs, run)
	}
	if err := c.report(runs); err != nil {
		return err
	}
	for _, run := range runs {
		if run.err != nil {
			say(c.stderr, oneLined(run.err.Error(), files))
			failed = true
		}
	}
	if failed {
		return errReported
	}
	return nil
}

// check refuses what does not go together.
func (c *comparer) check(files []string) error {
	switch scenario := c.scenario.word; {
	case scenario == "" && len(files) == 0:
		return usage("name a FILE, or say --scenario %s, or --audit", oneOf(scenarioNames()))
	case scenario != "" && len(files) > 0:
		return usage("--scenario %s makes up its arrivals: leave out %s, or leave out --scenario", scenario, files[0])
	case scenario != "" && (c.changed("per") || c.changed("flows")):
		return usage("--scenario %s has one key: leave out --per and --flows", scenario)
	case scenario == "" && (c.rate == "" || c.burst == ""):
		return usage("say what is promised: --rate and --burst, as in --rate 10mbit --burst 96KiB, or --rate 100pps --burst 20pkt")
	case c.plot.given() && len(files) > 1:
		return usage("--plot takes one FILE, and %d are given: compare them one by one", len(files))
	case c.plot.given() && c.per != "whole":
		return usage("--plot draws one key: leave out --per %s, or leave out --plot", c.per)
	}
	return c.plot.check()
}

// report prints all inputs.
func (c *comparer) report(runs []*compared) error {
	if c.output.word == "json" {
		return printJSON(c.stdout, c.json(runs))
	}
	fmt.Fprintln(c.stdout, c.terms)
	for _, run := range runs {
		if run.Comparison == nil {
			continue
		}
		if err := c.print(run); err != nil {
			return err
		}
	}
	return nil
}

// begin makes an input's comparison, and its curves where they are to be drawn.
func (c *comparer) begin(run *compared) (err error) {
	if run.Comparison, err = contract.New(c.terms.Params); err != nil {
		return err
	}
	if c.plot.given() {
		run.curves = &compareCurves{}
		run.Admitted = run.curves.admit
	}
	return nil
}

func (run *compared) arrive(key marker.Key, a contract.Arrival) {
	if run.curves != nil {
		run.curves.arrive(a)
	}
	run.Arrive(key, a)
}

// scenarioPacket is what a packet of a scenario costs where bytes are counted.
const scenarioPacket = 1500

func (c *comparer) runScenario() (*compared, error) {
	run := &compared{scenario: c.scenario.word}
	size := uint64(1)
	if !c.terms.packets {
		size = scenarioPacket
	}
	for _, s := range contract.Scenarios {
		if s.Name != run.scenario {
			continue
		}
		arrivals, err := s.Arrivals(c.terms.Params, size)
		if err != nil {
			return nil, &usageError{err}
		}
		run.remarks = []string{s.Why}
		if err := c.begin(run); err != nil {
			return nil, err
		}
		run.first, run.last = arrivals[0].Time, arrivals[len(arrivals)-1].Time
		for _, a := range arrivals {
			run.arrive(oneKey, a)
		}
	}
	return run, nil
}

// compareTerms are the contract as it was read.
type compareTerms struct {
	contract.Params
	packets bool // units are packets, else bytes
}

// String says what is promised.
func (t compareTerms) String() string {
	return fmt.Sprintf("rate %s, burst %s, window %s (%s), queue %s (%s)", units.FormatRate(t.Rate, t.packets), t.size(t.Burst),
		shortTime(t.Window), t.size(t.Quota()), t.size(t.Queue), shortTime(mulDivUp(t.Queue, t.Rate)))
}

func (t compareTerms) size(n uint64) string {
	return units.Size{Amount: n, Packets: t.packets}.String()
}

// readTerms reads rate, burst, window and queue, and fills in the defaults.
func (c *comparer) readTerms() (t compareTerms, err error) {
	rate := units.Rate{PerSecond: 5, Packets: true}
	if c.rate != "" {
		if rate, err = units.ParseRate(c.rate); err != nil {
			return t, usage("--rate: %w", err)
		}
	}
	t.packets, t.Rate, t.Window = rate.Packets, rate.PerSecond, uint64(max(0, c.window))
	packet := uint64(1)
	if !t.packets {
		packet = scenarioPacket
	}
	if t.Burst, err = t.readSize("burst", c.burst, 8*packet); err != nil {
		return t, err
	}
	queue := t.Burst
	if c.scenario.word != "" {
		queue = 18 * packet
	}
	if t.Queue, err = t.readSize("queue", c.queue, queue); err != nil {
		return t, err
	}
	if err := t.Check(); err != nil {
		return t, &usageError{err}
	}
	return t, nil
}

// readSize reads a size in the rate's unit, or a time at the rate.
func (t compareTerms) readSize(flag, word string, standard uint64) (uint64, error) {
	if word == "" {
		return standard, nil
	}
	size, err := units.ParseSize(word)
	if err != nil {
		return 0, usage("--%s: %w", flag, err)
	}
	if !size.IsTime && size.Packets != t.packets {
		return 0, usage("--%s %s and a rate of %s count different things: give both in packets (5pps, 8pkt) or both in bytes (10mbit, 96KiB)",
			flag, word, units.FormatRate(t.Rate, t.packets))
	}
	n, err := size.At(t.Rate)
	if err != nil {
		return 0, usage("--%s: %w", flag, err)
	}
	return n, nil
}
