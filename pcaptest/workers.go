package pcaptest

import (
	"context"
	"errors"
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tricolor-policer/tricolor/internal/capture"
	"github.com/tricolor-policer/tricolor/marker"
)

// A capture is replayed by a few workers. Each takes a load of packets from the file, prepares it, which hangs on
// nothing but policy and packet, and decides on it when all loads before it are decided on: so the answers are those of
// one goroutine. A load stays with its worker and in its processor's caches; there is one for each, which bounds memory.

// maxWorkers is how many there are, at most: decisions, one after the other, keep a processor busy for a third of the
// time that a packet takes in all.
const maxWorkers = 4

// load is packets that were read from a piece of the file, and the memory they lie in.
type load struct {
	marker.Batch
	memory  []byte
	number  int      // of the load
	first   int64    // number of the first packet
	offset  int64    // bytes of the file that were read
	changes []Change // of policy, that come before the first packet
}

func (l *load) add(p *capture.Packet) {
	n := len(l.Frames)
	l.Frames = slices.Grow(l.Frames, 1)[:n+1]
	setFrame(&l.Frames[n], p, len(p.Data))
	l.Times = append(l.Times, p.Time)
}

// workers replay a capture.
type workers struct {
	*replaying
	ctx     context.Context
	decided func(*load) // told of each load that was decided on, in order, if not nil

	// The file, and what of it comes next. Who has reading may use it.
	reading sync.Mutex
	then    []Change
	next    int            // number of the next load
	pending capture.Packet // its first packet; Number 0: not read yet
	memory  []byte         // that the pending packet lies in
	spare   []byte         // to read into next
	filling *load
	turned  bool // the packet read last is the first in other memory
	over    bool
	end     error // what ended the reading; nil at the file's clean end

	turns   []chan struct{} // load n may be decided on: by its number, round and round
	failure error           // who has the turn may use it
	stopped atomic.Bool     // by a failure
}

// newWorkers makes as many workers as there are processors to use.
func newWorkers(ctx context.Context, r *replaying) *workers {
	w := &workers{replaying: r, ctx: ctx, then: r.options.Then}
	w.turns = make([]chan struct{}, min(runtime.GOMAXPROCS(0), maxWorkers))
	for i := range w.turns {
		w.turns[i] = make(chan struct{}, 1)
	}
	w.turns[0] <- struct{}{}
	return w
}

// run replays the capture, and returns when no worker is left.
func (w *workers) run() error {
	w.reader.OnTurn(w.turn)
	var all sync.WaitGroup
	for range w.turns {
		all.Go(w.work)
	}
	all.Wait()
	if w.failure != nil {
		return w.failure
	}
	w.cut = w.end != nil
	return w.end
}

// work takes loads until there are none.
func (w *workers) work() {
	var l load
	for {
		w.reading.Lock()
		more := w.read(&l)
		if len(l.changes) == 0 || !more {
			w.reading.Unlock()
		}
		if !more {
			return
		}
		turn, next := w.turns[l.number%len(w.turns)], w.turns[(l.number+1)%len(w.turns)]
		if len(l.changes) > 0 {
			// Nobody may prepare beside a change: all loads before are decided on, and none is read meanwhile.
			<-turn
			w.change(&l)
			w.reading.Unlock()
			w.mirror.Prepare(&l.Batch)
		} else {
			w.mirror.Prepare(&l.Batch)
			<-turn
		}
		w.decide(&l)
		next <- struct{}{}
	}
}

// change has a load's changes of policy take place, unless there was a failure before them.
func (w *workers) change(l *load) {
	if w.failure != nil {
		return
	}
	if err := w.changes(l.changes, l.first); err != nil {
		w.stamp(l.Times[0])
		w.fail(err)
	}
}

// decide has a load decided on, unless there was a failure before it.
func (w *workers) decide(l *load) {
	if w.failure != nil {
		return
	}
	w.load(l)
	if w.decided != nil {
		w.decided(l)
	}
	w.fail(w.progress(w.ctx, l.offset))
}

// fail ends everything for a failure, if it is one.
func (w *workers) fail(err error) {
	if err != nil {
		w.failure = err
		w.stopped.Store(true)
	}
}

// read fills a load with packets that lie in one piece of memory, of one policy, and reports whether there are any.
func (w *workers) read(l *load) bool {
	l.Frames, l.Times, l.changes = l.Frames[:0], l.Times[:0], nil
	if w.stopped.Load() {
		return false
	}
	w.filling = l
	w.spare, l.memory = l.memory, w.memory
	for !w.over {
		if w.pending.Number == 0 && !w.fetch() {
			break
		}
		changes, later := due(w.then, w.pending.Time)
		if len(l.Frames) > 0 && (w.turned || len(changes) > 0) {
			break
		}
		if len(l.Frames) == 0 {
			l.first, l.changes, w.then = w.pending.Number, changes, later
		}
		l.add(&w.pending)
		w.pending.Number = 0
	}
	if !w.turned {
		w.memory, l.memory = l.memory, nil // the next load begins in the same
	}
	w.turned = false
	l.number, l.offset = w.next, w.reader.Offset()
	w.next++
	return len(l.Frames) > 0
}

// fetch reads the pending packet, and reports whether there is one.
func (w *workers) fetch() bool {
	err := w.reader.Next(&w.pending)
	if err == nil {
		return true
	}
	w.pending.Number, w.over = 0, true
	if !errors.Is(err, io.EOF) {
		w.end = err
	}
	return false
}

// turn is called when the reader needs memory: other memory, where packets of the load lie in this.
func (w *workers) turn(least int) []byte {
	memory := &w.filling.memory
	if len(w.filling.Frames) > 0 {
		if !w.turned {
			w.memory, w.turned = w.spare, true
		}
		memory = &w.memory
	}
	if len(*memory) < least {
		*memory = make([]byte, least)
	}
	return *memory
}
