package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/tricolor-policer/tricolor/loader"
	"github.com/tricolor-policer/tricolor/record"
)

func newRecord() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "record DEV -w FILE",
		Short: "Record every decision of a policed device in a file (root)",
		Long: `Record writes what the policer of DEV decides of each packet to FILE: when, of which class and bucket, what it
cost, in which colour it came and went, and what its buckets held then. It ends after --for or --count, with
^C, or when another program takes the place of the policer; FILE then appears, whole. What could not be kept up with
is counted in it as lost. "tricolor certify FILE" proves from it that the policer kept its contract.

While nobody records, a packet pays for reading one word. A recorder that is killed leaves nothing in the
kernel, and no FILE: what it had written is in .FILE.PID.part beside it. One at a time records a device and direction. It takes
CAP_SYS_ADMIN besides what attach does.`,
		Example: "  sudo tricolor record eth0 -w decisions.rec --for 10s\n  tricolor certify decisions.rec",
		Args:    needDevice,
	}
	r := recording{sample: 1, buffer: 16 << 20}
	flags := cmd.Flags()
	flags.StringVarP(&r.path, "write", "w", "", "the `FILE` to write")
	direction := addDirection(cmd)
	addFor(cmd, &r.during, "record")
	flags.Var(&r.most, "count", "end after so many records, and those decided meanwhile; 0: any number")
	flags.Var(&r.sample, "sample", "record one decision in so many; certify then finds the record incomplete")
	flags.Var(&r.buffer, "buffer", "bytes between kernel and recorder for each CPU, a power of two from 4096")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r.stderr = cmd.ErrOrStderr()
		if err := r.check(); err != nil {
			return err
		}
		return found(args[0], direction, func(a *loader.Attachment) error { return r.run(cmd.Context(), a) })
	}
	return cmd
}

// addFor adds --for.
func addFor(cmd *cobra.Command, d *time.Duration, what string) {
	cmd.Flags().DurationVar(d, "for", 0, what+" for so long, as 10s; 0: until ^C")
}

// whileFor is a context that ends after d, if that is not 0, or with ctx.
func whileFor(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d > 0 {
		return context.WithTimeout(ctx, d)
	}
	return context.WithCancel(ctx)
}

// recording is the record command.
type recording struct {
	path                 string
	during               time.Duration
	most, sample, buffer plain
	stderr               io.Writer
}

func (r *recording) check() error {
	switch {
	case r.path == "":
		return usage("name the FILE to write with -w FILE")
	case r.during < 0:
		return usage("--for %v: has passed", r.during)
	case r.sample == 0 || r.sample > math.MaxUint32:
		return usage("--sample %d: say one in how many, from 1 (all)", r.sample)
	case r.buffer < 4096 || r.buffer > 1<<30 || r.buffer&(r.buffer-1) != 0:
		return usage("--buffer %d: say a power of two from 4096 to %d", r.buffer, 1<<30)
	}
	return nil
}

func (r *recording) run(ctx context.Context, a *loader.Attachment) error {
	out, err := createOut("write", r.path, "")
	if err != nil {
		return err
	}
	ctx, cancel := whileFor(ctx, r.during)
	defer cancel()
	end, err := a.Record(ctx, out, loader.RecordOptions{
		Version: versionText(), Sample: uint32(r.sample), Most: uint64(r.most), Ring: int(r.buffer),
	}, func() { say(r.stderr, fmt.Sprintf("recording %s %v", a.Device, a.Direction())) })
	if err != nil {
		return errors.Join(err, out.discard())
	}
	if err := out.commit(); err != nil {
		return err
	}
	say(r.stderr, r.sum(&end))
	return nil
}

// sum says how a recording came out.
func (r *recording) sum(end *record.End) string {
	text := fmt.Sprintf("%s: %s, ended since %s", r.path, plural(end.Records, "decision", "decisions"), end.Reason)
	if end.LeftOut > 0 {
		text += "; left out by --sample: " + plural(end.LeftOut, "decision", "decisions")
	}
	if end.Lost > 0 {
		text += "; LOST, since they came too fast: " + plural(end.Lost, "decision", "decisions") + " (a larger --buffer holds more)"
	}
	return text
}
