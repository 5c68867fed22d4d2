package maps

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/tricolor-policer/tricolor/bpf"
	"github.com/tricolor-policer/tricolor/marker"
)

// Who watches: there is one of each at a time.
const (
	WatchRecord  = int(bpf.PolicerWatcherKindWATCHER_RECORD)
	WatchMonitor = int(bpf.PolicerWatcherKindWATCHER_MONITOR)
	watchers     = int(bpf.PolicerWatcherKindWATCHERS)
)

// Watch are the maps by which a program tells of its decisions. They are the program's own, and not pinned: an
// upgrade makes new ones. The caller closes them.
type Watch struct {
	Rings    [watchers]*ebpf.Map // perf event arrays: what is in them goes when they are closed
	watchers *ebpf.Map
	stats    *ebpf.Map
}

// Wanted is what a watcher wants to be told.
type Wanted struct {
	Colors uint8  // bit c: decisions of marker.Color c; 0: of all
	Sample uint32 // one in so many, of each CPU; 0 and 1: all
	Budget uint64 // decisions a second, of each CPU; 0: any
}

// WatchStats are the counters of a kind of watcher, summed over all CPUs.
type WatchStats struct {
	Decided uint64 // packets of its colours that were metered
	Written uint64 // of them, those told
	Lost    uint64 // for which there was no room
	LeftOut uint64 // by sampling, or beyond the budget
}

// Since is what was counted after before.
func (s WatchStats) Since(before WatchStats) WatchStats {
	return WatchStats{s.Decided - before.Decided, s.Written - before.Written, s.Lost - before.Lost, s.LeftOut - before.LeftOut}
}

// OpenWatch opens the maps of a program that is loaded, by their names. Returns ErrLayout where it has none such.
// Requires CAP_SYS_ADMIN.
func OpenWatch(program *ebpf.Program) (_ *Watch, err error) {
	info, err := program.Info()
	if err != nil {
		return nil, err
	}
	w := new(Watch)
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Close())
		}
	}()
	wanted := map[string]**ebpf.Map{
		".data.watch":                        &w.watchers,
		short(bpf.PolicerMapWatcherStatsMap): &w.stats,
		short(bpf.PolicerMapRecordRings):     &w.Rings[WatchRecord],
		short(bpf.PolicerMapMonitorRings):    &w.Rings[WatchMonitor],
	}
	ids, _ := info.MapIDs()
	for _, id := range ids {
		m, err := ebpf.NewMapFromID(id)
		if err != nil {
			return nil, err
		}
		mi, err := m.Info()
		if err == nil && wanted[mi.Name] != nil && *wanted[mi.Name] == nil {
			*wanted[mi.Name] = m
			continue
		}
		if err := errors.Join(err, m.Close()); err != nil {
			return nil, err
		}
	}
	for name, m := range wanted {
		if *m == nil {
			return nil, fmt.Errorf("%w: the kernel program has no map %s", ErrLayout, name)
		}
	}
	return w, nil
}

// short is the name as the kernel keeps it.
func short(name string) string { return name[:min(len(name), 15)] }

// Want has the program tell a watcher, whose rings must be there.
func (w *Watch) Want(kind int, o *Wanted) error {
	all, err := w.read()
	if err != nil {
		return err
	}
	if o.Colors == 0 {
		o.Colors = 1<<marker.Colors - 1
	}
	all.Watcher[kind].Colors, all.Watcher[kind].Sample, all.Watcher[kind].Budget = uint32(o.Colors), o.Sample, o.Budget
	all.Wanted |= 1 << kind
	return w.write(&all)
}

// Unwant has the program tell a watcher no more: within a grace period.
func (w *Watch) Unwant(kind int) error {
	all, err := w.read()
	if err != nil {
		return err
	}
	all.Wanted &^= 1 << kind
	return w.write(&all)
}

// Wants reports whether the program tells a watcher.
func (w *Watch) Wants(kind int) (bool, error) {
	all, err := w.read()
	return all.Wanted>>kind&1 != 0, err
}

func (w *Watch) read() (all bpf.PolicerWatchers, err error) {
	if err := w.watchers.Lookup(uint32(0), &all); err != nil {
		return all, fmt.Errorf("read who watches: %w", err)
	}
	return all, nil
}

func (w *Watch) write(all *bpf.PolicerWatchers) error {
	if err := w.watchers.Put(uint32(0), all); err != nil {
		return fmt.Errorf("write who watches: %w", err)
	}
	return nil
}

// Stats reads the counters of a kind of watcher, since the program was loaded.
func (w *Watch) Stats(kind int) (s WatchStats, err error) {
	var all []bpf.PolicerWatcherStats
	if err := w.stats.Lookup(uint32(kind), &all); err != nil {
		return s, fmt.Errorf("read the counters of who watches: %w", err)
	}
	for i := range all {
		s.Decided += all[i].Decided
		s.Written += all[i].Written
		s.Lost += all[i].Lost
		s.LeftOut += all[i].LeftOut
	}
	return s, nil
}

// Close lets go of the maps.
func (w *Watch) Close() error {
	var err error
	for _, m := range append(w.Rings[:], w.watchers, w.stats) {
		if m != nil {
			err = errors.Join(err, m.Close())
		}
	}
	return err
}
