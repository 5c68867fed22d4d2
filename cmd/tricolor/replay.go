package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/tricolor-policer/tricolor/internal/capture"
	"github.com/tricolor-policer/tricolor/marker"
	"github.com/tricolor-policer/tricolor/pcaptest"
	"github.com/tricolor-policer/tricolor/policy"
)

// defaultSeed is the table's seed of a replay, so that every replay of a file is the same.
const defaultSeed = 1

func newReplay() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "replay FILE…",
		Short: "Run captures or CSV traces through the policer, without the kernel",
		Long: `Replay runs each FILE through the policer and prints what became of its packets, by class, colour and bucket.
A FILE is a pcap or pcapng capture, or a CSV trace (time_ns,bytes[,color]; one bucket for all), gzipped or
not. Each is a run of its own. It needs no privilege.
` + policyHelp + thenHelp,
		Example: `  tricolor replay video.pcap -f policy.yaml
  tricolor replay video.pcap -f policy.yaml --then +12.5s=new.yaml
  tricolor replay video.pcap --meter srtcm --cir 10mbit --cbs 96KiB --ebs 192KiB --yellow dscp=af12
  tricolor replay video.pcap --meter trtcm --cir 5mbit --cbs 64KiB --pir 10mbit --pbs 128KiB --packets rows.csv
  tricolor replay video.pcap --meter token --cir 8mbit --cbs 20ms --per src --write marked.pcap
  tricolor replay video.pcap --meter token --cir 8mbit --cbs 20ms --plot video.html`,
		Args: needFiles,
	}
	r := &replayer{flags: addPolicy(cmd.Flags(), defaultSeed, "seed of the table's hash")}
	addThen(cmd.Flags(), &r.then)
	r.output = addOutput(cmd, "table", "json")
	r.plot = addPlot(cmd, "rate by colour, one bucket's tokens and its envelope")
	r.top = 10
	cmd.Flags().Var(&r.top, "top", "how many flows to print, busiest first")
	cmd.Flags().StringVar(&r.write, "write", "", "write what would come out to this pcap `FILE`")
	cmd.Flags().StringVar(&r.packets, "packets", "", "write a row for each packet to this CSV `FILE`")
	cmd.RunE = func(cmd *cobra.Command, files []string) error {
		r.stdout, r.stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
		return r.run(cmd.Context(), files)
	}
	return cmd
}

// replayer is the replay command.
type replayer struct {
	flags          *policyFlags
	then           thens
	output         *choice
	plot           *plotFlag
	top            plain
	write, packets string
	stdout, stderr io.Writer
	plan           *marker.Plan
}

func (r *replayer) run(ctx context.Context, files []string) error {
	if err := r.plot.check(); err != nil {
		return err
	}
	p, plan, err := r.flags.compile()
	if err != nil {
		return err
	}
	r.plan = plan
	warnPolicy(r.stderr, p, policy.Link{})
	if err := r.then.compile(r.flags, plan, r.stderr); err != nil {
		return err
	}
	for flag, path := range map[string]string{"write": r.write, "packets": r.packets, "plot": r.plot.path} {
		if path != "" && len(files) > 1 {
			return usage("--%s takes one FILE, and %d are given: replay them one by one", flag, len(files))
		}
	}
	if r.write != "" && r.write == r.packets {
		return usage("--write and --packets name the same file %s: name two", r.write)
	}
	if r.plot.given() && (r.plot.path == r.write || r.plot.path == r.packets) {
		return usage("--plot and --write or --packets name the same file %s: name two", r.plot.path)
	}
	asJSON := r.output.word == "json"
	report := replayReport{Policy: policy.Describe(plan), Seed: uint64(*r.flags.seed), Files: []replayFile{}}
	for _, c := range r.then {
		report.Then = append(report.Then, thenJSON{c.word, c.file, policy.Describe(c.plan), changesOf(c.changes)})
	}
	top := int(min(r.top, 1<<30))
	failed, described := false, false
	for _, file := range files {
		result, err := r.file(ctx, file)
		if errors.Is(err, context.Canceled) || isUsage(err) || len(files) == 1 && result == nil {
			return err
		}
		if result != nil && (err == nil || result.Records > 0) {
			for _, line := range r.warnings(result) {
				warn(r.stderr, "%s: %s", printable(file), line)
			}
			if !asJSON {
				if !described {
					r.printPolicy()
					described = true
				}
				if err := r.print(result, top); err != nil {
					return err
				}
			}
		}
		report.Files = append(report.Files, r.json(file, result, err, top))
		if err != nil {
			say(r.stderr, oneLined(err.Error(), files))
			failed = true
		}
	}
	if asJSON {
		if err := printJSON(r.stdout, report); err != nil {
			return err
		}
	}
	if failed {
		return errReported
	}
	return nil
}

// file replays one file, into the files that --write and --packets name. With a cut capture it returns
// both what came before the cut, and the cut.
func (r *replayer) file(ctx context.Context, file string) (result *pcaptest.Replay, err error) {
	kind, err := capture.Sniff(file)
	if err != nil {
		return nil, err
	}
	replay := pcaptest.ReplayCapture
	if kind == capture.KindTrace {
		if r.write != "" {
			return nil, fmt.Errorf("%s: %w: --write takes a capture", file, pcaptest.ErrTrace)
		}
		if len(r.then) > 0 {
			return nil, fmt.Errorf("%s: %w: --then takes a capture", file, pcaptest.ErrTrace)
		}
		if c := &r.plan.Classes[0]; len(r.plan.Classes) > 1 || len(c.Meters) > 1 {
			warn(r.stderr, "%s: is a CSV trace: its bytes are the cost, in one bucket of the first meter of class %s; the rest of the policy plays no part",
				printable(file), printable(c.Name))
		}
		if w := &r.flags.words; w.Per != "" || w.Count != "" || w.Overhead != "" {
			warn(r.stderr, "%s: is a CSV trace: its bytes are the cost, in one bucket; --per, --count and --overhead play no part", printable(file))
		}
		replay = pcaptest.ReplayTrace
	}
	changes, err := r.then.resolve(file)
	if err != nil {
		return nil, err
	}
	var outs outputs
	defer func() { err = errors.Join(err, outs.discard()) }()
	if err := outs.open(r, file); err != nil {
		return nil, err
	}
	bar := newProgress(r.stderr, file)
	var stopped error // by an output
	options := pcaptest.ReplayOptions{
		Plan: r.plan, Seeds: marker.SeedsFrom(uint64(*r.flags.seed)), Then: changes, Progress: bar.at,
	}
	if len(outs.writers) > 0 {
		options.Each = func(s *pcaptest.Step) error {
			stopped = outs.write(s)
			return stopped
		}
	}
	result, err = replay(ctx, file, options)
	bar.close()
	if stopped != nil {
		return nil, fmt.Errorf("%s: %w", file, stopped)
	}
	if err != nil && (result == nil || ctx.Err() != nil) {
		return nil, err
	}
	if err = errors.Join(err, outs.commit(file)); r.plot.given() {
		err = errors.Join(err, r.draw(ctx, file, replay, options, result))
	}
	return result, err
}

// outputs are the files that are written during a replay.
type outputs struct {
	files   []*outFile
	writers []func(*pcaptest.Step) error
	flushes []func(input string) error
}

func (o *outputs) open(r *replayer, input string) error {
	if r.write != "" {
		f, err := createOut("write", r.write, input)
		if err != nil {
			return err
		}
		m := &markedCapture{w: f}
		o.add(f, m.write, m.flush)
	}
	if r.packets != "" {
		f, err := createOut("packets", r.packets, input)
		if err != nil {
			return err
		}
		rows, err := newPacketRows(f, longestChain(r.then.plans(r.plan)))
		o.add(f, rows.write, func(string) error { return rows.flush() })
		return err
	}
	return nil
}

func (o *outputs) add(f *outFile, write func(*pcaptest.Step) error, flush func(string) error) {
	o.files = append(o.files, f)
	o.writers = append(o.writers, write)
	o.flushes = append(o.flushes, flush)
}

func (o *outputs) write(s *pcaptest.Step) error {
	for _, write := range o.writers {
		if err := write(s); err != nil {
			return err
		}
	}
	return nil
}

// commit puts all files in their places.
func (o *outputs) commit(input string) error {
	for _, flush := range o.flushes {
		if err := flush(input); err != nil {
			return err
		}
	}
	files := o.files
	o.files = nil
	var errs []error
	for _, f := range files {
		errs = append(errs, f.commit())
	}
	return errors.Join(errs...)
}

// discard leaves nothing behind of what was not committed.
func (o *outputs) discard() error {
	var errs []error
	for _, f := range o.files {
		errs = append(errs, f.discard())
	}
	return errors.Join(errs...)
}
