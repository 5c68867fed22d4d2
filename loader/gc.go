package loader

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// GCOptions say what GC removes.
type GCOptions struct {
	DryRun bool // nothing: only say what would be
	Unseen bool // those too of network namespaces that are not found
}

// Garbage is pins that GC found of no use, or cannot tell.
type Garbage struct {
	Path      string // of the folder of pins
	Why       GarbageKind
	Device    string    // its name when it was attached; empty with Leftover
	Direction Direction // not with Leftover
	NetNS     uint64    // inode of the network namespace; 0 with Leftover
	Ifindex   uint32    // 0 with Leftover
	Removed   bool      // or, in a dry run, would be
}

// GarbageKind says what pins are.
type GarbageKind uint8

// The kinds.
const (
	StalePins  GarbageKind = iota // no packet meets their policer: see Stale
	Leftover                      // of a command that was killed
	UnseenPins                    // of a network namespace that is not found: nobody can tell
)

// String returns the kind's name.
func (k GarbageKind) String() string {
	switch k {
	case StalePins:
		return "stale"
	case Leftover:
		return "leftover"
	case UnseenPins:
		return "unseen"
	default:
		return fmt.Sprintf("garbage(%d)", uint8(k))
	}
}

// GC removes the pins of policers that police no longer, of all network namespaces, and what commands that
// were killed left. A clsact filter in another namespace is looked for there; where that is not found, the
// pins stay, unless o.Unseen. Pins that cannot be opened stay: the error tells of them. Nothing that polices
// is touched. Returns an error that wraps ErrPrivilege.
func GC(o GCOptions) (found []Garbage, err error) {
	h, err := openHost()
	if err != nil {
		return nil, err
	}
	defer h.close()
	if _, err := os.Lstat(Root); errors.Is(err, fs.ErrNotExist) {
		return nil, seesPins(bpffs, privateMounts())
	}
	unlock, err := lockRoot() // or what another command is making would look left
	if err != nil {
		return nil, err
	}
	defer unlock()
	found, err = h.gcLeftovers(o)
	if err != nil {
		return found, err
	}
	all, err := h.list()
	for _, a := range all {
		g, gcErr := a.gc(o)
		if g != nil {
			found = append(found, *g)
		}
		err = errors.Join(err, gcErr, a.Close())
	}
	return found, err
}

// gcLeftovers removes what killed commands left.
func (h *host) gcLeftovers(o GCOptions) (found []Garbage, err error) {
	entries, err := os.ReadDir(Root)
	if err != nil {
		return nil, explain("list the pins", err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), making) || strings.HasPrefix(e.Name(), removing) {
			found = append(found, Garbage{Path: filepath.Join(Root, e.Name()), Why: Leftover, Removed: o.DryRun})
		}
	}
	if o.DryRun {
		return found, nil
	}
	err = h.clearLeftovers()
	for i := range found {
		_, gone := os.Lstat(found[i].Path)
		found[i].Removed = errors.Is(gone, fs.ErrNotExist)
	}
	return found, err
}

// gc removes the attachment's pins where they are of no use; nil where they are.
func (a *Attachment) gc(o GCOptions) (*Garbage, error) {
	g := &Garbage{
		Path: a.ident.dir(), Device: a.About.Device, Direction: a.Direction(), NetNS: a.ident.ns, Ifindex: a.ident.ifindex,
	}
	state := a.State
	if state == Unseen {
		err := inNamespace(a.ident.ns, func(there *host) error {
			seen, err := there.find(a.ident)
			if err != nil {
				return err
			}
			state = seen.State
			return seen.Close()
		})
		if err != nil && !errors.Is(err, errNoNamespace) {
			return nil, err
		}
	}
	switch {
	case state == Stale:
		g.Why, g.Removed = StalePins, true
	case state == Unseen:
		g.Why, g.Removed = UnseenPins, o.Unseen
	default:
		return nil, nil
	}
	if o.DryRun || !g.Removed {
		return g, nil
	}
	err := removePins(a.ident.dir())
	g.Removed = err == nil
	return g, err
}
