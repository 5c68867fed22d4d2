package pcaptest

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/tricolor-policer/tricolor/internal/capture"
	"github.com/tricolor-policer/tricolor/marker"
)

// ErrNoPacket is what asking for a packet that a whole capture has not wraps.
var ErrNoPacket = errors.New("no such packet")

// ExplainOptions say which packet of a file is explained, and what it is run through.
type ExplainOptions struct {
	Plan     *marker.Plan
	Seeds    marker.Seeds
	Then     []Change           // changes of policy, by time
	Packet   int64              // from 1, as in the file
	Progress func(offset int64) // called now and then with the bytes of the file that were read, if not nil
}

// Explained is a packet of a capture and why it fared as it did.
type Explained struct {
	*marker.Explanation
	Packet  capture.Packet // its Data is not marked
	First   uint64         // time stamp of the first record, ns
	Applied int            // changes of policy that had taken place
}

// Explain replays a capture up to a packet, as ReplayCapture does, and explains that one. Returns an error that
// wraps ErrNoPacket where the capture ends before it; where it is a fault that ended it, that fault.
func Explain(ctx context.Context, file string, o ExplainOptions) (*Explained, error) {
	r, err := capture.Open(file)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	m, err := marker.NewMirror(o.Plan, o.Seeds)
	if err != nil {
		return nil, err
	}
	var (
		p      capture.Packet
		first  uint64
		before = Replay{File: file}
	)
	for {
		if err := r.Next(&p); err != nil {
			return nil, noPacket(file, o.Packet, before.Records, err)
		}
		if before.stamp(p.Time); before.Records == 1 {
			first = p.Time
		}
		var changes []Change
		for changes, o.Then = due(o.Then, p.Time); len(changes) > 0; changes = changes[1:] {
			if err := before.apply(m, changes[0], p.Number); err != nil {
				return nil, err
			}
		}
		if p.Number == o.Packet {
			break
		}
		f := frameOf(&p, len(p.Data))
		m.Packet(&f, p.Time)
		if before.Records%progressEvery == 0 {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if o.Progress != nil {
				o.Progress(r.Offset())
			}
		}
	}
	p.Data = append([]byte(nil), p.Data...)
	marked := p
	marked.Data = append([]byte(nil), p.Data...)
	f := frameOf(&marked, len(p.Data))
	return &Explained{m.Explain(&f, p.Time), p, first, len(before.Applied)}, nil
}

// noPacket says how many packets there are instead, and what ended them.
func noPacket(file string, n, records int64, end error) error {
	there := fmt.Sprintf("%d packets", records)
	switch records {
	case 0:
		there = "no packets"
	case 1:
		there = "1 packet"
	}
	const none = "it has %s, and packet %d is asked for"
	if end == io.EOF {
		return fmt.Errorf("%s: %w: "+none, file, ErrNoPacket, there, n)
	}
	return errors.Join(end, fmt.Errorf("%s: %v: "+none, file, ErrNoPacket, there, n))
}
