package main

import (
	"context"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tricolor-policer/tricolor/fit"
	"github.com/tricolor-policer/tricolor/internal/units"
	"github.com/tricolor-policer/tricolor/marker"
)

func newFit() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fit FILE…",
		Short: "Find the least burst that captured traffic needs, at any rate",
		Long: `Fit reads captures (pcap, pcapng) or CSV traces (time_ns,bytes), gzipped or not, and says for each rate the
least burst with which not one packet is red: exactly, to the byte. It marks the curve's knee, takes it (or --cir),
and prints a policy that "tricolor check" accepts: replaying the same files with it, nothing is red; with one byte
less, something is.

Several FILEs are several runs, each with buckets that start full; the burst is enough for each of them.

It fits all IP packets as one, each class of a policy (-f), or each key (--per): then the burst is what the worst key
needs, and the busiest keys are shown with what they need themselves. A class of a policy has the keys of its first
meter, unless --per says others; what else the policy says of meters plays no part.

--loss finds the least burst with which at most that part is red, by running the token meter itself; --loss-of says
whether packets or bytes are meant. --rtt, --mtu and --gso add what the files do not show.`,
		Example: `  tricolor fit video.pcap
  tricolor fit video.pcap --cir 2mbit --rtt 40ms --gso 64KiB
  tricolor fit video.pcap --per flow --top 5 --plot curve.html
  tricolor fit monday.pcap tuesday.pcap --cir 10mbit --loss 0.1%
  tricolor fit video.pcap -f policy.yaml -o policy > fitted.yaml`,
		Args: needFiles,
	}
	f := &fitter{}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVarP(&f.policy, "policy", "f", "", "fit each class of this policy `FILE`")
	flags.StringVar(&f.class, "class", "", "fit only this `CLASS` of the policy")
	flags.StringVar(&f.per, "per", "", "`KEY` of a bucket: class (one for all), flow, src, dst, src/24,56, dst/24,56, vlan or dscp (default class; with -f as the class's first meter says)")
	flags.StringVar(&f.count, "count", "", "`UNIT` of a packet's cost: l3, l2, l1 or packets (default l3; with -f as the class says)")
	flags.StringVar(&f.overhead, "overhead", "", "add `N` (also negative) to each packet's cost")
	f.top = 10
	flags.Var(&f.top, "top", "how many keys to print, busiest first")
	flags.StringVar(&f.cir, "cir", "", "find the burst for this `RATE`, in place of the knee")
	flags.StringVar(&f.loss, "loss", "", "let this `PART` be red: 0.1%")
	f.lossOf = newChoice("packets", "bytes")
	flags.Var(f.lossOf, "loss-of", "what --loss is a part of: packets or bytes")
	flags.StringVar(&f.rtt, "rtt", "", "add a TCP window: rate × this round-trip `TIME`, such as 40ms")
	flags.StringVar(&f.mtu, "mtu", "", "add a packet of this `SIZE`, such as 1500B")
	flags.StringVar(&f.gso, "gso", "", "add a super-packet (GRO, GSO) of this `SIZE`, such as 64KiB, with the headers of its segments (of --mtu, else 1500B)")
	f.plot = addPlot(cmd, "the least burst for each rate")
	f.output = addOutput(cmd, "table", "json", "policy")
	cmd.RunE = func(cmd *cobra.Command, files []string) error {
		f.files, f.stdout, f.stderr = files, cmd.OutOrStdout(), cmd.ErrOrStderr()
		return f.run(cmd.Context())
	}
	return cmd
}

// fitter is the fit command.
type fitter struct {
	policy, class, per, count, overhead string
	cir, loss, rtt, mtu, gso            string
	lossOf, output                      *choice
	top                                 plain
	plot                                *plotFlag
	files                               []string
	stdout, stderr                      io.Writer

	allowed          *big.Rat // part that may be red; nil: nothing
	rate             *units.Rate
	rttNS            uint64
	mtuSize, gsoSize uint64
	study            *study
}

func (f *fitter) run(ctx context.Context) error {
	if err := f.parse(); err != nil {
		return err
	}
	var err error
	if f.study, err = f.newStudy(); err != nil {
		return err
	}
	if err := f.study.survey(ctx); err != nil {
		return err
	}
	for _, t := range f.study.targets {
		if err := f.plan(t); err != nil {
			return err
		}
	}
	if err := f.study.measure(ctx); err != nil {
		return err
	}
	fitted := 0
	for _, t := range f.study.targets {
		if t.packets == 0 {
			continue
		}
		fitted++
		if err := f.choose(ctx, t); err != nil {
			return err
		}
	}
	if fitted == 0 {
		return fmt.Errorf("%s: no packet that could be fitted", strings.Join(f.files, ", "))
	}
	text, err := f.fragment()
	if err != nil {
		return err
	}
	if f.plot.given() {
		if err := f.plot.save(f.figure(), append(slices.Clone(f.files), f.policy)...); err != nil {
			return err
		}
	}
	switch f.output.word {
	case "json":
		err = printJSON(f.stdout, f.json(text))
	case "policy":
		_, err = io.WriteString(f.stdout, text)
	default:
		err = f.print(text)
	}
	if err == nil && f.study.failed {
		err = errReported
	}
	return err
}

// parse reads the flags' words.
func (f *fitter) parse() error {
	if err := f.plot.check(); err != nil {
		return err
	}
	if f.policy == "" && f.class != "" {
		return usage("--class is of a policy: name it with -f FILE")
	}
	if f.policy != "" && (f.count != "" || f.overhead != "") {
		return usage("-f %s says how packets count: leave out --count and --overhead", f.policy)
	}
	if f.cir != "" {
		rate, err := units.ParseRate(f.cir)
		if err != nil {
			return usage("--cir: %w", err)
		}
		if rate.PerSecond == 0 {
			return usage("--cir: a rate of 0 lets no burst recover: name a greater one")
		}
		f.rate = &rate
	}
	if f.loss != "" {
		word, percent := strings.CutSuffix(strings.TrimSpace(f.loss), "%")
		part, ok := new(big.Rat).SetString(word)
		if !percent || !ok || strings.ContainsAny(word, "/eExX_") || part.Sign() < 0 || part.Cmp(big.NewRat(100, 1)) >= 0 {
			return usage("--loss: %q is no part: say a percentage from 0%% to below 100%%, such as 0.1%%", f.loss)
		}
		f.allowed = part.Quo(part, big.NewRat(100, 1))
	}
	if f.rtt != "" {
		size, err := units.ParseSize(f.rtt)
		if err != nil || !size.IsTime {
			return usage("--rtt: %q is no time: say it in ms or us, such as 40ms", f.rtt)
		}
		f.rttNS = uint64(size.Time)
	}
	for _, flag := range []struct {
		name, word string
		into       *uint64
	}{{"mtu", f.mtu, &f.mtuSize}, {"gso", f.gso, &f.gsoSize}} {
		if flag.word == "" {
			continue
		}
		size, err := units.ParseSize(flag.word)
		if err == nil && (size.IsTime || size.Packets || size.Amount == 0 || size.Amount > marker.CostMax) {
			err = fmt.Errorf("%q is no size of a packet: say bytes, such as 1500B or 64KiB, at most %d B", flag.word, marker.CostMax)
		}
		if err != nil {
			return usage("--%s: %w", flag.name, err)
		}
		*flag.into = size.Amount
	}
	return nil
}

const (
	rateSpan  = 10_000  // the greatest rate of a curve, in mean rates
	mostRates = 64      // of a curve
	leanRates = 1 << 26 // of all keys' curves together: 512 MB
)

// plan chooses the rates of a target's curve: from the mean of the busiest key on.
func (f *fitter) plan(t *target) error {
	if f.rate != nil && f.rate.Packets != t.countsPackets() {
		return usage("--cir %s: class %s counts %s: %s", f.cir, t.class.Name, t.class.Count, t.rateHelp())
	}
	if t.packets == 0 {
		return nil
	}
	if t.countsPackets() && (f.mtuSize > 0 || f.gsoSize > 0) {
		return usage("--mtu and --gso are in bytes, but class %s counts packets: leave them out", t.class.Name)
	}
	if t.per != "class" {
		t.shown = t.busiest(int(min(f.top, 1<<20)))
	}
	low := uint64(1)
	for _, k := range t.busiest(1) {
		low = max(low, meanRate(k.cost, t.span))
	}
	high := min(low, marker.MaxRate/rateSpan) * rateSpan
	if t.span == 0 { // all at once: the burst is the same at any rate
		low, high = 125_000, 125_000
	}
	if f.rate != nil {
		low, high = min(low, f.rate.PerSecond), max(high, f.rate.PerSecond)
	}
	t.rates = fit.Rates(low, high, min(max(leanRates/max(len(t.keys), 1), 8), mostRates))
	if f.rate != nil {
		if at, found := slices.BinarySearch(t.rates, f.rate.PerSecond); !found {
			t.rates = slices.Insert(t.rates, at, f.rate.PerSecond)
		}
	}
	return nil
}

// choose settles a target's rate and burst.
func (f *fitter) choose(ctx context.Context, t *target) error {
	all := t.curve.Points()
	t.points = fit.Trim(all)
	t.knee = fit.Knee(t.points)
	chosen := t.knee
	if f.rate != nil {
		chosen = slices.IndexFunc(all, func(p fit.Point) bool { return p.Rate == f.rate.PerSecond })
	}
	if chosen < 0 {
		return fmt.Errorf("class %s: at no such rate is any burst enough that a meter can hold (%s): name a greater --cir, or fewer FILEs",
			t.class.Name, units.FormatSize(marker.MaxBurst))
	}
	t.chosen = all[chosen]
	t.burst = t.chosen.Burst
	if f.allowed != nil {
		if err := f.lose(ctx, t); err != nil {
			return err
		}
	}
	t.needs = f.needs(t)
	t.cbs = t.burst
	for _, n := range t.needs {
		if n.Bytes > marker.MaxBurst || t.cbs+n.Bytes > marker.MaxBurst {
			return usage("%s comes to more than a meter can hold (%s)", n.What, units.FormatSize(marker.MaxBurst))
		}
		t.cbs += n.Bytes
	}
	return nil
}

// lose finds the least burst with which no more is red than is allowed.
func (f *fitter) lose(ctx context.Context, t *target) error {
	whole := t.packets
	if f.lossOf.word == "bytes" {
		whole = t.cost
	}
	part := new(big.Rat).Mul(f.allowed, new(big.Rat).SetInt(new(big.Int).SetUint64(whole)))
	t.allowed = new(big.Int).Quo(part.Num(), part.Denom()).Uint64()
	lost := map[uint64]fit.Loss{}
	burst, err := fit.LeastBurst(t.burst, func(bursts []uint64) ([]bool, error) {
		trials, err := f.study.try(ctx, t, bursts)
		if err != nil {
			return nil, err
		}
		good := make([]bool, len(bursts))
		for i, b := range bursts {
			lost[b] = trials.Lost(i)
			n := lost[b].Packets
			if f.lossOf.word == "bytes" {
				n = lost[b].Bytes
			}
			good[i] = n <= t.allowed
		}
		return good, nil
	})
	t.burst, t.lost = burst, lost[burst]
	return err
}

// needs are what the flags add to the burst.
func (f *fitter) needs(t *target) (needs []fit.Need) {
	if f.rttNS > 0 {
		needs = append(needs, fit.Window(t.chosen.Rate, f.rttNS))
	}
	extra := t.class.Overhead
	switch t.class.Count {
	case marker.CountL2:
		extra += 14 // Ethernet's header
	case marker.CountL1:
		extra += 38 // and preamble, FCS, gap
	}
	beside := uint64(max(extra, 0))
	switch {
	case f.gsoSize > 0 && f.mtuSize > 0:
		needs = append(needs, fit.Super(f.gsoSize, f.mtuSize, beside))
	case f.gsoSize > 0:
		needs = append(needs, fit.Super(f.gsoSize, 1500, beside))
	case f.mtuSize > 0:
		needs = append(needs, fit.Packet(f.mtuSize, beside))
	}
	return needs
}
