package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// outFile is a file that appears whole or not at all: it is written beside its place, then renamed.
type outFile struct {
	*os.File
	path string
}

// createOut begins to write path. It refuses, as usage, a path that is the input file, or is there and
// no regular file.
func createOut(flag, path, input string) (*outFile, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("--%s: %w", flag, err)
	case !info.Mode().IsRegular():
		return nil, usage("--%s %s: is there, and is not a regular file: name another", flag, path)
	default:
		if in, err := os.Stat(input); err == nil && os.SameFile(in, info) {
			return nil, usage("--%s %s: is the file that is read: name another", flag, path)
		}
	}
	part := filepath.Join(filepath.Dir(path), fmt.Sprintf(".%s.%d.part", filepath.Base(path), os.Getpid()))
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		var pathErr *fs.PathError
		if errors.As(err, &pathErr) {
			err = pathErr.Err // without the name of the part
		}
		return nil, fmt.Errorf("--%s %s: cannot be written: %w", flag, path, err)
	}
	return &outFile{f, path}, nil
}

// commit puts the file in its place.
func (f *outFile) commit() error {
	if err := f.Close(); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", f.path, err), os.Remove(f.Name()))
	}
	if err := os.Rename(f.Name(), f.path); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// discard leaves the place as it was.
func (f *outFile) discard() error { return errors.Join(f.Close(), os.Remove(f.Name())) }
