package capture

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/klauspost/compress/gzip"
)

// input is one file's content, decompressed where it is gzipped, and how far
// it was read.
type input struct {
	window
	name    string
	size    int64
	section *io.SectionReader
	gzipped bool
	close   func() error
	records int64 // whole records taken so far, for the errors
	began   int64 // the byte of the content (where gzipped, unzipped) at which the record or block begins, likewise
}

// openInput opens a regular file that is not empty. A FIFO does not make it
// wait.
func openInput(path string) (*input, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fail(path, fs.ErrNotExist, "no such file")
	}
	if err != nil {
		var pathErr *fs.PathError
		if errors.As(err, &pathErr) {
			err = pathErr.Err
		}
		return nil, fail(path, err, "cannot be opened: %v", err)
	}
	in, err := inputOf(path, f)
	if err != nil {
		f.Close()
		return nil, err
	}
	in.close = f.Close
	return in, nil
}

func inputOf(path string, f *os.File) (*input, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, fail(path, err, "cannot be examined: %v", err)
	}
	switch mode := info.Mode(); {
	case mode.IsDir():
		return nil, fail(path, ErrNotRegular, "is a directory: name a file in it")
	case !mode.IsRegular():
		return nil, fail(path, ErrNotRegular, "is not a regular file: save the capture in a file first")
	}
	return newInput(path, f, info.Size())
}

// newInput is the content of size bytes at r.
func newInput(name string, r io.ReaderAt, size int64) (*input, error) {
	if size == 0 {
		return nil, fail(name, ErrEmpty, "the file is empty")
	}
	in := &input{
		name:    name,
		size:    size,
		section: io.NewSectionReader(r, 0, size),
		close:   func() error { return nil },
	}
	// One byte more than a small file has, so that its end is read as such.
	in.window = window{src: in.section, buf: make([]byte, min(readSize, size+1)), most: int(min(windowSize, size+1))}
	var magic [3]byte
	if n, _ := r.ReadAt(magic[:], 0); n < len(magic) || !bytes.Equal(magic[:], []byte{0x1f, 0x8b, 8}) {
		return in, nil
	}
	in.gzipped = true
	in.buf, in.most = make([]byte, readSize), windowSize
	unzip, err := gzip.NewReader(bufio.NewReaderSize(in.section, 64<<10))
	if err != nil {
		in.err = err
	} else {
		in.src = unzip
	}
	if !in.have(1) {
		if in.err != io.EOF {
			return nil, in.end(1)
		}
		return nil, fail(name, ErrEmpty, "the gzip file holds nothing")
	}
	return in, nil
}

// offset is how many bytes of the file were read: exact, or where it is
// gzipped up to a buffer ahead.
func (in *input) offset() int64 {
	at, _ := in.section.Seek(0, io.SeekCurrent)
	if !in.gzipped {
		at -= int64(in.buffered())
	}
	return at
}

// end says why nothing follows here: io.EOF where the file may end, else what
// is wrong. promised > 0 says that something should follow.
func (in *input) end(promised int64) error {
	if in.gzipped && errors.Is(in.err, io.ErrUnexpectedEOF) {
		return in.cut("the gzip stream after "+after(in.records), 0, 0)
	}
	if in.gzipped && in.err != io.EOF {
		return in.damaged("the gzip stream is damaged after %s: %v", after(in.records), in.err)
	}
	if in.err != io.EOF {
		return fail(in.name, in.err, "cannot be read after %s: %v", after(in.records), in.err)
	}
	if promised > 0 {
		return in.cut("what follows "+after(in.records), promised, int64(in.buffered()))
	}
	return io.EOF
}

// begin notes that a record or block begins here.
func (in *input) begin() { in.began = in.taken }

// damaged is the error of a file that contradicts itself in the record or
// block that began last.
func (in *input) damaged(format string, args ...any) error {
	return fail(in.name, ErrDamaged, place(in.began, in.gzipped)+format, args...)
}

// cut is the error of a file that ends in the record or block that began last.
func (in *input) cut(what string, promised, left int64) error {
	return &CutError{
		File: in.name, Record: in.records + 1, What: what, Offset: in.began, Unzipped: in.gzipped,
		Promised: promised, Left: left,
	}
}

// cutRecord is the error of a next record that is not whole.
func (in *input) cutRecord(promised, left int) error {
	if in.err != io.EOF && !errors.Is(in.err, io.ErrUnexpectedEOF) {
		return in.end(int64(promised))
	}
	return in.cut(recordName(in.records+1), int64(promised), int64(left))
}
