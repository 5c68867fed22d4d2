package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// namedNamespaces are where network namespaces have names.
const namedNamespaces = "/run/netns"

// namespace says which network namespace has an inode: by its name, where it has one.
func namespace(inode uint64) string {
	entries, _ := os.ReadDir(namedNamespaces)
	for _, e := range entries {
		if path := filepath.Join(namedNamespaces, e.Name()); inodeOf(path) == inode {
			return fmt.Sprintf("another network namespace (inode %d, %s)", inode, path)
		}
	}
	return fmt.Sprintf("another network namespace (inode %d)", inode)
}

// ownNetNS is the inode of this command's network namespace; 0 where it cannot be told.
func ownNetNS() uint64 { return inodeOf("/proc/self/ns/net") }

// inodeOf is a file's inode; 0 where it cannot be told.
func inodeOf(path string) uint64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Ino
	}
	return 0
}
