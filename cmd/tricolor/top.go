package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tricolor-policer/tricolor/marker"
)

// Bounds of an interval: a shorter one costs much and shows noise, and packets are counted modulo 2^32.
const (
	minTopInterval = 100 * time.Millisecond
	maxTopInterval = time.Hour
)

func newTop() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "top [DEV]",
		Short: "Watch classes and the busiest buckets: rates by colour, and tokens left (root)",
		Long: `Top shows what is policed (or DEV only) on a live screen: each class's rate by colour, and the buckets that
counted most since the reading before, with how full each is now. C is the bucket of CBS; E|P that of EBS or
PBS. Rates are differences of counters by the time between two readings. Keys sort, filter, pause and choose
among devices and directions; ? lists them. It needs no colour: G, Y and R are letters, and fill is a pattern.

Where the output is no terminal, or one that cannot move its cursor (TERM=dumb), it prints a table after each
interval; with --once after one, and ends.

The table of buckets is read in place, without a lock. That costs no more than about 1 % of a CPU: where much of
a large table is in use, buckets are read less often than classes, and the screen says so (--once reads twice).
A user other than root needs CAP_DAC_OVERRIDE, since the pins are root's own.`,
		Example: "  sudo tricolor top eth0\n  sudo tricolor top eth0 --direction ingress --once --interval 5s --sort red --limit 20\n  sudo tricolor top --once -o json",
		Args:    arguments(cobra.MaximumNArgs(1)),
	}
	direction := newChoice("both", "ingress", "egress")
	cmd.Flags().Var(direction, "direction", "which packets of the device: "+oneOf(direction.words))
	interval := cmd.Flags().Duration("interval", time.Second, "`TIME` between two readings, from 100ms to 1h")
	once := cmd.Flags().Bool("once", false, "print one table after one interval, and end")
	sorting := newChoice(topOrders...)
	cmd.Flags().Var(sorting, "sort", "order, most first, by what was counted meanwhile: "+oneOf(topOrders)+" (bytes)")
	var filter string
	cmd.Flags().StringVar(&filter, "filter", "", "only buckets of which all `WORDS` hold: an address, its first bytes, a prefix, :PORT, a part of the class's, profile's or protocol's name")
	most := plain(20)
	cmd.Flags().Var(&most, "limit", "with a table: print the first N buckets only; 0: the busiest 1000")
	output := addOutput(cmd, "table", "json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		screen := liveScreen(cmd.OutOrStdout()) && !*once
		switch {
		case *interval < minTopInterval || *interval > maxTopInterval:
			return usage("--interval %v: say from %v to %v", *interval, minTopInterval, maxTopInterval)
		case output.word == "json" && !*once:
			return usage("-o json prints one interval: say --once, too")
		case screen && cmd.Flags().Changed("limit"):
			return usage("--limit is for tables: say --once, too")
		}
		choice := topChoice{order: sorting.word, only: marker.Colors, filter: newTopFilter(strings.TrimSpace(filter))}
		r, err := newTopReader(args, direction.word, *once)
		if err != nil {
			return err
		}
		if screen {
			return errors.Join(runTop(cmd.Context(), cmd.OutOrStdout(), r, *interval, choice), r.close())
		}
		for {
			if err := sleep(cmd.Context(), *interval); err != nil {
				return errors.Join(err, r.close())
			}
			frame := r.read(&choice)
			if output.word == "json" {
				err = printJSON(cmd.OutOrStdout(), frame.json(uint64(most)))
			} else {
				err = frame.print(cmd.OutOrStdout(), &choice, uint64(most))
			}
			if err = errors.Join(err, frame.fault); err != nil || *once {
				return errors.Join(err, r.close())
			}
		}
	}
	return cmd
}

// sleep waits, or returns the context's error.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// liveScreen reports whether w is a terminal that can move its cursor.
func liveScreen(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb" && os.Getenv("TERM") != ""
}

// topGlyphs are those that the locale has.
func topGlyphs() glyphs {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if value := strings.ToUpper(os.Getenv(name)); value != "" {
			if strings.Contains(value, "UTF-8") || strings.Contains(value, "UTF8") {
				return blockGlyphs
			}
			break
		}
	}
	return asciiGlyphs
}

// topFrames is how often the screen looks for something to draw, a second. Each look costs, even where there is nothing.
const topFrames = 10

// runTop runs the live screen until it is quit, ctx ends, or the terminal is gone.
func runTop(ctx context.Context, w io.Writer, r *topReader, interval time.Duration, choice topChoice) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP)
	defer stop()
	m := &topModel{read: r.read, interval: interval, choice: choice, glyphs: topGlyphs(), width: 80, height: 24}
	m.frame.hooks = r.last()
	p := tea.NewProgram(m, tea.WithContext(ctx), tea.WithOutput(w), tea.WithoutSignalHandler(), tea.WithFPS(topFrames))
	_, err := p.Run()
	if err != nil && ctx.Err() != nil {
		return nil // SIGTERM and the like: the terminal is restored
	}
	if err != nil {
		return fmt.Errorf("the screen: %w", err)
	}
	return nil
}
