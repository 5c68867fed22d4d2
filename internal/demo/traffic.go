package demo

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tricolor-policer/tricolor/internal/netlab"
)

// traffic is the flows' receivers and the captures at the far side.
type traffic struct {
	lab    *netlab.Lab
	flows  []flow
	udp    []*netlab.UDPSink // by flow; nil for TCP
	tcp    []*netlab.TCPSink // by flow; nil for UDP
	watch  []*netlab.Watch   // by flow
	all    *netlab.Watch     // of whatever arrives
	badSum uint64            // ChecksumErrors before the first packet
}

// listen starts the receivers and the captures. The caller closes what it returns.
func listen(lab *netlab.Lab, flows []flow) (_ *traffic, err error) {
	t := &traffic{
		lab:   lab,
		flows: flows,
		udp:   make([]*netlab.UDPSink, len(flows)),
		tcp:   make([]*netlab.TCPSink, len(flows)),
		watch: make([]*netlab.Watch, len(flows)),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.close())
		}
	}()
	if t.badSum, err = lab.Right.ChecksumErrors(); err != nil {
		return nil, err
	}
	if t.all, err = lab.Right.Watch(netlab.WatchOptions{}); err != nil {
		return nil, err
	}
	for i := range flows {
		f := &flows[i]
		if t.watch[i], err = lab.Right.Watch(netlab.WatchOptions{Proto: f.proto(), Port: f.port}); err != nil {
			return nil, err
		}
		if f.tcp() {
			t.tcp[i], err = lab.Right.ServeTCP(f.ipv6, f.port)
		} else {
			t.udp[i], err = lab.Right.ReceiveUDP(f.ipv6, f.port)
		}
		if err != nil {
			return nil, err
		}
	}
	return t, nil
}

// send lets all flows run at once, and returns when no packet can follow. The first to fail ends the
// others.
func (t *traffic) send(ctx context.Context, e *evidence, during time.Duration) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	e.flows = make([]flowEvidence, len(t.flows))
	var senders sync.WaitGroup
	for i := range t.flows {
		senders.Go(func() {
			f := &e.flows[i]
			f.flow = t.flows[i]
			start := time.Now()
			if err := t.sendFlow(ctx, i, f, e.profile.CIR, during); err != nil {
				fail(err)
			}
			f.took = time.Since(start)
		})
	}
	senders.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// sendFlow sends flow i. TCP gets as many bytes as the rate allows (bytes per second) in the given time.
func (t *traffic) sendFlow(ctx context.Context, i int, f *flowEvidence, rate uint64, during time.Duration) error {
	if f.flow.tcp() {
		sent, err := t.lab.Left.SendTCP(ctx, netlab.TCPFlow{
			To:    t.tcp[i].Addr(),
			Bytes: int64(rate * uint64(during) / uint64(time.Second)),
		})
		f.sent = uint64(sent)
		if err != nil {
			return err
		}
		return t.tcp[i].Settle(ctx)
	}
	sent, err := t.lab.Left.SendUDP(ctx, f.flow.udp(t.udp[i], during))
	f.sent = uint64(sent)
	return err
}

// collect takes what the far side saw and received.
func (t *traffic) collect(e *evidence) (err error) {
	if e.total, err = t.all.Stop(); err != nil {
		return err
	}
	for i := range e.flows {
		f := &e.flows[i]
		if f.seen, err = t.watch[i].Stop(); err != nil {
			return err
		}
		if f.flow.tcp() {
			received, err := t.tcp[i].Stop()
			if err != nil {
				return err
			}
			f.received = uint64(received)
			continue
		}
		received, err := t.udp[i].Stop()
		if err != nil {
			return err
		}
		f.received = received.Datagrams
		f.lost = received.Dropped
	}
	bad, err := t.lab.Right.ChecksumErrors()
	e.badChecksums = bad - t.badSum
	return err
}

// close ends what listen started, as far as that is not done.
func (t *traffic) close() error {
	var errs []error
	if t.all != nil {
		_, err := t.all.Stop()
		errs = append(errs, err)
	}
	for i := range t.flows {
		if t.watch[i] != nil {
			_, err := t.watch[i].Stop()
			errs = append(errs, err)
		}
		if t.udp[i] != nil {
			_, err := t.udp[i].Stop()
			errs = append(errs, err)
		}
		if t.tcp[i] != nil {
			_, err := t.tcp[i].Stop()
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
