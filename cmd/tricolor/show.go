package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/tricolor-policer/tricolor/loader"
	"github.com/tricolor-policer/tricolor/maps"
	"github.com/tricolor-policer/tricolor/marker"
	"github.com/tricolor-policer/tricolor/policy"
)

func newShow() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show [DEV]",
		Short: "Show what is policed, by which policy, and what it did (root)",
		Long: `Show prints each policed device and direction (or those of DEV): since when, the policy, and the counters.
Where others are on the hook it lists all, in the order that packets meet them: programs on TCX, then tc
filters by priority. Of a DEV it lists those of hooks without a policer, too; where it has none at all, it
exits 4.

A user other than root needs CAP_DAC_OVERRIDE, since the pins are root's own.`,
		Example: "  sudo tricolor show\n  sudo tricolor show eth0 -o json",
		Args:    arguments(cobra.MaximumNArgs(1)),
	}
	output := addOutput(cmd, "table", "json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		// One that cannot be opened hides no other.
		all, err := attachments(args)
		views := []*view{}
		for _, a := range all {
			v, viewErr := newView(a)
			if viewErr != nil {
				err = errors.Join(err, fmt.Errorf("%s %v: %w", a.Device, a.Direction(), viewErr))
			} else {
				views = append(views, v)
			}
			err = errors.Join(err, a.Close())
		}
		var beside []hook
		if len(args) > 0 {
			beside = hooksBeside(args[0], views)
		}
		if len(views) == 0 && len(beside) == 0 && err != nil {
			return err
		}
		return errors.Join(showViews(cmd.OutOrStdout(), views, beside, output.word == "json"), err)
	}
	return cmd
}

// attachments returns those of a device, or all. Those that could be opened are returned with the error.
func attachments(args []string) ([]*loader.Attachment, error) {
	if len(args) == 0 {
		return loader.List()
	}
	var all []*loader.Attachment
	var lacks, errs []error
	for _, d := range []loader.Direction{loader.Ingress, loader.Egress} {
		a, err := loader.Find(args[0], d)
		switch {
		case err == nil:
			all = append(all, a)
		case errors.Is(err, loader.ErrNotAttached), errors.Is(err, loader.ErrNoDevice):
			lacks = append(lacks, err)
		default:
			errs = append(errs, err)
		}
	}
	switch {
	case len(all) > 0 || len(errs) > 0:
		return all, errors.Join(errs...)
	case errors.Is(lacks[0], loader.ErrNoDevice):
		return nil, lacks[0]
	}
	return nil, fmt.Errorf("%w: %s, neither ingress nor egress", loader.ErrNotAttached, args[0])
}

// view is what is read of an attachment, at about one moment.
type view struct {
	*loader.Attachment
	plan    *marker.Plan // in force
	pending time.Duration
	stats   marker.Stats
	onHook  []loader.OnHook // none where that cannot be told
	stages  [marker.MaxChain]stageUse
	torn    int // sets that could not be read
}

func newView(a *loader.Attachment) (*view, error) {
	plan, pending, err := a.InForce()
	if err != nil {
		return nil, err
	}
	stats, err := a.Maps.Stats(plan)
	if err != nil {
		return nil, err
	}
	onHook, err := hookOf(a)
	if err != nil {
		return nil, err
	}
	buckets, err := maps.OpenBuckets(a.Maps.Buckets)
	if err != nil {
		return nil, err
	}
	v := &view{Attachment: a, plan: plan, pending: pending, stats: stats, onHook: onHook}
	for i, s := range plan.Geometry.Stages {
		v.stages[i] = stageUse{Meter: i + 1, Slots: (uint64(s.Mask) + 1) * marker.SetSlots}
	}
	for at := range buckets.All(&v.torn) {
		if position := plan.Geometry.Position(at.Set); position >= 0 {
			v.stages[position].Used++
		}
	}
	return v, buckets.Close()
}

// viewJSON is an attachment as -o json prints it.
type viewJSON struct {
	Device    string   `json:"device"`
	Direction string   `json:"direction"`
	Hook      string   `json:"hook"`
	State     string   `json:"state"`
	SinceUnix uint64   `json:"since_unix"`
	Ifindex   uint32   `json:"ifindex"`
	NetNS     uint64   `json:"netns"`
	Version   string   `json:"version"`
	ProgramID uint32   `json:"program_id"`
	Object    string   `json:"object_sha256"` // whose program polices
	SameBuild bool     `json:"same_build"`    // it is that of the tricolor that prints this
	Policy    []string `json:"policy"`
	// How long the policy is in force unless it is confirmed; 0: for good.
	UnconfirmedNS int64 `json:"unconfirmed_ns"`
	// All on the hook, this one too, in order; empty where that cannot be told.
	OnHook []onHookJSON `json:"on_hook"`
	*statsJSON
	Table struct {
		Slots uint64 `json:"slots"`
		Used  uint64 `json:"used"`
		Torn  int    `json:"torn_sets"`
		// By meter of a chain; left out where only the first is keyed, which slots and used are of.
		Meters []stageUse `json:"meters,omitempty"`
	} `json:"table"`
}

func (v *view) json() viewJSON {
	out := viewJSON{
		Device: v.Device, Direction: v.Direction().String(), Hook: v.Mechanism.String(), State: v.State.String(),
		SinceUnix: v.About.Since, Ifindex: v.About.Ifindex, NetNS: v.About.NetNS, Version: v.About.Version,
		ProgramID: uint32(v.ProgramID), Object: hex.EncodeToString(v.About.Object[:]), SameBuild: v.SameBuild(), Policy: policy.Describe(v.plan), statsJSON: statsOf(v.plan, &v.stats),
		UnconfirmedNS: int64(v.pending), OnHook: onHookOf(v.onHook, v.ProgramID),
	}
	stages := keyedStages(v.plan, v.stages)
	out.Table.Slots, out.Table.Used, out.Table.Torn = stages[0].Slots, stages[0].Used, v.torn
	if len(stages) > 1 {
		out.Table.Meters = stages
	}
	return out
}

func showViews(w io.Writer, views []*view, beside []hook, asJSON bool) error {
	if asJSON {
		out := []viewJSON{}
		for _, v := range views {
			out = append(out, v.json())
		}
		all := map[string]any{"attachments": out}
		if len(beside) > 0 {
			all["not_policed"] = hooksOf(beside)
		}
		return printJSON(w, all)
	}
	if len(views)+len(beside) == 0 {
		fmt.Fprintln(w, "nothing is policed")
	}
	for i, v := range views {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := v.print(w); err != nil {
			return err
		}
	}
	for i, h := range beside {
		if len(views)+i > 0 {
			fmt.Fprintln(w)
		}
		if err := h.print(w); err != nil {
			return err
		}
	}
	return nil
}

func (v *view) print(w io.Writer) error {
	fmt.Fprintf(w, "%s %v: hook %v, since %s, by tricolor %s\n", printable(v.Device), v.Direction(), v.Mechanism,
		time.Unix(int64(v.About.Since), 0).Format(time.DateTime), printable(v.About.Version))
	switch {
	case v.State == loader.Stale:
		fmt.Fprintln(w, "  STALE: no packet meets it, since its device is gone or somebody took it off the hook; "+
			"\"tricolor gc\" removes it, and \"tricolor attach\" takes its place")
	case !v.Here:
		fmt.Fprintf(w, "  in %s\n", otherNetNS(v.Attachment))
	}
	if !v.SameBuild() && v.State == loader.Attached {
		fmt.Fprintf(w, "  another build's kernel program polices; \"tricolor upgrade %s --direction %v\" puts this tricolor's in its place\n",
			printable(v.Device), v.Direction())
	}
	if v.pending > 0 {
		fmt.Fprintf(w, "  %s: tricolor confirm %s --direction %v\n", unconfirmedFor(v.pending), printable(v.Device), v.Direction())
	}
	lines := policy.Describe(v.plan)
	for i := range v.stats.Classes {
		fmt.Fprintf(w, "  %s\n", describedChain(lines[i]))
		class := &v.stats.Classes[i]
		if len(v.stats.Classes) > 1 && total(class.Packets) == 0 {
			fmt.Fprintln(w, "    no packets yet")
			continue
		}
		if err := printColors(w, class, nil); err != nil {
			return err
		}
	}
	for _, line := range remarks(v.plan, &v.stats) {
		fmt.Fprintf(w, "  %s\n", line)
	}
	stages := keyedStages(v.plan, v.stages)
	if len(stages) == 1 {
		fmt.Fprintf(w, "  table: %s; %s\n", stages[0], overflowShare(&v.stats))
	} else {
		for _, s := range stages {
			fmt.Fprintf(w, "  table of meter %d: %s\n", s.Meter, s)
		}
		fmt.Fprintf(w, "  %s\n", overflowShare(&v.stats))
	}
	if v.torn > 0 {
		fmt.Fprintf(w, "  %s kept changing and could not be read\n", plural(uint64(v.torn), "set of 4 slots", "sets of 4 slots"))
	}
	if len(v.onHook) > 1 {
		return printOnHook(w, v.onHook, v.ProgramID)
	}
	return nil
}
