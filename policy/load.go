package policy

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// MaxFile bounds a policy file, in bytes.
const MaxFile = 1 << 20

// Load reads a policy file, and the files of prefixes that it names, which lie in its folder or below.
//
// Its error wraps ErrPolicy and joins everything that is wrong, in the order of the lines: each says
// file:line:column, what is wrong and what would be right, and shows the line; see Faults.
func Load(path string) (*Policy, error) {
	refuse := func(err error) error {
		var p *os.PathError
		if errors.As(err, &p) {
			err = p.Err
		}
		return &Fault{Place: Place{File: path}, Text: fmt.Sprintf("the policy cannot be read: %v", err)}
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, refuse(err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, MaxFile+1))
	if err != nil {
		return nil, refuse(err)
	}
	dir, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, refuse(err)
	}
	defer dir.Close()
	return Parse(path, text, func(name string) (io.ReadCloser, error) {
		return openBeside(dir, name)
	})
}

// openBeside opens a regular file in a folder or below. A policy is often applied by root and written by
// others: no name, and no link, leads elsewhere; nothing that is no file is waited for.
func openBeside(dir *os.Root, name string) (io.ReadCloser, error) {
	if !filepath.IsLocal(name) {
		return nil, errors.New("it must lie beside the policy file or below: no path with .. and none that begins with /")
	}
	info, err := dir.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		return nil, errors.New("it is no regular file")
	}
	if err == nil {
		var file *os.File
		if file, err = dir.Open(name); err == nil {
			return file, nil
		}
	}
	var p *os.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return nil, err
}

// besideFile is the path of a file that a policy file names, as a person would open it.
func besideFile(policy, name string) string {
	return filepath.Join(filepath.Dir(policy), name)
}
