package main

import (
	"fmt"

	"github.com/tricolor-policer/tricolor/internal/units"
	"github.com/tricolor-policer/tricolor/marker"
	"github.com/tricolor-policer/tricolor/pcaptest"
)

// printPolicy prints what all files are run through.
func (r *replayer) printPolicy() {
	printPlan(r.stdout, r.plan)
	r.then.print(r.stdout)
	fmt.Fprintf(r.stdout, "seed: %d\n", *r.flags.seed)
}

// warnings says what of a file a person should know.
func (r *replayer) warnings(result *pcaptest.Replay) []string {
	return append(r.then.unused(len(result.Applied)), clockWarnings(result)...)
}

// clockWarnings says what is odd about a file's time stamps.
func clockWarnings(result *pcaptest.Replay) (lines []string) {
	if result.Backward > 0 {
		lines = append(lines, fmt.Sprintf("time steps backward at %s: nothing is earned until a bucket's time is reached again",
			plural(uint64(result.Backward), "record", "records")))
	}
	if result.Behind != nil {
		lines = append(lines, fmt.Sprintf("packet %d was judged %s behind its bucket: the capture's clock had jumped ahead, "+
			"and a bucket earns nothing until its time is reached again", result.Behind.Packet, duration(result.Behind.By)))
	}
	return lines
}

// planAfter is the policy that was in force at a file's end.
func (r *replayer) planAfter(result *pcaptest.Replay) *marker.Plan {
	if n := len(result.Applied); n > 0 {
		return r.then[n-1].plan
	}
	return r.plan
}

// names are those of all buckets that a file's packets met.
func (r *replayer) names(result *pcaptest.Replay) *bucketNames {
	return newBucketNames(r.then[:len(result.Applied)].plans(r.plan)...)
}

// classes are the classes at a file's end, then those that went before.
func (r *replayer) classes(result *pcaptest.Replay) []classRow {
	rows := classRows(r.planAfter(result), &result.Stats)
	for _, a := range result.Applied {
		for i := range a.Gone {
			gone := &a.Gone[i]
			rows = append(rows, classRow{fmt.Sprintf("%s (gone at packet %d)", gone.Name, a.Packet), &gone.Stats})
		}
	}
	return rows
}

// stagesOf is how full the table is at a file's end, for each meter of a chain that has keys.
func stagesOf(plan *marker.Plan, result *pcaptest.Replay) []stageUse {
	var all [marker.MaxChain]stageUse
	for i, s := range result.Stages {
		all[i] = stageUse{i + 1, s.Slots, s.Used}
	}
	return keyedStages(plan, all)
}

// print prints a file's outcome for a person, with its top flows.
func (r *replayer) print(result *pcaptest.Replay, top int) error {
	w := r.stdout
	trace := result.Stages[0].Slots == 0
	noun := []string{"packet", "packets"}
	if trace {
		noun = []string{"row", "rows"}
	}
	fmt.Fprintf(w, "\n%s: %s in %s\n", printable(result.File), plural(uint64(result.Records), noun[0], noun[1]), duration(result.Span()))
	for i, a := range result.Applied {
		fmt.Fprintf(w, "  %s in force from packet %d on, as of %s\n", printable(r.then[i].file), a.Packet, r.then[i].word)
	}
	var rate func(bytes uint64) string
	if span := result.Span(); span > 0 {
		rate = func(bytes uint64) string { return units.FormatMeanOver(bytes, span) }
	}
	var err error
	if classes := r.classes(result); len(classes) == 1 {
		err = printColors(w, classes[0].stats, rate)
	} else {
		err = printClasses(w, classes, rate)
	}
	if err != nil {
		return err
	}
	for _, line := range remarks(r.planAfter(result), &result.Stats) {
		fmt.Fprintf(w, "  %s\n", line)
	}
	if trace {
		return nil
	}
	if stages := stagesOf(r.planAfter(result), result); len(stages) == 1 {
		fmt.Fprintf(w, "  table: %s slots, %s used, %s forgotten; %s\n", units.FormatCount(stages[0].Slots),
			units.FormatCount(stages[0].Used), units.FormatCount(result.Forgotten), overflowShare(&result.Stats))
	} else {
		for _, s := range stages {
			fmt.Fprintf(w, "  table of meter %d: %s\n", s.Meter, s)
		}
		fmt.Fprintf(w, "  tables: %s forgotten; %s\n", units.FormatCount(result.Forgotten), overflowShare(&result.Stats))
	}
	return r.printTop(result, top)
}

// printTop prints the buckets that were busiest.
func (r *replayer) printTop(result *pcaptest.Replay, top int) error {
	flows := result.Flows
	if top = min(top, len(flows)); top == 0 {
		return nil
	}
	names := r.names(result)
	one, many := "flow", "flows"
	if !names.single {
		one, many = "bucket", "buckets"
	}
	fmt.Fprintf(r.stdout, "  busiest %s of %s\n", plural(uint64(top), one, many), units.FormatCount(uint64(len(flows))))
	t := newNumbers(r.stdout)
	t.named(one, "packets", "bytes", "green", "yellow", "red")
	for i := range flows[:top] {
		f := &flows[i]
		packets, bytes := f.Total()
		t.named(names.name(f.Key, f.Overflow), units.FormatCount(packets), units.FormatCount(bytes), share(f.Bytes[marker.Green], bytes),
			share(f.Bytes[marker.Yellow], bytes), share(f.Bytes[marker.Red], bytes))
	}
	return t.flush()
}
