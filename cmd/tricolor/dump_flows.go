package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tricolor-policer/tricolor/internal/units"
	"github.com/tricolor-policer/tricolor/loader"
	"github.com/tricolor-policer/tricolor/maps"
	"github.com/tricolor-policer/tricolor/marker"
)

func newDumpFlows() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "flows DEV",
		Short: "Dump the buckets of a policed device (root)",
		Long: `Flows prints each bucket in use: its counters, and the tokens that it holds now, also as a part of its
burst. Forgotten buckets are not among them: show has the counters of all packets. The table is read while
traffic runs; each bucket is as it was at one moment.`,
		Example: "  sudo tricolor dump flows eth0 --direction ingress --sort red --limit 20",
		Args:    needDevice,
	}
	direction := addDirection(cmd)
	sorting := newChoice("bytes", "packets", "red", "key")
	cmd.Flags().Var(sorting, "sort", "order: bytes, packets or red (bytes), most first, or key")
	var most plain
	cmd.Flags().Var(&most, "limit", "print the first N only; 0: all")
	output := addOutput(cmd, "table", "json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return found(args[0], direction, func(a *loader.Attachment) error {
			d, err := readFlows(a)
			if err != nil {
				return err
			}
			d.sort(sorting.word)
			d.cut(uint64(most))
			if output.word == "json" {
				return printJSON(cmd.OutOrStdout(), d)
			}
			return d.print(cmd.OutOrStdout())
		})
	}
	return cmd
}

// flowDump is an attachment's buckets.
type flowDump struct {
	Device    string       `json:"device"`
	Direction string       `json:"direction"`
	Count     int          `json:"flow_count"`
	Torn      int          `json:"torn_sets"`
	Flows     []bucketJSON `json:"flows"`

	single bool // of a policy of one meter
}

// bucketJSON is a bucket as -o json prints it. trtcm's Tp and PBS stand in te_nb and ebs_nb.
type bucketJSON struct {
	Flow     string     `json:"flow"`
	Class    string     `json:"class"` // empty: the interface's
	Meter    int        `json:"meter"` // in the class's chain, from 1; 0: the interface's
	Profile  string     `json:"profile"`
	Gone     bool       `json:"gone"` // the policy has it no more; its tokens are not told
	Overflow bool       `json:"overflow"`
	Colors   colorsJSON `json:"colors"`
	Tc       uint64     `json:"tc_nb"` // now; nanobytes, or nanopackets
	CBS      uint64     `json:"cbs_nb"`
	Te       uint64     `json:"te_nb"`
	EBS      uint64     `json:"ebs_nb"`
	name     string     // for people: class, meter and key
	packets  bool       // they are nanopackets
}

func readFlows(a *loader.Attachment) (_ *flowDump, err error) {
	plan, _, err := a.InForce()
	if err != nil {
		return nil, err
	}
	buckets, err := maps.OpenBuckets(a.Maps.Buckets)
	if err != nil {
		return nil, err
	}
	defer buckets.Close()
	now, err := loader.Now()
	if err != nil {
		return nil, err
	}
	d := &flowDump{Device: a.Device, Direction: a.Direction().String(), Flows: []bucketJSON{}}
	names := newBucketNames(plan)
	d.single = names.single
	for at, slot := range buckets.All(&d.Torn) {
		d.Flows = append(d.Flows, bucketOf(plan, names, at, slot, now))
	}
	d.Count = len(d.Flows)
	return d, nil
}

// bucketOf describes a bucket, refilled to now.
func bucketOf(plan *marker.Plan, names *bucketNames, at maps.Slot, slot *marker.Slot, now uint64) bucketJSON {
	key := slot.Key.Fields()
	m := names.of(key)
	overflow := at.Set >= plan.Geometry.OverflowSet(0, 0)
	b := bucketJSON{
		Flow: names.key(key, overflow), Class: m.class, Meter: m.position, Gone: m.gone, Overflow: overflow,
		Colors: colorsOf(slot.Packets, slot.Bytes), name: names.name(key, overflow), packets: m.packets,
	}
	if m.gone || int(slot.Profile) >= len(plan.Profiles) {
		return b
	}
	profile := &plan.Profiles[slot.Profile]
	bucket := slot.Bucket
	profile.Refill(&bucket, now)
	b.Profile, b.CBS, b.EBS = profile.Name, profile.CBS, profile.XBS
	// A policy that is in force again may not have touched it yet.
	b.Tc, b.Te = min(bucket.Tc, profile.CBS), min(bucket.Tx, profile.XBS)
	return b
}

// sort orders the flows: most first, or by key.
func (d *flowDump) sort(by string) {
	slices.SortFunc(d.Flows, func(a, b bucketJSON) int {
		most := 0
		switch by {
		case "bytes":
			most = cmp.Compare(b.Colors.Total.Bytes, a.Colors.Total.Bytes)
		case "packets":
			most = cmp.Compare(b.Colors.Total.Packets, a.Colors.Total.Packets)
		case "red":
			most = cmp.Compare(b.Colors.Red.Bytes, a.Colors.Red.Bytes)
		}
		return cmp.Or(most, cmp.Compare(a.name, b.name))
	})
}

// cut keeps the first most flows; 0: all.
func (d *flowDump) cut(most uint64) {
	if most > 0 && most < uint64(len(d.Flows)) {
		d.Flows = d.Flows[:most]
	}
}

func (d *flowDump) print(w io.Writer) error {
	fmt.Fprintf(w, "%s %s: %s of %s\n", printable(d.Device), d.Direction,
		plural(uint64(len(d.Flows)), "bucket", "buckets"), units.FormatCount(uint64(d.Count)))
	if d.Torn > 0 {
		fmt.Fprintf(w, "%s kept changing and could not be read\n", plural(uint64(d.Torn), "set of 4 slots", "sets of 4 slots"))
	}
	if len(d.Flows) == 0 {
		return nil
	}
	head := "flow"
	if !d.single {
		head = "bucket"
	}
	t := newNumbers(w)
	t.named(head, "green", "bytes", "yellow", "bytes", "red", "bytes", "tokens C", "of CBS", "tokens E|P", "of burst")
	for i := range d.Flows {
		f := &d.Flows[i]
		count := units.FormatCount
		t.named(f.name,
			count(f.Colors.Green.Packets), count(f.Colors.Green.Bytes),
			count(f.Colors.Yellow.Packets), count(f.Colors.Yellow.Bytes),
			count(f.Colors.Red.Packets), count(f.Colors.Red.Bytes),
			f.tokens(f.Tc), share(f.Tc, f.CBS), f.tokens(f.Te), share(f.Te, f.EBS))
	}
	return t.flush()
}

// tokens prints nanobytes in whole bytes, rounded down.
func (f *bucketJSON) tokens(nano uint64) string {
	unit := " B"
	if f.packets {
		unit = " pkt"
	}
	return units.FormatCount(nano/marker.Nano) + unit
}
