package capture

import (
	"errors"
	"fmt"
	"io"
)

// Errors of this package, for errors.Is. A missing file is fs.ErrNotExist. The
// text of the error returned is one line that names the file, and where it is
// damaged or cut the byte at which the record or block in question begins.
var (
	// ErrNotRegular: a directory, FIFO, socket or device.
	ErrNotRegular = errors.New("not a regular file")
	// ErrEmpty: a file of 0 bytes (also a gzip file that holds none).
	ErrEmpty = errors.New("empty file")
	// ErrFormat: neither a pcap nor a pcapng, or a version of them not read.
	ErrFormat = errors.New("unknown format")
	// ErrDamaged: the file contradicts itself.
	ErrDamaged = errors.New("damaged file")
	// ErrLinkType: a link type that is not read.
	ErrLinkType = errors.New("unsupported link type")
)

// fileError is one sentinel with a file and a text of its own.
type fileError struct {
	file string
	kind error
	text string
}

func (e *fileError) Error() string { return e.file + ": " + e.text }
func (e *fileError) Unwrap() error { return e.kind }

func fail(file string, kind error, format string, args ...any) error {
	return &fileError{file, kind, fmt.Sprintf(format, args...)}
}

// CutError says that a file ends in the middle of something. Every whole
// record before it was delivered. It wraps io.ErrUnexpectedEOF.
type CutError struct {
	File     string
	Record   int64  // the record that could not be read, from 1; 0: the file's own header
	What     string // what is cut, as a person would say it: "record 17"
	Offset   int64  // the byte of the content, from 0, at which it begins
	Unzipped bool   // the file is gzipped: Offset counts unzipped bytes
	Promised int64  // bytes it should have; 0 where not known
	Left     int64  // bytes of it that are there
}

// Error is one line: "x.pcap: at byte 984: record 17 is cut short: 60 bytes
// promised, 12 left".
func (e *CutError) Error() string {
	text := e.File + ": " + place(e.Offset, e.Unzipped) + e.What + " is cut short"
	if e.Promised == 0 {
		return text
	}
	return fmt.Sprintf("%s: %d bytes promised, %d left", text, e.Promised, e.Left)
}

// place begins an error with where in the file it is.
func place(offset int64, unzipped bool) string {
	if unzipped {
		return fmt.Sprintf("at unzipped byte %d: ", offset)
	}
	return fmt.Sprintf("at byte %d: ", offset)
}

// Unwrap returns io.ErrUnexpectedEOF.
func (e *CutError) Unwrap() error { return io.ErrUnexpectedEOF }

// headerCut makes a cut where no record was read yet one of the file header.
func headerCut(err error) error {
	var cut *CutError
	if errors.As(err, &cut) {
		cut.Record, cut.What, cut.Offset = 0, "the file header", 0
	}
	return err
}
