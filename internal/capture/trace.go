package capture

import (
	"bytes"
	"io"
	"math"
	"strconv"
)

const (
	// maxLine bounds a trace's line, in bytes.
	maxLine = 64 << 10
	// maxBytes is the largest cost whose nanobytes fit 64 bits.
	maxBytes = math.MaxUint64 / 1_000_000_000

	byteOrderMark = "\ufeff"
)

// Colours of a TraceRow.
const (
	Green uint8 = iota
	Yellow
	Red
)

// TraceRow is one row of a CSV trace: time_ns,bytes[,color].
type TraceRow struct {
	Line  int    // in the file, from 1
	Time  uint64 // nanoseconds
	Bytes uint64 // cost; Bytes × 10^9 is below 2^64
	Color uint8  // Green where the row has none
}

// Trace reads a CSV trace, gzipped or not. A first line of column names, blank
// lines and lines that begin with # are passed over.
type Trace struct {
	in    *input
	line  int
	begun bool // a row or the column names were read
	err   error
}

// OpenTrace opens a CSV trace. It returns the errors of Open that concern the
// file itself.
func OpenTrace(path string) (*Trace, error) {
	in, err := openInput(path)
	if err != nil {
		return nil, err
	}
	return &Trace{in: in}, nil
}

// Next reads the next row. It returns io.EOF at the end, and an error that
// wraps ErrDamaged, names file and line and says what is wrong with it. What
// it returned once it returns again.
func (t *Trace) Next(row *TraceRow) error {
	for t.err == nil {
		var line []byte
		if line, t.err = t.readLine(); t.err != nil {
			break
		}
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		first := !t.begun
		t.begun = true
		if first && isHeader(line) {
			continue
		}
		if t.err = t.parse(line, row); t.err == nil {
			return nil
		}
	}
	return t.err
}

// Size is the file's size in bytes, compressed where it is gzipped.
func (t *Trace) Size() int64 { return t.in.size }

// Offset is how many bytes of Size were read so far.
func (t *Trace) Offset() int64 { return t.in.offset() }

// Close closes the file.
func (t *Trace) Close() error { return t.in.close() }

// readLine takes one line; the last may lack its newline.
func (t *Trace) readLine() ([]byte, error) {
	in := t.in
	in.begin()
	for looked := 0; ; {
		line := in.peek(min(in.buffered(), maxLine))
		if i := bytes.IndexByte(line[looked:], '\n'); i >= 0 {
			in.take(looked + i + 1)
			return t.counted(line[:looked+i]), nil
		}
		if looked = len(line); looked == maxLine {
			t.line++
			return nil, t.wrong("the line is longer than %d bytes", maxLine)
		}
		if in.have(looked + 1) {
			continue
		}
		if in.err != io.EOF || looked == 0 {
			return nil, in.end(0)
		}
		in.take(looked)
		return t.counted(line), nil
	}
}

func (t *Trace) counted(line []byte) []byte {
	if t.line++; t.line == 1 {
		return bytes.TrimPrefix(line, []byte(byteOrderMark))
	}
	return line
}

func isHeader(line []byte) bool {
	names := bytes.ReplaceAll(line, []byte(" "), nil)
	return string(names) == "time_ns,bytes" || string(names) == "time_ns,bytes,color"
}

func (t *Trace) parse(line []byte, row *TraceRow) error {
	time, rest, more := bytes.Cut(line, []byte(","))
	size, color, colored := bytes.Cut(rest, []byte(","))
	if !more {
		return t.wrong("%q is no row: write time_ns,bytes or time_ns,bytes,color", line)
	}
	var ok bool
	row.Line = t.line
	if row.Time, ok = parseUint(time); !ok {
		return t.wrong("the time %q is not a whole number of nanoseconds from 0 to 2^64-1", bytes.TrimSpace(time))
	}
	if row.Bytes, ok = parseUint(size); !ok {
		return t.wrong("the size %q is not a whole number of bytes", bytes.TrimSpace(size))
	}
	if row.Bytes > maxBytes {
		return t.wrong("the size %d is over the %d bytes that a meter can take", row.Bytes, uint64(maxBytes))
	}
	row.Color = Green
	if colored {
		if row.Color, ok = parseColor(color); !ok {
			return t.wrong("the colour %q is none of green, yellow, red", bytes.TrimSpace(color))
		}
	}
	return nil
}

func (t *Trace) wrong(format string, args ...any) error {
	return fail(t.in.name+":"+strconv.Itoa(t.line), ErrDamaged, format, args...)
}

// parseUint reads decimal digits, without the copy strconv would need.
func parseUint(b []byte) (n uint64, ok bool) {
	b = bytes.TrimSpace(b)
	for _, c := range b {
		digit := uint64(c - '0')
		if digit > 9 || n > (math.MaxUint64-digit)/10 {
			return 0, false
		}
		n = n*10 + digit
	}
	return n, len(b) > 0
}

func parseColor(b []byte) (color uint8, ok bool) {
	switch string(bytes.TrimSpace(b)) {
	case "green":
		return Green, true
	case "yellow":
		return Yellow, true
	case "red":
		return Red, true
	}
	return 0, false
}
