package capture

import "io"

const (
	// windowSize bounds the memory of a reader, and is the largest pcapng block
	// that is looked into.
	windowSize = 1 << 20

	// readSize is what is read at a time, as long as no record needs more: so
	// many packets that handing them from one processor to another, which may
	// have to be woken, is cheap beside them. With 64 KiB it took a third of a
	// replay's time.
	readSize = 512 << 10
)

// window is a reader seen through a buffer: what is peeked at stays in place
// until the next call that needs more bytes, so that records are not copied.
type window struct {
	src        io.Reader
	buf        []byte
	most       int                    // bytes that buf may grow to
	turn       func(least int) []byte // where set: what to read into next, instead of buf
	start, end int                    // buf[start:end] is read and not yet taken
	taken      int64                  // bytes before buf[start]
	err        error                  // why nothing can be read after buf[end]
}

// buffered is how many bytes are read and not yet taken.
func (w *window) buffered() int { return w.end - w.start }

// have reports whether n (at most windowSize) bytes can be peeked at.
func (w *window) have(n int) bool { return w.end-w.start >= n || w.fill(n) }

// peek is the next n bytes, which have(n) reported.
func (w *window) peek(n int) []byte { return w.buf[w.start : w.start+n : w.start+n] }

// take moves on by n bytes, which have(n) reported.
func (w *window) take(n int) {
	w.start += n
	w.taken += int64(n)
}

// fill reads until n bytes are there, or no more come.
func (w *window) fill(n int) bool {
	if w.err != nil {
		return false
	}
	least, to := min(readSize, w.most), w.buf
	if n > least {
		least = w.most
	}
	if w.turn != nil {
		to = w.turn(least)
	} else if len(to) < least {
		to = make([]byte, least)
	}
	w.end = copy(to, w.buf[w.start:w.end])
	w.buf, w.start = to, 0
	for idle := 0; w.end < n && w.err == nil; {
		var got int
		got, w.err = w.src.Read(w.buf[w.end:])
		w.end += got
		if got > 0 {
			idle = 0
		} else if idle++; idle == 100 && w.err == nil {
			w.err = io.ErrNoProgress
		}
	}
	return w.end >= n
}

// skip takes n bytes, however many, and returns how many were there.
func (w *window) skip(n int64) int64 {
	for left := n; ; {
		step := min(left, int64(w.buffered()))
		w.take(int(step))
		if left -= step; left == 0 || !w.have(1) {
			return n - left
		}
	}
}
