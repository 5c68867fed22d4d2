package loader

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/perf"
	"golang.org/x/sys/unix"

	"github.com/tricolor-policer/tricolor/maps"
	"github.com/tricolor-policer/tricolor/marker"
)

// WatchOptions say which decisions of a policer a Watch is told.
type WatchOptions struct {
	Monitor bool   // it takes the place of who monitors; else of who records: there is one of each
	Colors  uint8  // bit c: decisions of marker.Color c; 0: of all
	Sample  uint32 // one in so many, of each CPU; 0 and 1: all
	Budget  uint64 // decisions a second, of each CPU; 0: any
	Ring    int    // bytes between kernel and reader, for each CPU; 0: 16 MiB
}

// Watch reads the decisions of a policer as they are made. It ends with the process, however that ends: the
// rings are the process's own, and the program stops to tell by itself when they are gone.
type Watch struct {
	maps   *maps.Watch
	kind   int
	reader *perf.Reader
	record perf.Record
	only   net.Listener // nobody else does the same as long as it is there
	before maps.WatchStats
	on     bool
	passes int // over the rings, since Stop
}

var (
	// ErrBuild is returned where another build's kernel program polices, and only this build's would do.
	ErrBuild = errors.New("another version of tricolor polices")
	// ErrWatched is returned where somebody watches already.
	ErrWatched = errors.New("somebody does that already")
)

const (
	ringBytes = 16 << 20
	// readEvery is how long a Read waits before it looks by itself: the kernel wakes it only where a ring
	// fills, since that costs packets.
	readEvery = 10 * time.Millisecond
)

// Watch starts to read the decisions of an attachment. Everything decided after it returned is told or counted.
// Returns an error that wraps ErrBuild, ErrWatched or ErrPrivilege. Requires CAP_SYS_ADMIN besides what Attach does. The caller closes it.
func (a *Attachment) Watch(o WatchOptions) (*Watch, error) {
	if !a.SameBuild() {
		return nil, fmt.Errorf("%w %s: its decisions cannot be read; put this one's program in its place: tricolor upgrade %[2]s --direction %v", ErrBuild, a.Device, a.Direction())
	}
	return watch(a.program, o)
}

func watch(policer *ebpf.Program, o WatchOptions) (_ *Watch, err error) {
	id, err := programID(policer)
	if err != nil {
		return nil, err
	}
	w := &Watch{kind: maps.WatchRecord}
	if o.Monitor {
		w.kind = maps.WatchMonitor
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Close())
		}
	}()
	name := fmt.Sprintf("@tricolor-watch-%d-%d", id, w.kind)
	w.only, err = net.Listen("unix", name)
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return nil, fmt.Errorf("%w: one at a time records or monitors the same policer: wait for the other, or end it", ErrWatched)
	case err != nil:
		return nil, fmt.Errorf("see that nobody else watches: %w", err)
	}
	if w.maps, err = maps.OpenWatch(policer); err != nil {
		return nil, explain("open the maps of the kernel program", err)
	}
	if o.Ring == 0 {
		o.Ring = ringBytes
	}
	w.reader, err = perf.NewReaderWithOptions(w.maps.Rings[w.kind], o.Ring, perf.ReaderOptions{Watermark: o.Ring / 4})
	if err != nil {
		return nil, explain("make the rings", err)
	}
	if w.before, err = w.maps.Stats(w.kind); err != nil {
		return nil, err
	}
	if err = w.maps.Want(w.kind, &maps.Wanted{Colors: o.Colors, Sample: o.Sample, Budget: o.Budget}); err != nil {
		return nil, err
	}
	w.on = true
	return w, nil
}

// Read reads the next decision: those of one CPU by time, those of several as they come. Returns io.EOF once it was
// stopped and all are read; os.ErrDeadlineExceeded where none is left to be read now.
func (w *Watch) Read(d *maps.Decision) error {
	w.reader.SetDeadline(time.Now().Add(readEvery))
	for {
		err := w.reader.ReadInto(&w.record)
		switch {
		case err == nil && len(w.record.RawSample) == 0:
			continue // a note of losses, which the counters have too
		case err == nil:
			err = d.Parse(w.record.RawSample)
			d.CPU = w.record.CPU
			return err
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return fmt.Errorf("read the rings: %w", err)
		case w.on:
			return os.ErrDeadlineExceeded
		}
		// What this pass over the rings read may have been there before Stop; what the next finds is all.
		if w.passes++; w.passes > 1 {
			return io.EOF
		}
		return os.ErrDeadlineExceeded
	}
}

// Told reports whether decisions are still told: the program stops by itself where a CPU has no ring, as one
// has not that came after Watch.
func (w *Watch) Told() (bool, error) {
	wanted, err := w.maps.Wants(w.kind)
	return wanted && w.on, err
}

// Stop ends it: no decision is told any more when it returns. What was told is still to be read.
func (w *Watch) Stop() error {
	if !w.on {
		return nil
	}
	w.on = false
	return errors.Join(w.maps.Unwant(w.kind), gracePeriod())
}

// Stats reads the counters since it began. While it goes on they may be some packets apart.
func (w *Watch) Stats() (maps.WatchStats, error) {
	now, err := w.maps.Stats(w.kind)
	return now.Since(w.before), err
}

// Close ends it, and lets go of everything.
func (w *Watch) Close() error {
	var err error
	if w.maps != nil {
		err = w.Stop()
	}
	if w.reader != nil {
		err = errors.Join(err, w.reader.Close())
	}
	if w.maps != nil {
		err = errors.Join(err, w.maps.Close())
	}
	if w.only != nil {
		err = errors.Join(err, w.only.Close())
	}
	return err
}

// Polices reports whether the program that was found is still the one that polices: an upgrade puts another in
// its place. It must be called in the attachment's network namespace.
func (a *Attachment) Polices() (bool, error) {
	h, err := openHost()
	if err != nil {
		return false, err
	}
	defer h.close()
	now, err := h.find(a.ident)
	if errors.Is(err, ErrNotAttached) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return now.ProgramID == a.ProgramID && now.State != Stale, now.Close()
}

// PlanOf returns the policy of a generation that a decision names; nil where it is gone, since two changes came after it.
func (a *Attachment) PlanOf(generation uint32) (*marker.Plan, error) {
	now, err := Now()
	if err != nil {
		return nil, err
	}
	plan, _, err := InForce(a.Maps, now)
	if err == nil && plan.Generation != generation {
		plan, err = a.Maps.ReadCopy(generation & 1)
	}
	if err != nil || plan.Generation != generation {
		return nil, err
	}
	return plan, nil
}
