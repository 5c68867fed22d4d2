package pcaptest

import (
	"errors"
	"io"

	"github.com/tricolor-policer/tricolor/internal/capture"
	"github.com/tricolor-policer/tricolor/marker"
)

// A replay runs in two halves, each in a goroutine of its own. The first one reads the file and prepares
// its packets, which hangs on nothing but policy and packet. The second one decides on them in the file's
// order, and does all else that hangs on order: so its answers are those of one goroutine. Loads of packets
// go from the one to the other, and come back when they are decided on. They are few, which bounds memory.

// loads is how many there are.
const loads = 4

// load is packets that were read from a piece of the file, and the memory they lie in.
type load struct {
	marker.Batch
	memory  []byte
	first   int64 // number of the first packet
	offset  int64 // bytes of the file that were read
	changes []Change
	before  int64 // number of the packet that the changes come before, behind this load's packets
}

// ahead is the first half.
type ahead struct {
	reader *capture.Reader
	mirror *marker.Mirror
	then   []Change

	ready   chan *load
	free    chan *load
	changed chan struct{} // the load's changes took place; the load is not given back
	stop    chan struct{} // closed: the second half has ended
	at      *load         // being filled
	stopped bool
	end     error // what ended the reading, nil at the file's clean end; set when ready is closed
}

// readAhead begins to read. The mirror's policy may change only when a load says so.
func readAhead(r *capture.Reader, m *marker.Mirror, then []Change) *ahead {
	a := &ahead{
		reader: r, mirror: m, then: then,
		ready: make(chan *load, loads), free: make(chan *load, loads),
		changed: make(chan struct{}), stop: make(chan struct{}),
		at: &load{},
	}
	for range loads - 1 {
		a.free <- &load{}
	}
	r.OnTurn(a.turn)
	go a.run()
	return a
}

// close ends the reading, and returns when it has ended.
func (a *ahead) close() {
	close(a.stop)
	for range a.ready { // until it is closed
	}
	a.reader.OnTurn(nil)
}

func (a *ahead) run() {
	defer close(a.ready)
	var p capture.Packet
	for !a.stopped {
		if err := a.reader.Next(&p); err != nil {
			if !errors.Is(err, io.EOF) {
				a.end = err
			}
			break
		}
		var changes []Change
		if changes, a.then = due(a.then, p.Time); len(changes) > 0 {
			a.change(changes, p.Number)
		}
		a.add(&p)
	}
	a.send()
}

func (a *ahead) add(p *capture.Packet) {
	l := a.at
	if len(l.Frames) == 0 {
		l.first = p.Number
	}
	l.Frames = append(l.Frames, frameOf(p, len(p.Data)))
	l.Times = append(l.Times, p.Time)
}

// turn is called when what the packets lie in has come to its end: they are sent off, and the next load's
// memory is read into.
func (a *ahead) turn(least int) []byte {
	if len(a.at.Frames) > 0 && a.send() {
		select {
		case a.at = <-a.free:
			a.at.Frames, a.at.Times = a.at.Frames[:0], a.at.Times[:0]
		case <-a.stop:
			a.stopped = true
		}
	}
	if len(a.at.memory) < least {
		a.at.memory = make([]byte, least)
	}
	return a.at.memory
}

// change sends off what is there, with changes of policy that come before a packet, and waits for them. Then it
// goes on with the same load, since the packet lies in its memory.
func (a *ahead) change(changes []Change, before int64) {
	a.at.changes, a.at.before = changes, before
	if a.send() {
		select {
		case <-a.changed:
		case <-a.stop:
			a.stopped = true
		}
	}
	a.at.changes = nil
	a.at.Frames, a.at.Times = a.at.Frames[:0], a.at.Times[:0]
}

// send hands over the load, and reports whether there is anybody to go on for.
func (a *ahead) send() bool {
	if a.stopped {
		return false
	}
	a.at.offset = a.reader.Offset()
	a.mirror.Prepare(&a.at.Batch)
	a.ready <- a.at // has room for all loads
	return true
}

// back gives a load back that was decided on.
func (a *ahead) back(l *load) {
	if l.changes != nil {
		a.changed <- struct{}{}
		return
	}
	a.free <- l
}
