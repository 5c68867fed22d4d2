package main

import (
	"context"
	"errors"
	"io"
	"math"

	"github.com/spf13/cobra"

	"github.com/tricolor-policer/tricolor/internal/capture"
	"github.com/tricolor-policer/tricolor/marker"
	"github.com/tricolor-policer/tricolor/pcaptest"
	"github.com/tricolor-policer/tricolor/policy"
)

func newExplain() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain FILE --packet N",
		Short: "Say why a packet of a capture got its colour",
		Long: `Explain replays FILE, a pcap or pcapng capture, up to packet N (from 1, as tcpdump and tshark number them), and
says why that one got its colour: how its headers were read, its class, its bucket and who shares it, what it
cost, each bucket before and after, how many bytes it was short of a better colour, and how many nanoseconds
later it would have had it if nothing else had come. It is the replay's own answer, and needs no privilege.
` + policyHelp + thenHelp,
		Example: `  tricolor explain video.pcap --packet 17 -f policy.yaml
  tricolor explain video.pcap --packet 17 --meter srtcm --cir 10mbit --cbs 96KiB --ebs 192KiB
  tricolor explain video.pcap --packet 17 -f policy.yaml -o json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("name one FILE; %q says more", cmd.CommandPath()+" --help")
			}
			return nil
		},
	}
	e := &explainer{}
	cmd.Flags().Var(&e.packet, "packet", "the packet to explain, from 1")
	e.flags = addPolicy(cmd.Flags(), defaultSeed, "seed of the table's hash")
	addThen(cmd.Flags(), &e.then)
	e.output = addOutput(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, files []string) error {
		e.stdout, e.stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
		if !cmd.Flags().Changed("packet") {
			return usage("name a packet with --packet N, from 1")
		}
		return e.run(cmd.Context(), files[0])
	}
	return cmd
}

// explainer is the explain command.
type explainer struct {
	flags          *policyFlags
	then           thens
	packet         plain
	output         *choice
	stdout, stderr io.Writer
}

func (e *explainer) run(ctx context.Context, file string) error {
	switch {
	case e.packet == 0:
		return usage("--packet 0: packets are numbered from 1")
	case e.packet > math.MaxInt64:
		return usage("--packet %d: no capture has so many", e.packet)
	}
	p, plan, err := e.flags.compile()
	if err != nil {
		return err
	}
	warnPolicy(e.stderr, p, policy.Link{})
	if err := e.then.compile(e.flags, plan, e.stderr); err != nil {
		return err
	}
	kind, err := capture.Sniff(file)
	if err != nil {
		return err
	}
	if kind == capture.KindTrace {
		return usage("%s: %w: explain takes a capture", file, pcaptest.ErrTrace)
	}
	changes, err := e.then.resolve(file)
	if err != nil {
		return err
	}
	bar := newProgress(e.stderr, file)
	x, err := pcaptest.Explain(ctx, file, pcaptest.ExplainOptions{
		Plan: plan, Seeds: marker.SeedsFrom(uint64(*e.flags.seed)), Then: changes, Packet: int64(e.packet), Progress: bar.at,
	})
	bar.close()
	if errors.Is(err, pcaptest.ErrNoPacket) {
		return &usageError{err}
	}
	if err != nil {
		return err
	}
	names := newBucketNames(e.then[:x.Applied].plans(plan)...)
	if e.output.word == "json" {
		return printJSON(e.stdout, explainedOf(file, x, names))
	}
	return printExplained(e.stdout, file, x, names)
}
