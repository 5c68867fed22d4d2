package loader

import (
	"io/fs"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tricolor-policer/tricolor/internal/netlab"
)

// Nobody but root may open a pin, or see which there are, whatever the umask of who attaches.
func TestPinsAreRootsOwn(t *testing.T) {
	lab := newLab(t, netlab.Options{})
	defer unix.Umask(unix.Umask(0))
	for _, m := range mechanisms {
		t.Run(m.String(), func(t *testing.T) {
			needs(t, m)
			attach(t, lab.Left, AttachOptions{Mechanism: m})
			files := 0
			err := filepath.WalkDir(Root, func(path string, e fs.DirEntry, err error) error {
				if err != nil {
					return err
				}
				info, err := e.Info()
				if err != nil {
					return err
				}
				want := fs.FileMode(0o600)
				if e.IsDir() {
					want = fs.ModeDir | 0o700
				} else {
					files++
				}
				if info.Mode() != want {
					t.Errorf("%s has mode %v, want %v", path, info.Mode(), want)
				}
				return nil
			})
			if err != nil || files == 0 {
				t.Errorf("%d pins, %v", files, err)
			}
		})
	}
}
