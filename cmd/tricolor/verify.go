package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tricolor-policer/tricolor/internal/capture"
	"github.com/tricolor-policer/tricolor/internal/units"
	"github.com/tricolor-policer/tricolor/marker"
	"github.com/tricolor-policer/tricolor/pcaptest"
	"github.com/tricolor-policer/tricolor/policy"
)

func newVerify() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify FILE…",
		Short: "Prove on captures that the kernel program and its Go mirror give the same answer (root)",
		Long: `Verify runs each capture through the kernel program, in test runs, and through its Go mirror. It compares
for each packet class, cost, colour, verdict and every byte of the frame, and at the end every counter and
every bucket. On a difference it shows the first one and exits 1. No device is touched.
` + policyHelp + thenHelp,
		Example: `  sudo tricolor verify video.pcap -f policy.yaml --then +12.5s=new.yaml
  sudo tricolor verify video.pcap --meter srtcm --cir 10mbit --cbs 96KiB --ebs 192KiB --yellow dscp=af12
  sudo tricolor verify *.pcap --meter trtcm --cir 5mbit --cbs 64KiB --pir 10mbit --pbs 128KiB --flows 64`,
		Args: needFiles,
	}
	v := &verifier{flags: addPolicy(cmd.Flags(), defaultSeed, "seed of the table's hash"), kernel: newKernel}
	addThen(cmd.Flags(), &v.then)
	v.output = addOutput(cmd, "table", "json")
	cmd.RunE = func(cmd *cobra.Command, files []string) error {
		v.stdout, v.stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
		return v.run(cmd.Context(), files)
	}
	return cmd
}

// verifier is the verify command.
type verifier struct {
	flags          *policyFlags
	then           thens
	output         *choice
	stdout, stderr io.Writer
	plan           *marker.Plan

	kernel func(*marker.Plan, marker.Seeds) (pcaptest.Side, error) // makes the kernel's side
}

func newKernel(plan *marker.Plan, seeds marker.Seeds) (pcaptest.Side, error) {
	k, err := pcaptest.NewKernel(plan, seeds)
	if err != nil {
		return nil, err // and no side that is not nil
	}
	return k, nil
}

// verifyReport is what verify prints with -o json.
type verifyReport struct {
	Files       []verifyFile `json:"files"`
	Compared    int64        `json:"compared"`
	Skipped     int64        `json:"skipped"`
	Differences int64        `json:"differences"`
}

type verifyFile struct {
	File        string          `json:"file"`
	Error       string          `json:"error,omitempty"`
	Compared    int64           `json:"compared"`
	Skipped     int64           `json:"skipped"`
	Differences int64           `json:"differences"`
	Buckets     int             `json:"buckets"`
	First       *differenceJSON `json:"first_difference"`
}

type differenceJSON struct {
	Packet int64       `json:"packet"` // 0: found at the end
	TimeNS uint64      `json:"time_ns"`
	Flow   string      `json:"flow"`
	Fields []fieldJSON `json:"fields"`
	Text   string      `json:"text"` // for people, with the bucket's states
}

type fieldJSON struct {
	Name   string `json:"name"`
	Mirror string `json:"mirror"`
	Kernel string `json:"kernel"`
}

func (v *verifier) run(ctx context.Context, files []string) error {
	p, plan, err := v.flags.compile()
	if err != nil {
		return err
	}
	v.plan = plan
	warnPolicy(v.stderr, p, policy.Link{})
	if err := v.then.compile(v.flags, plan, v.stderr); err != nil {
		return err
	}
	// Whoever lacks the privilege hears that once, not for each file.
	if err := v.probe(); err != nil {
		return err
	}

	var report verifyReport
	table := newNumbers(v.stdout)
	asJSON := v.output.word == "json"
	if !asJSON {
		table.named("file", "packets compared", "skipped", "differences", "buckets")
	}
	var differences []string
	failed := false
	for _, file := range files {
		result, err := v.file(ctx, file)
		if errors.Is(err, context.Canceled) || isUsage(err) {
			return err
		}
		line := verifyFile{File: file}
		if result != nil {
			line.Compared, line.Skipped, line.Differences, line.Buckets = result.Compared, result.Skipped, result.Differences, result.Buckets
			if result.First != nil {
				line.First = differenceOf(result.First)
				differences = append(differences, fmt.Sprintf("%s: %s", printable(file), result.First))
			}
		}
		name := printable(file)
		if err != nil {
			line.Error = err.Error()
			name += ": " + printable(strings.TrimPrefix(err.Error(), file+": "))
		}
		failed = failed || err != nil || line.Differences != 0
		report.Files = append(report.Files, line)
		report.Compared += line.Compared
		report.Skipped += line.Skipped
		report.Differences += line.Differences
		if !asJSON {
			table.named(name, count(line.Compared), count(line.Skipped), count(line.Differences), count(int64(line.Buckets)))
		}
	}
	if asJSON {
		err = printJSON(v.stdout, report)
	} else {
		err = table.flush()
		fmt.Fprintf(v.stdout, "%s compared, %s skipped, %s\n", plural(uint64(report.Compared), "packet", "packets"),
			count(report.Skipped), plural(uint64(report.Differences), "difference", "differences"))
	}
	if err != nil {
		return err
	}
	return v.faults(report.Files, differences, failed)
}

// faults says on stderr what was refused and what differs.
func (v *verifier) faults(files []verifyFile, differences []string, failed bool) error {
	for _, f := range files {
		if f.Error != "" {
			say(v.stderr, oneLined(f.Error, []string{f.File}))
		}
	}
	for _, d := range differences {
		fmt.Fprint(v.stderr, "tricolor: "+d)
	}
	if failed {
		return errReported
	}
	return nil
}

// probe loads the kernel's side and lets it go.
func (v *verifier) probe() error {
	kernel, err := v.kernel(v.plan, v.seeds())
	if err != nil {
		return err
	}
	return kernel.Close()
}

func (v *verifier) seeds() marker.Seeds { return marker.SeedsFrom(uint64(*v.flags.seed)) }

// file runs one capture through two fresh sides.
func (v *verifier) file(ctx context.Context, file string) (result *pcaptest.Verification, err error) {
	kind, err := capture.Sniff(file)
	if err != nil {
		return nil, err
	}
	if kind == capture.KindTrace {
		return nil, fmt.Errorf("%s: %w: replay takes it, verify needs a capture", file, pcaptest.ErrTrace)
	}
	changes, err := v.then.resolve(file)
	if err != nil {
		return nil, err
	}
	r, err := capture.Open(file)
	if err != nil {
		return nil, err
	}
	mirror, err := pcaptest.NewMirror(v.plan, v.seeds())
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	kernel, err := v.kernel(v.plan, v.seeds())
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	defer func() { err = errors.Join(err, kernel.Close(), r.Close()) }()
	bar := newProgress(v.stderr, file)
	defer bar.close()
	result, err = pcaptest.Verify(ctx, r, pcaptest.VerifyOptions{
		File: file, Plan: v.plan, Mirror: mirror, Kernel: kernel, Then: changes, Progress: bar.at,
	})
	if err == nil && result.Differences == 0 {
		took := mirror.Plan().Generation - v.plan.Generation
		for _, line := range v.then.unused(int(took)) {
			defer warn(v.stderr, "%s: %s", printable(file), line) // when the bar is gone
		}
	}
	return result, err
}

func differenceOf(d *pcaptest.Difference) *differenceJSON {
	out := &differenceJSON{Packet: d.Packet, TimeNS: d.Time, Flow: d.Flow, Text: d.String()}
	for _, f := range d.Fields {
		out.Fields = append(out.Fields, fieldJSON(f))
	}
	return out
}

func count(n int64) string { return units.FormatCount(uint64(n)) }
