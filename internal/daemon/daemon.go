// Package daemon keeps devices policed by the files of a folder: it attaches when a device appears or comes back, and
// applies what has changed when told to. What is attached goes on without it.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/tricolor-policer/tricolor/loader"
	"github.com/tricolor-policer/tricolor/marker"
	"github.com/tricolor-policer/tricolor/policy"
)

// Options say what a Daemon works with.
type Options struct {
	Config  string // folder of the policies
	Saved   string // folder of what was saved, and is restored; made where it is missing
	Version string // of tricolor
	Log     *slog.Logger

	// Notify is told of READY=1 and the like, as sd_notify(3) takes it; nil: nobody is.
	Notify func(state string)
}

// Daemon keeps devices policed.
type Daemon struct {
	Options
	wanted map[target]*wanted
	done   map[target]int // index of the device that the policy was last put on, or tried to be; 0: no device
	failed map[target]bool
}

// ErrRefused is what Run's error wraps where a policy was not in force at its end.
var ErrRefused = errors.New("not in force")

// retry is how often what failed is tried again, though nothing was heard.
const retry = 30 * time.Second

// Run polices until ctx ends: then policing goes on, without it. Each reload has the files be read again; one that
// is refused leaves its device policed as it was. Returns an error that wraps ErrRefused where a policy that there
// is a file of is not in force at the end, though its device is there; or another where it could not begin.
// Works in the network namespace of the process. Requires what loader.Attach does.
func (d *Daemon) Run(ctx context.Context, reload <-chan os.Signal) error {
	var err error
	if d.wanted, err = readConfig(d.Config); err != nil {
		return err
	}
	if err := os.MkdirAll(d.Saved, 0o700); err != nil {
		d.Log.Warn("there is no folder for what is saved: buckets start anew when a device comes back", "error", err)
	}
	d.done, d.failed = map[target]int{}, map[target]bool{}
	links := watch(ctx, d.Log)
	d.tell()
	d.reconcile(false)
	d.notify("READY=1")
	again := time.NewTicker(retry)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			d.notify("STOPPING=1")
			return d.end()
		case <-reload:
			d.reload()
		case <-links:
			d.reconcile(false)
		case <-again.C:
			for t := range d.failed {
				if w := d.wanted[t]; w != nil && w.policy != nil {
					delete(d.done, t)
				}
			}
			d.reconcile(false)
		}
	}
}

// end says what is not in force.
func (d *Daemon) end() error {
	var errs []error
	for _, t := range inOrder(d.failed) {
		errs = append(errs, fmt.Errorf("%v: its policy is %w: the log says why", t, ErrRefused))
	}
	d.Log.Info("stopped; what is policed is policed on")
	return errors.Join(errs...)
}

func (d *Daemon) notify(state string) {
	if d.Notify != nil {
		d.Notify(state)
	}
}

// tell says of each file that it was refused.
func (d *Daemon) tell() {
	for _, t := range inOrder(d.wanted) {
		if err := d.wanted[t].err; err != nil {
			d.Log.Error("a policy is refused; what polices the device, if anything does, stays", "target", t.String(), "file", d.wanted[t].file, "error", err)
		}
	}
}

// reload reads the files again, and applies what has changed.
func (d *Daemon) reload() {
	d.notify(reloading())
	before := d.wanted
	next, err := readConfig(d.Config)
	if err != nil {
		d.Log.Error("nothing is reloaded", "error", err)
	} else {
		d.wanted = next
		d.tell()
		for _, t := range inOrder(before) {
			if next[t] == nil {
				d.Log.Warn("its policy file is gone; it is policed on as it was, until tricolor detach", "target", t.String())
				delete(d.done, t)
				delete(d.failed, t)
			}
		}
		d.reconcile(true)
	}
	d.notify("READY=1")
}

// reconcile puts policies on devices that came since the last time; with all, on those too that have one.
func (d *Daemon) reconcile(all bool) {
	for _, t := range inOrder(d.wanted) {
		w := d.wanted[t]
		index := indexOf(t.device)
		was, known := d.done[t]
		if known && was == index && !all && !d.stale(t, index) {
			continue
		}
		d.done[t] = index
		delete(d.failed, t)
		switch {
		case w.policy == nil:
			d.failed[t] = true
		case index == 0:
			d.Log.Info("waiting for the device", "target", t.String())
		default:
			if err := d.police(t, w); err != nil {
				d.failed[t] = true
				d.Log.Error("its policy is not in force", "target", t.String(), "file", w.file, "error", err)
			}
		}
	}
	policed := 0
	for t, index := range d.done {
		if index != 0 && !d.failed[t] {
			policed++
		}
	}
	d.notify(fmt.Sprintf("STATUS=%d policed, %d waiting, %d refused", policed, len(d.wanted)-policed-len(d.failed), len(d.failed)))
}

// stale reports whether a device that is there is another one than was policed, though of the same index, or
// somebody took the program off its hook. What "tricolor detach" took off is left so.
func (d *Daemon) stale(t target, index int) bool {
	if index == 0 || d.failed[t] {
		return false
	}
	a, err := loader.Find(t.device, t.direction)
	if err != nil {
		return false
	}
	is := a.State == loader.Stale
	if err := a.Close(); err != nil {
		d.Log.Warn("close what was looked at", "error", err)
	}
	return is
}

// police has a device that is there be policed by a file.
func (d *Daemon) police(t target, w *wanted) error {
	saved := filepath.Join(d.Saved, loader.SaveName(t.device, t.direction))
	a, err := loader.Find(t.device, t.direction)
	switch {
	case errors.Is(err, loader.ErrNotAttached):
		return d.attach(t, w, saved)
	case err != nil:
		return err
	case a.State == loader.Stale: // the device came back: so do its buckets
		err := a.Save(saved, d.Version)
		if err != nil {
			d.Log.Warn("its buckets cannot be kept", "target", t.String(), "error", err)
		}
		return errors.Join(a.Close(), d.attach(t, w, saved))
	}
	if err := d.discard(saved, t, "it was policed since"); err != nil {
		return errors.Join(err, a.Close())
	}
	return errors.Join(d.apply(t, w, a), a.Close())
}

// attach restores what was saved, and has the file's policy follow; without it buckets start empty, as of boot.
func (d *Daemon) attach(t target, w *wanted, saved string) error {
	options := loader.AttachOptions{Direction: t.direction, Version: d.Version, Drained: true}
	a, image, err := loader.Restore(t.device, saved, options)
	switch {
	case err == nil:
		d.Log.Info("policed again, with the buckets that were saved", "target", t.String(), "hook", a.Mechanism.String(), "saved", time.Unix(int64(image.Date), 0))
		return errors.Join(d.apply(t, w, a), a.Close())
	case errors.Is(err, fs.ErrNotExist):
	default:
		d.Log.Warn("what was saved is not restored: buckets start empty, as of boot", "target", t.String(), "error", err)
	}
	plan, err := w.policy.Compile()
	if err != nil {
		return err
	}
	if a, err = loader.Attach(t.device, plan, options); err != nil {
		return err
	}
	d.Log.Info("policed", "target", t.String(), "hook", a.Mechanism.String(), "file", w.file)
	return errors.Join(d.discard(saved, t, "it is policed anew"), a.Close())
}

// discard removes what was saved, whole or half used: restored later it would grant tokens twice.
func (d *Daemon) discard(saved string, t target, why string) error {
	for _, file := range []string{saved, saved + loader.UsedSuffix} {
		err := os.Remove(file)
		switch {
		case err == nil:
			d.Log.Warn("what was saved is removed", "target", t.String(), "file", file, "since", why)
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	return nil
}

// errSame stops a change of nothing.
var errSame = errors.New("nothing changes")

// apply puts the file's policy in force where it differs.
func (d *Daemon) apply(t target, w *wanted, a *loader.Attachment) error {
	var changes []policy.Change
	_, err := a.Change(0, func(prev *marker.Plan) (*marker.Plan, error) {
		next, err := w.policy.CompileAfter(prev)
		if err != nil {
			return nil, err
		}
		if changes = policy.Diff(prev, next); policy.Unchanged(changes) {
			return nil, errSame
		}
		return next, nil
	})
	switch {
	case errors.Is(err, errSame):
		d.Log.Info("policed already, by the same policy", "target", t.String())
		return nil
	case err != nil:
		return fmt.Errorf("the policy before stays: %w", err)
	}
	for _, c := range changes {
		if c.Kind != policy.Kept {
			d.Log.Info("changed", "target", t.String(), "part", c.Part, "how", c.Kind.String(), "text", c.Text)
		}
	}
	return nil
}
