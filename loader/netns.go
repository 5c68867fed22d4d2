package loader

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// namespacePaths are where a network namespace may be found: by name, or as that of a process or thread, or as
// an open file of one.
var namespacePaths = []string{
	"/run/netns/*", "/run/docker/netns/*", "/proc/[0-9]*/ns/net", "/proc/[0-9]*/task/[0-9]*/ns/net", "/proc/[0-9]*/fd/*",
}

// errNoNamespace is returned where a network namespace is not found. It may be gone, or be kept by what
// has no path: a socket, or a name in another mount namespace.
var errNoNamespace = errors.New("no such network namespace is found")

// inNamespace runs f in the network namespace with this inode, on a thread of its own. Returns
// errNoNamespace. Requires CAP_SYS_ADMIN.
func inNamespace(inode uint64, f func(*host) error) error {
	file, err := openNamespace(inode)
	if err != nil {
		return err
	}
	defer file.Close()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		done <- func() error {
			if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
				return explain(fmt.Sprintf("enter the network namespace with inode %d", inode), err)
			}
			h, err := openHost()
			if err != nil {
				return err
			}
			defer h.close()
			return f(h)
		}()
	}()
	return <-done
}

// openNamespace finds a network namespace by its inode.
func openNamespace(inode uint64) (*os.File, error) {
	var home unix.Stat_t // all namespaces lie on one device
	if err := unix.Stat("/proc/self/ns/net", &home); err != nil {
		return nil, fmt.Errorf("tell network namespaces apart: %w", err)
	}
	is := func(info os.FileInfo) bool {
		stat, ok := info.Sys().(*syscall.Stat_t)
		return ok && stat.Ino == inode && stat.Dev == home.Dev
	}
	for _, pattern := range namespacePaths {
		paths, _ := filepath.Glob(pattern) // the patterns are well formed
		for _, path := range paths {
			if info, err := os.Stat(path); err != nil || !is(info) {
				continue // processes come and go
			}
			file, err := os.Open(path)
			if err != nil {
				continue
			}
			if info, err := file.Stat(); err == nil && is(info) {
				return file, nil
			}
			file.Close()
		}
	}
	return nil, fmt.Errorf("%w: inode %d", errNoNamespace, inode)
}
