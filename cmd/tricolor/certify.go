package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/tricolor-policer/tricolor/certify"
	"github.com/tricolor-policer/tricolor/marker"
	"github.com/tricolor-policer/tricolor/pcaptest"
	"github.com/tricolor-policer/tricolor/policy"
	"github.com/tricolor-policer/tricolor/record"
)

func newCertify() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "certify FILE",
		Short: "Prove from a record, or from a replay, that the policer kept its contract",
		Long: `Certify adds up what was let through, and proves for each bucket that green alone, and green and yellow together,
stayed under their envelopes (B + rT) over every interval: to the byte and the nanosecond, in one pass. It prints
the tightest interval of the bucket that came nearest its envelope. It is no meter, and shares no code with the meters.
No bucket may hold more tokens after a packet than it had and earned, less what was taken: else the record was changed.

FILE is what "tricolor record" wrote; or, with a policy, a capture: then the decisions are those of a replay. Through a
change of policy a bucket's envelope goes on with what was left of the old one, as far as the new burst holds it.

Exit codes: 0 proven; 1 broken or contradictory: it says by which packets; 5 incomplete: what is there keeps the contract, but
records were lost, sampled or cut off. It needs no privilege.
` + policyHelp + thenHelp,
		Example: `  tricolor certify decisions.rec
  tricolor certify video.pcap -f policy.yaml
  tricolor certify video.pcap --meter srtcm --cir 10mbit --cbs 96KiB --ebs 192KiB -o json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("name one FILE; %q says more", cmd.CommandPath()+" --help")
			}
			return nil
		},
	}
	c := &certifier{}
	c.flags = addPolicy(cmd.Flags(), defaultSeed, "seed of the table's hash")
	addThen(cmd.Flags(), &c.then)
	c.output = addOutput(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, files []string) error {
		c.stdout, c.stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
		return c.run(cmd.Context(), files[0])
	}
	return cmd
}

// certifier is the certify command.
type certifier struct {
	flags          *policyFlags
	then           thens
	output         *choice
	stdout, stderr io.Writer
}

// errIncomplete is a record that proves nothing, since it is not whole. Everything was said.
var errIncomplete = fmt.Errorf("%w: incomplete", errReported)

// certificate is what certifying a file gave.
type certificate struct {
	file       string
	of         string // what was recorded
	start      uint64 // ns: the time that others are told from
	keys       []string
	incomplete []string // why it proves nothing
	*certify.Result
}

func (c *certifier) run(ctx context.Context, file string) error {
	isRecord := c.flags.file == "" && c.flags.words == (policy.Words{})
	var x *certificate
	var err error
	if isRecord {
		x, err = certifyRecord(ctx, file)
	} else {
		x, err = c.certifyCapture(ctx, file)
	}
	if err != nil {
		return err
	}
	if c.output.word == "json" {
		err = printJSON(c.stdout, x.json())
	} else {
		x.print(c.stdout)
	}
	switch {
	case err != nil:
		return err
	case x.Breaks > 0, x.Excess > 0:
		return errReported
	case len(x.incomplete) > 0:
		return errIncomplete
	}
	return nil
}

// lookEvery is how many records go by between looks at ^C.
const lookEvery = 1 << 16

func certifyRecord(ctx context.Context, file string) (*certificate, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := record.NewReader(f)
	if errors.Is(err, record.ErrFile) {
		err = fmt.Errorf("%w; a capture takes a policy: say -f FILE, or --meter", err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	x := &certificate{file: file, start: r.Header.Start, of: r.Header.Device + " " + r.Header.Direction}
	c := certify.New(&r.Policies)
	var one record.Record
	for n := 1; ; n++ {
		if err = r.Next(&one); err == nil {
			err = c.Add(&one)
		}
		if err == nil && n%lookEvery == 0 {
			err = ctx.Err()
		}
		if err != nil {
			break
		}
	}
	x.keys, x.Result = r.Keys, c.Finish()
	switch {
	case errors.Is(err, record.ErrCut):
		x.incomplete = append(x.incomplete, "the record is cut short: its recorder did not come to its end")
	case err != io.EOF:
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if r.Lost > 0 {
		x.incomplete = append(x.incomplete, plural(r.Lost, "decision was", "decisions were")+" lost")
	}
	if r.Header.Sample > 1 {
		x.incomplete = append(x.incomplete, fmt.Sprintf("it holds one decision in %d", r.Header.Sample))
	}
	if r.End != nil && r.End.LeftOut > 0 && r.Header.Sample <= 1 {
		x.incomplete = append(x.incomplete, plural(r.End.LeftOut, "decision was", "decisions were")+" left out")
	}
	if r.End != nil && r.End.Late > 0 {
		x.incomplete = append(x.incomplete, plural(r.End.Late, "record stands", "records stand")+" out of order")
	}
	return x, nil
}

func (c *certifier) certifyCapture(ctx context.Context, file string) (*certificate, error) {
	p, plan, err := c.flags.compile()
	if err != nil {
		return nil, err
	}
	warnPolicy(c.stderr, p, policy.Link{})
	if err := c.then.compile(c.flags, plan, c.stderr); err != nil {
		return nil, err
	}
	changes, err := c.then.resolve(file)
	if err != nil {
		return nil, err
	}
	x := &certificate{file: file, of: "a replay"}
	var d pcaptest.Decisions
	proof := certify.New(&d.Policies)
	bar := newProgress(c.stderr, file)
	err = d.Run(ctx, file, pcaptest.ExplainOptions{
		Plan: plan, Seeds: marker.SeedsFrom(uint64(*c.flags.seed)), Then: changes, Progress: bar.at,
	}, func(r *record.Record) error {
		if x.start == 0 {
			x.start = r.Time
		}
		return proof.Add(r)
	})
	bar.close()
	if err != nil {
		return nil, err
	}
	x.keys, x.Result = d.Keys, proof.Finish()
	return x, nil
}
