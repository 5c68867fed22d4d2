package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/tricolor-policer/tricolor/internal/capture"
	"github.com/tricolor-policer/tricolor/marker"
	"github.com/tricolor-policer/tricolor/pcaptest"
	"github.com/tricolor-policer/tricolor/policy"
)

func newWhatIf() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "whatif OLD.yaml NEW.yaml FILE…",
		Short: "Compare two policies on captured traffic: who gains, who loses",
		Long: `Whatif runs each FILE (pcap or pcapng, gzipped or not) through two policies, and says packet by packet what would be
otherwise: what is newly red, and what is red no more. It prints each class, then the keys that are hit most, with
their packets and bytes by colour before and after; those that lose most come first.

A class is known by its name, a key by its class and fields; where a packet is of another class or key under the new
policy, what is newly red counts there. Bytes are those of the frames, whatever the classes count, so that both
sides are of one measure. Dropped as malformed counts as red. Several FILEs are several runs, and are added up.`,
		Example: `  tricolor whatif old.yaml new.yaml video.pcap
  tricolor whatif old.yaml new.yaml video.pcap --top 3 --plot whatif.html
  tricolor whatif old.yaml new.yaml monday.pcap tuesday.pcap -o json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 3 {
				return usage("name two policies and a FILE; %q says more", cmd.CommandPath()+" --help")
			}
			return nil
		},
	}
	w := &whatIf{top: 10, seed: defaultSeed, rows: map[entity]*whatRow{}}
	cmd.Flags().Var(&w.top, "top", "how many keys to print, those that lose most first")
	cmd.Flags().Var(&w.seed, "seed", "seed of the tables' hash")
	w.plot = addPlot(cmd, "the rates by colour of both, and what is newly red")
	w.output = addOutput(cmd, "table", "json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		w.sides[0].file, w.sides[1].file, w.files = args[0], args[1], args[2:]
		w.stdout, w.stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
		return w.run(cmd.Context())
	}
	return cmd
}

// whatIf is the whatif command. Of its two sides the first is before, the second after.
type whatIf struct {
	sides          [2]whatSide
	files          []string
	top, seed      plain
	plot           *plotFlag
	output         *choice
	stdout, stderr io.Writer

	changes []policy.Change // nil: they cannot be told
	rows    map[entity]*whatRow
	all     whatRow
	records uint64
	span    uint64 // ns
	shifts  *shiftBins
	failed  bool
}

// whatSide is one of the policies.
type whatSide struct {
	file  string
	plan  *marker.Plan
	names *bucketNames
	rates *rateBins // nil: nothing is drawn
}

// end is what becomes of a packet: a colour, or one of the others.
type end uint8

const (
	endPassed  = end(marker.Red) + 1 + iota // no meter saw it
	endDropped                              // malformed
	ends
)

// endOf is what became of a packet.
func endOf(out *marker.Outcome) end {
	switch {
	case out.Kind == marker.Metered:
		return end(out.Color)
	case out.Dropped:
		return endDropped
	}
	return endPassed
}

// lost reports whether a packet of the end is red, or as bad.
func (f end) lost() bool { return f == end(marker.Red) || f == endDropped }

// rank orders ends from good to bad.
func (f end) rank() int {
	switch {
	case f == endPassed:
		return 0
	case f.lost():
		return 2
	}
	return int(f)
}

// entity is a class, or a key of it. key is empty for the class itself.
type entity struct{ class, key string }

// whatRow is what an entity's packets met.
type whatRow struct {
	ends          [2][ends]countJSON // before and after
	newly, noMore countJSON          // red
	worse, better countJSON          // between green and yellow
	before, after bool               // there were packets of it
}

func (c *countJSON) add(bytes uint64) {
	c.Packets++
	c.Bytes += bytes
}

// shift counts a packet that went from one end to another.
func (r *whatRow) shift(from, to end, bytes uint64) {
	switch {
	case to.lost() && !from.lost():
		r.newly.add(bytes)
	case from.lost() && !to.lost():
		r.noMore.add(bytes)
	case to.rank() > from.rank():
		r.worse.add(bytes)
	case to.rank() < from.rank():
		r.better.add(bytes)
	}
}

// shifts reports whether any packet had another end.
func (r *whatRow) shifts() bool {
	return r.newly.Packets+r.noMore.Packets+r.worse.Packets+r.better.Packets > 0
}

func (w *whatIf) run(ctx context.Context) error {
	if err := w.plot.check(); err != nil {
		return err
	}
	if w.plot.given() && len(w.files) > 1 {
		return usage("--plot takes one FILE, and %d are given: compare them one by one", len(w.files))
	}
	if err := w.compile(); err != nil {
		return err
	}
	for _, file := range w.files {
		if err := w.file(ctx, file); err != nil {
			return err
		}
	}
	if w.plot.given() {
		if err := w.plot.save(w.figure(), w.files[0], w.sides[0].file, w.sides[1].file); err != nil {
			return err
		}
	}
	var err error
	if w.output.word == "json" {
		err = printJSON(w.stdout, w.json())
	} else {
		err = w.print()
	}
	if err == nil && w.failed {
		return errReported
	}
	return err
}

// compile reads both policies.
func (w *whatIf) compile() error {
	var read [2]*policy.Policy
	for i := range w.sides {
		side := &w.sides[i]
		var err error
		if read[i], side.plan, err = compileFile(side.file); err != nil {
			return err
		}
		warnPolicy(w.stderr, read[i], policy.Link{})
		side.names = newBucketNames(side.plan)
		side.names.single = false
	}
	// Where one cannot follow the other in place (another size of the table), they can be compared all the same.
	if next, err := read[1].CompileAfter(w.sides[0].plan); err == nil {
		w.changes = policy.Diff(w.sides[0].plan, next)
		for i := range w.changes {
			c := &w.changes[i]
			c.Text = c.What // each policy has run from the start: no bucket is carried over
		}
	}
	return nil
}

// file runs one file through both policies.
func (w *whatIf) file(ctx context.Context, file string) error {
	kind, err := capture.Sniff(file)
	if err != nil {
		return err
	}
	if kind == capture.KindTrace {
		return fmt.Errorf("%s: %w: whatif takes a capture", file, pcaptest.ErrTrace)
	}
	if w.plot.given() {
		result, err := pcaptest.ReplayCapture(ctx, file, pcaptest.ReplayOptions{Plan: w.sides[0].plan, Seeds: w.seeds()})
		if result == nil || ctx.Err() != nil {
			return err
		}
		for i := range w.sides {
			w.sides[i].rates = newRateBins(result.First, result.Last)
			w.sides[i].rates.packets = false
		}
		w.shifts = newShiftBins(w.sides[0].rates)
	}
	var before []end // of each packet
	for i := range w.sides {
		t := &whatTally{w: w, side: i, rows: map[marker.Key]*whatRow{}, before: before}
		bar := newProgress(w.stderr, file)
		result, err := pcaptest.ReplayCapture(ctx, file, pcaptest.ReplayOptions{
			Plan: w.sides[i].plan, Seeds: w.seeds(), Each: t.add, Progress: bar.at,
		})
		bar.close()
		if err != nil && (result == nil || result.Records == 0 || ctx.Err() != nil) {
			return err
		}
		before = t.before
		if i == 0 {
			continue
		}
		if err != nil {
			say(w.stderr, oneLined(err.Error(), w.files))
			w.failed = true
		}
		for _, line := range clockWarnings(result) {
			warn(w.stderr, "%s: %s", printable(file), line)
		}
		w.records += uint64(result.Records)
		w.span += result.Span()
	}
	return nil
}

func (w *whatIf) seeds() marker.Seeds { return marker.SeedsFrom(uint64(w.seed)) }
