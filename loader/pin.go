package loader

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Root is the folder that holds every attachment's pins, each in a folder of its own. It is there as
// long as one is.
const Root = bpffs + "/tricolor"

const bpffs = "/sys/fs/bpf"

// Pins of an attachment, beside its maps.
const (
	pinProgram = "prog"
	pinLink    = "link" // TCX only
)

// Folders under Root that are no attachment: one that is being made, one that is being removed. They
// outlive a command that is killed. (A bpffs takes no name with a dot.)
const (
	making   = "new-"
	removing = "old-"
)

// ident is what tells attachments apart.
type ident struct {
	ns        uint64 // inode of the network namespace
	ifindex   uint32
	direction Direction
}

// String returns the name of the attachment's folder.
func (i ident) String() string { return fmt.Sprintf("%d-%d-%v", i.ns, i.ifindex, i.direction) }

func (i ident) dir() string { return filepath.Join(Root, i.String()) }

// parseIdent reads a folder's name; false if no attachment is called so.
func parseIdent(name string) (i ident, ok bool) {
	parts := strings.Split(name, "-")
	if len(parts) != 3 {
		return i, false
	}
	ns, nsErr := strconv.ParseUint(parts[0], 10, 64)
	ifindex, ifindexErr := strconv.ParseUint(parts[1], 10, 31)
	direction, directionErr := ParseDirection(parts[2])
	i = ident{ns, uint32(ifindex), direction}
	return i, errors.Join(nsErr, ifindexErr, directionErr) == nil && i.String() == name
}

// lockRoot takes the lock on all that lies under Root, which it makes where it is missing; it waits
// for the command that has it, until SIGINT or SIGTERM. unlock removes Root where it is empty.
func lockRoot() (unlock func(), err error) {
	for {
		if err := os.Mkdir(Root, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, explain("make the folder of the pins", err)
		}
		root, err := os.OpenFile(Root, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the last attachment was taken off meanwhile
		}
		if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
			found, do := noFolder(Root)
			return nil, fmt.Errorf("%w: %s: %s", ErrBPFFS, found, do)
		}
		if err != nil {
			return nil, explain("open the folder of the pins", err)
		}
		same, err := holdRoot(root)
		if err == nil && same {
			return func() {
				// One that is not empty stays, and one that could not be removed does no harm.
				_ = unix.Rmdir(Root)
				root.Close()
			}, nil
		}
		root.Close()
		if err != nil {
			return nil, err
		}
	}
}

// holdRoot locks the folder, and reports whether it still is the one at Root.
func holdRoot(root *os.File) (same bool, err error) {
	fd := int(root.Fd())
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		if err := waitForLock(fd); err != nil {
			return false, err
		}
	} else if err != nil {
		return false, fmt.Errorf("lock %s: %w", Root, err)
	}
	held, err := root.Stat()
	if err != nil {
		return false, fmt.Errorf("look at %s: %w", Root, err)
	}
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return false, fmt.Errorf("look at %s: %w", Root, err)
	}
	if !ownFolder(&stat) {
		return false, fmt.Errorf("%w: %s is open to others, so its pins are not trusted: look at them, and then remove it or make it root's own (%s)", ErrBPFFS, Root, closeFolder(Root))
	}
	now, err := os.Lstat(Root)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look at %s: %w", Root, err)
	}
	return os.SameFile(held, now), nil
}

// waitForLock waits for the lock on the folder open as fd. SIGINT and SIGTERM end the wait, whoever else takes
// them: then the error wraps context.Canceled.
func waitForLock(fd int) error {
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, unix.SIGINT, unix.SIGTERM)
	defer signal.Stop(interrupted)
	slog.Info("waiting for another tricolor command to end", "lock", Root)
	const pause = 20 * time.Millisecond
	for {
		err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			return fmt.Errorf("lock %s: %w", Root, err)
		}
		select {
		case <-interrupted:
			return fmt.Errorf("wait for the lock on %s: %w", Root, context.Canceled)
		case <-time.After(pause):
		}
	}
}

// ownFolder reports whether a folder is root's or this user's, and only its owner writes to it.
func ownFolder(stat *unix.Stat_t) bool {
	return (stat.Uid == 0 || int(stat.Uid) == os.Geteuid()) && stat.Mode&0o022 == 0
}

// noFolder says that something else is where the folder of the pins belongs, and what to do: nothing to its owner or
// mode, which would be those of whatever a link leads to.
func noFolder(path string) (found, do string) {
	return path + " is not a folder but a link or a file, which tricolor never makes", "look at it, and then: rm " + path
}

func closeFolder(dir string) string { return "chown root " + dir + "; chmod 700 " + dir }

// seesPins returns an error where pins may be that this process cannot see: no bpffs is mounted, and its mount
// namespace is not the host's.
func seesPins(dir string, private bool) error {
	if mounted, err := isBPFFS(dir); err != nil || mounted || !private {
		return err
	}
	return fmt.Errorf("%w: none is mounted at %s, and this mount namespace is not the host's: what is policed cannot be seen from here. "+
		"ip netns exec makes such a one: use nsenter --net=/run/netns/NAME", ErrBPFFS, dir)
}

// needBPFFS makes sure that a bpffs is mounted at dir. Where it would be in a mount namespace that is not
// the host's (private) it is not mounted, but said how: pins there end with the namespace.
func needBPFFS(dir string, private bool) error {
	mounted, err := isBPFFS(dir)
	if err != nil || mounted {
		return err
	}
	if private {
		return fmt.Errorf("%w: none is mounted at %s, and this mount namespace is not the host's: policing would end with it. "+
			"ip netns exec makes such a one: use nsenter --net=/run/netns/NAME; or mount it yourself: %s", ErrBPFFS, dir, byHand(dir))
	}
	if err := mountBPFFS(dir); err != nil {
		return err
	}
	slog.Info("mounted a bpffs, which was missing", "at", dir)
	return nil
}

// privateMounts reports whether this process is known to be in another mount namespace than the host's: that of
// process 1, or, where it may not be looked at, of a process that this one comes from (`ip netns exec` is run
// by a shell of the host).
func privateMounts() bool {
	ours, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return false
	}
	const generations = 64 // bounds the walk, should processes come and go meanwhile
	pid := os.Getppid()
	for range generations {
		if theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", pid)); err == nil && theirs != ours {
			return true
		}
		if pid <= 1 {
			return false
		}
		if pid = parentOf(pid); pid == 0 {
			pid = 1
		}
	}
	return false
}

// parentOf returns a process's parent, or 0.
func parentOf(pid int) int {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	var parent int
	var state string
	after := stat[bytes.LastIndexByte(stat, ')')+1:] // the name before may hold anything
	if _, err := fmt.Sscan(string(after), &state, &parent); err != nil {
		return 0
	}
	return parent
}

func isBPFFS(dir string) (bool, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return false, fmt.Errorf("%w: look at %s, where one is to be: %w", ErrBPFFS, dir, err)
	}
	return stat.Type == unix.BPF_FS_MAGIC, nil
}

func mountBPFFS(dir string) error {
	err := unix.Mount("bpf", dir, "bpf", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC|unix.MS_RELATIME, "mode=0700")
	if err != nil {
		return explain(fmt.Sprintf("mount a bpffs at %s, which has none (by hand: %s)", dir, byHand(dir)), err)
	}
	return nil
}

func byHand(dir string) string { return "mount -t bpf none " + dir }

func remount(dir string) string { return "mount -o remount,rw " + dir }

// removePins removes an attachment's folder, at once so far as others can see. The lock must be held.
func removePins(dir string) error {
	gone := filepath.Join(Root, removing+filepath.Base(dir))
	if err := os.Rename(dir, gone); err != nil {
		return explain("set aside "+dir, err)
	}
	step("set aside")
	if err := os.RemoveAll(gone); err != nil {
		return fmt.Errorf("remove the pins: %w", err)
	}
	return nil
}

// clearLeftovers removes what commands that were killed left half made or half removed. What it cannot
// remove it leaves to the next. The lock must be held.
func (h *host) clearLeftovers() error {
	entries, err := os.ReadDir(Root)
	if err != nil {
		return explain("list the pins", err)
	}
	for _, e := range entries {
		dir := filepath.Join(Root, e.Name())
		switch {
		case strings.HasPrefix(e.Name(), making):
			// Its hook may have been taken already.
			a, err := h.open(dir)
			if err == nil {
				err = errors.Join(a.unhook(h, true), a.Close())
				if err != nil {
					slog.Warn("a command was killed while it attached, and its remains cannot be removed from here", "pins", dir, "error", err)
					continue
				}
			}
		case strings.HasPrefix(e.Name(), removing):
		default:
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove what a killed command left: %w", err)
		}
	}
	return nil
}
