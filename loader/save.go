package loader

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tricolor-policer/tricolor/maps"
	"github.com/tricolor-policer/tricolor/marker"
)

// SaveName is the file, in a folder of such, of what polices a device in a direction.
func SaveName(device string, d Direction) string { return fmt.Sprintf("%s.%v.save", device, d) }

// Save takes the policer off its hook, has a file hold all that it knows, and removes its pins: what Detach
// does, but that Restore has it go on. The file appears whole or not at all, readable to root alone. A policy
// that nobody confirmed goes with its time: the one before is saved. What is stale is saved as well: with its
// device gone, no packet has met it since.
//
// Killed at any moment, the pins hold all of it, or the file does; the next Save finishes the work. Where
// the file cannot be begun the device is policed on; an error after that says so. Returns an error that
// wraps ErrNotAttached or ErrPrivilege. Requires what Attach does; a clsact filter can be taken off from
// within its own network namespace only.
func (a *Attachment) Save(path, version string) error {
	h, release, err := a.holdToTakeOff()
	if err != nil {
		return err
	}
	defer release()
	out, err := beginFile(path)
	if err != nil {
		return err
	}
	if err := a.unhook(h, false); err != nil {
		return errors.Join(err, out.discard())
	}
	step("unhooked")
	a.State = Stale
	if err := a.write(out, version); err != nil {
		return fmt.Errorf("%s %v is policed no longer, and could not be saved; its pins still hold its buckets, to be saved elsewhere: %w",
			a.Device, a.Direction(), err)
	}
	step("saved")
	return removePins(a.ident.dir())
}

// write writes all that an attachment holds that no packet meets any more.
func (a *Attachment) write(out *wholeFile, version string) error {
	image, err := a.image(version)
	if err == nil {
		err = a.Maps.Memory(func(sets []marker.Set) error { return image.Write(out, sets) })
	}
	if err != nil {
		return errors.Join(err, out.discard())
	}
	step("written out")
	return out.commit()
}

// image settles all buckets, and reads the rest.
func (a *Attachment) image(version string) (*maps.Image, error) {
	if err := gracePeriod(); err != nil {
		return nil, err
	}
	boot, err := bootID()
	if err != nil {
		return nil, err
	}
	now, err := Now()
	if err != nil {
		return nil, err
	}
	plan, pending, err := InForce(a.Maps, now)
	if err != nil {
		return nil, err
	}
	if pending != 0 { // its time is over
		if err := a.Maps.Switch(plan.Generation, now); err != nil {
			return nil, err
		}
	}
	c, err := NewChanger(a.Maps, false)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(c.settleAll(plan.Geometry.Sets, now), c.Close()); err != nil {
		return nil, err
	}
	step("settled")
	if now, err = Now(); err != nil {
		return nil, err
	}
	if plan, _, err = InForce(a.Maps, now); err != nil {
		return nil, err
	}
	_, seeds, err := a.Maps.ReadTable()
	if err != nil {
		return nil, err
	}
	stats, err := a.Maps.AllStats()
	if err != nil {
		return nil, err
	}
	return &maps.Image{
		Boot: boot, Now: now, Date: uint64(time.Now().Unix()), Device: a.Device, Egress: a.About.Egress, Version: version,
		Seeds: seeds, Plan: plan, Stats: stats,
	}, nil
}

// bootID tells one boot of the kernel, and its clock, from all others. Tests have it be another.
var bootID = func() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("tell this boot from others: %w", err)
	}
	return strings.TrimSpace(string(id)), nil
}

// wholeFile is a file that appears whole, on the disk too, or not at all.
type wholeFile struct {
	*os.File
	path string
}

func beginFile(path string) (*wholeFile, error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return nil, fmt.Errorf("save to %s: %w", path, err)
	}
	return &wholeFile{f, path}, nil
}

func (f *wholeFile) commit() error {
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	if err := os.Rename(f.Name(), f.path); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncFolder(f.path)
}

func (f *wholeFile) discard() error { return errors.Join(f.Close(), os.Remove(f.Name())) }

// syncFolder has a file's name reach the disk.
func syncFolder(path string) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
