package main

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// An image is an initramfs that is being written: a cpio archive of the "newc" format, each entry a header
// of 110 bytes in ASCII, a name and data, each padded to 4 bytes (Linux, Documentation/driver-api/early-userspace/buffer-format.rst).
type image struct {
	w     *bufio.Writer
	inode int
	dirs  map[string]bool
	err   error // the first
}

func newImage(w io.Writer) *image {
	return &image{w: bufio.NewWriter(w), dirs: map[string]bool{".": true}}
}

// finish ends the archive and returns the first error of any call.
func (i *image) finish() error {
	i.entry("TRAILER!!!", 0, nil)
	if i.err != nil {
		return i.err
	}
	return i.w.Flush()
}

func (i *image) entry(name string, mode uint32, data []byte) {
	if i.err != nil {
		return
	}
	i.inode++
	pad := func(n int) string { return "\x00\x00\x00"[:-n&3] }
	// Inode, mode, uid, gid, links, mtime, size; the device's four numbers; the name's size; a sum that is unused.
	_, i.err = fmt.Fprintf(i.w, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00%s",
		i.inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name)+1, 0, name, pad(110+len(name)+1))
	if i.err == nil {
		_, i.err = i.w.Write(data)
	}
	if i.err == nil {
		_, i.err = i.w.WriteString(pad(len(data)))
	}
}

// dir adds a folder and those above it, once.
func (i *image) dir(name string) {
	if i.dirs[name] {
		return
	}
	i.dirs[name] = true
	i.dir(filepath.Dir(name))
	i.entry(name, 0o040755, nil)
}

// add adds a file.
func (i *image) add(name string, data []byte, mode fs.FileMode) {
	i.dir(filepath.Dir(name))
	i.entry(name, 0o100000|uint32(mode.Perm()), data)
}

// copy adds the file at path.
func (i *image) copy(name, path string) {
	info, err := os.Stat(path)
	if err == nil {
		var data []byte
		if data, err = os.ReadFile(path); err == nil {
			i.add(name, data, info.Mode())
			return
		}
	}
	if i.err == nil {
		i.err = err
	}
}

// copyAll adds the files below the folder root for whose names, below root, keep answers true.
func (i *image) copyAll(name, root string, keep func(name string, info fs.FileInfo) bool) {
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		switch {
		case entry.IsDir() && below != "." && (strings.HasPrefix(entry.Name(), ".") || below == "bin"):
			return fs.SkipDir
		case entry.IsDir():
			i.dir(filepath.Join(name, below))
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if info.Mode().IsRegular() && keep(below, info) {
			i.copy(filepath.Join(name, below), path)
		}
		return nil
	})
	if i.err == nil {
		i.err = err
	}
}
