package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tricolor-policer/tricolor/loader"
	"github.com/tricolor-policer/tricolor/maps"
	"github.com/tricolor-policer/tricolor/marker"
)

func newMonitor() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "monitor DEV",
		Short: "Watch what a policed device drops or marks, and why (root)",
		Long: `Monitor prints a line for each red packet of DEV, or those of --only: when, its class and bucket, what it cost, what
its buckets held, how much they were short of the next better colour, and how much later it would have had that if
nothing else had come. -o json prints an object a line, with exact figures.

At most --max lines a second are printed: the others are left out in the kernel, and their number is told. While
nobody watches, a packet pays for reading one word. One at a time monitors a device and direction. It takes CAP_SYS_ADMIN
besides what attach does.`,
		Example: "  sudo tricolor monitor eth0\n  sudo tricolor monitor eth0 --only yellow,red --for 10s -o json",
		Args:    needDevice,
	}
	m := monitor{most: 100}
	flags := cmd.Flags()
	direction := addDirection(cmd)
	flags.StringVar(&m.only, "only", "red", "`COLORS` to print: some of green, yellow, red with commas")
	flags.Var(&m.most, "max", "print so many a second at most; 0: any number")
	addFor(cmd, &m.during, "watch")
	flags.Var(&m.count, "count", "end after so many packets; 0: any number")
	output := addOutput(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		m.stdout, m.stderr, m.asJSON = cmd.OutOrStdout(), cmd.ErrOrStderr(), output.word == "json"
		if err := m.check(); err != nil {
			return err
		}
		return found(args[0], direction, func(a *loader.Attachment) error {
			m.a = a
			return m.run(cmd.Context())
		})
	}
	return cmd
}

// monitor is the monitor command.
type monitor struct {
	only           string
	most, count    plain
	during         time.Duration
	asJSON         bool
	stdout, stderr io.Writer

	colors  uint8
	a       *loader.Attachment
	plans   map[uint32]*watched
	ahead   uint64 // ns that the wall clock is ahead of the policer's
	printed uint64
	second  uint64 // of the decision printed last
	used    uint64 // printed of that second
	beyond  uint64 // left out here, beyond what the CPUs left out by themselves
	told    uint64 // left out, as was printed
}

// watched is a policy that packets met.
type watched struct {
	*marker.Plan
	names *bucketNames
}

func (m *monitor) check() error {
	for _, word := range strings.Split(m.only, ",") {
		c, err := marker.ParseColor(word)
		if err != nil {
			return usage("--only %s: say some of green, yellow, red with commas", m.only)
		}
		m.colors |= 1 << c
	}
	if m.during < 0 {
		return usage("--for %v: has passed", m.during)
	}
	return nil
}

// lookAfter is how often the monitor looks after what may end it, and tells what was left out.
const lookAfter = 500 * time.Millisecond

func (m *monitor) run(ctx context.Context) error {
	now, err := loader.Now()
	if err != nil {
		return err
	}
	m.ahead, m.plans = uint64(time.Now().UnixNano())-now, map[uint32]*watched{}
	w, err := m.a.Watch(loader.WatchOptions{Monitor: true, Colors: m.colors, Budget: uint64(m.most), Ring: 1 << 20})
	if err != nil {
		return err
	}
	ctx, cancel := whileFor(ctx, m.during)
	defer cancel()
	say(m.stderr, fmt.Sprintf("watching %s %v", m.a.Device, m.a.Direction()))
	return errors.Join(m.follow(ctx, w), m.leftOut(w), w.Close())
}

// follow prints decisions until it is to end.
func (m *monitor) follow(ctx context.Context, w *loader.Watch) error {
	var d maps.Decision
	looked := time.Now()
	for {
		err := w.Read(&d)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err == nil:
			if m.count > 0 && m.printed == uint64(m.count) {
				return nil
			}
			if err := m.decision(&d); err != nil {
				return err
			}
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		}
		over := ctx.Err() != nil || m.count > 0 && m.printed == uint64(m.count)
		if !over && time.Since(looked) > lookAfter {
			looked = time.Now()
			if err := m.leftOut(w); err != nil {
				return err
			}
			if over, err = m.gone(w); err != nil {
				return err
			}
		}
		if over {
			if err := w.Stop(); err != nil {
				return err
			}
		}
	}
}

// gone reports whether nothing more will come.
func (m *monitor) gone(w *loader.Watch) (bool, error) {
	polices, err := m.a.Polices()
	if err != nil {
		return false, err
	}
	if !polices {
		say(m.stderr, fmt.Sprintf("another program polices %s in its place, or none: it was upgraded or detached", m.a.Device))
		return true, nil
	}
	told, err := w.Told()
	if err == nil && !told {
		say(m.stderr, "the program tells no more: a CPU came after the monitor; start it again")
	}
	return !told, err
}

// leftOut tells how many packets were left out since it did so last.
func (m *monitor) leftOut(w *loader.Watch) error {
	stats, err := w.Stats()
	if err != nil {
		return err
	}
	all := stats.LeftOut + stats.Lost + m.beyond
	n := all - m.told
	if m.told = all; n == 0 {
		return nil
	}
	if m.asJSON {
		_, err = fmt.Fprintf(m.stdout, "{\"left_out\":%d}\n", n)
	} else {
		_, err = fmt.Fprintf(m.stdout, "… and %s left out (--max prints more)\n", plural(n, "packet", "packets"))
	}
	return err
}

// decision prints a decision, or leaves it out.
func (m *monitor) decision(d *maps.Decision) error {
	if second := d.Now / marker.Nano; second != m.second {
		m.second, m.used = second, 0
	}
	if m.most > 0 && m.used >= uint64(m.most) {
		m.beyond++
		return nil
	}
	plan, err := m.plan(d.Generation)
	if err != nil {
		return err
	}
	if plan == nil || !d.Fits(plan.Plan) {
		m.beyond++ // its policy is gone
		return nil
	}
	m.used++
	m.printed++
	view, err := m.view(plan, d)
	if err != nil {
		return err
	}
	if m.asJSON {
		return view.printJSON(m.stdout)
	}
	_, err = fmt.Fprintln(m.stdout, printable(view.String()))
	return err
}

// plan is the policy of a generation; nil where it is gone.
func (m *monitor) plan(generation uint32) (*watched, error) {
	if p, ok := m.plans[generation]; ok {
		return p, nil
	}
	plan, err := m.a.PlanOf(generation)
	if err != nil || plan == nil {
		return nil, err
	}
	p := &watched{plan, newBucketNames(plan)}
	m.plans[generation] = p
	return p, nil
}
