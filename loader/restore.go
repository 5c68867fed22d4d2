package loader

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/tricolor-policer/tricolor/maps"
	"github.com/tricolor-policer/tricolor/marker"
)

// UsedSuffix names a saved file whose restoring was begun: it is not restored again, even where that came to no end.
const UsedSuffix = ".used"

// ErrUsed is returned for a saved file that was restored, or that a Restore was killed with.
var ErrUsed = errors.New("restored already")

// Restore polices a device with what Save has saved, in the direction that it was: the same policy, buckets and
// counters. In the boot that it was saved in, every bucket goes on as if nothing had been; after another one,
// whose clock says nothing of the time between, with the tokens that it had when it was saved. So at most
// B + rT passes through the old policer and the new one together. The file is used up by that: it is gone.
//
// Of o, Mechanism and Version count. Where Restore fails before a packet can have met it, the file stays. Returns what Attach does, or
// an error that wraps ErrUsed, fs.ErrNotExist, maps.ErrImage or maps.ErrLayout. The file is not trusted.
// Requires what Attach does.
func Restore(device, path string, o AttachOptions) (_ *Attachment, _ *maps.Image, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, used := os.Lstat(path + UsedSuffix); used == nil {
			return nil, nil, fmt.Errorf("%w: %s: a command was killed while it restored it, and whether packets were policed with it is not known: "+
				"attach anew, with --drained so that nobody gets a second burst, and remove it", ErrUsed, path+UsedSuffix)
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("restore: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	r, err := maps.NewImageReader(f)
	if err != nil {
		return nil, nil, fmt.Errorf("restore %s: %w", path, err)
	}
	boot, err := bootID()
	if err != nil {
		return nil, nil, err
	}
	now, err := Now()
	if err != nil {
		return nil, nil, err
	}
	rebase := r.Boot != boot
	switch {
	case rebase:
		r.Plan.Since = now
	case r.Now > now || r.Plan.Since > now:
		return nil, nil, fmt.Errorf("restore %s: %w: saved at %d ns of this boot, which is to come", path, maps.ErrImage, r.Now)
	}
	o.Direction, o.Seeds = Ingress, r.Seeds
	if r.Egress {
		o.Direction = Egress
	}
	o.fill = func(p *Program) error {
		err := p.Maps.Memory(func(sets []marker.Set) error { return r.Sets(sets, rebase, now) })
		if err != nil {
			return fmt.Errorf("restore %s: %w", path, err)
		}
		if err := p.Maps.WriteStats(&r.Stats); err != nil {
			return err
		}
		step("filled")
		if err := useUp(f, path); err != nil {
			return err
		}
		step("used up")
		return nil
	}
	o.unmet = func() error { return os.Rename(path+UsedSuffix, path) }
	a, err := Attach(device, r.Plan, o)
	if err != nil {
		return nil, nil, err
	}
	if err := os.Remove(path + UsedSuffix); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("remove what is restored: %w", err), a.Close())
	}
	return a, &r.Image, nil
}

// useUp has nobody else restore the open file at path, not after a crash either. The lock must be held.
func useUp(f *os.File, path string) error {
	ours, err := f.Stat()
	if err != nil {
		return err
	}
	there, err := os.Lstat(path)
	if err != nil || !os.SameFile(ours, there) {
		return errors.Join(fmt.Errorf("%w: %s, meanwhile", ErrUsed, path), err)
	}
	if err := os.Rename(path, path+UsedSuffix); err != nil {
		return fmt.Errorf("mark the saved file as used: %w", err)
	}
	return syncFolder(path)
}
