package loader

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/tricolor-policer/tricolor/certify"
	"github.com/tricolor-policer/tricolor/internal/netlab"
	"github.com/tricolor-policer/tricolor/marker"
	"github.com/tricolor-policer/tricolor/record"
)

const recordPolicy = `
version: 1
flows: 1024
profiles:
  flow: { meter: srtcm, cir: 40mbit, cbs: 32KiB, ebs: 16KiB }
  link: { meter: trtcm, cir: 80mbit, cbs: 64KiB, pir: 100mbit, pbs: 96KiB, color: aware }
classes:
  - name: gold
    match: { dport: [5000-5003] }
    meters: [ { profile: flow, per: flow }, { profile: link, per: class } ]
  - name: rest
    meters: [ { profile: flow, per: src } ]
`

// recorded is a file as it was read.
type recorded struct {
	*record.Reader
	all []record.Record
}

func readRecord(tb testing.TB, data []byte) *recorded {
	tb.Helper()
	r, err := record.NewReader(bytes.NewReader(data))
	if err != nil {
		tb.Fatal(err)
	}
	out := &recorded{Reader: r}
	for {
		var one record.Record
		switch err := r.Next(&one); {
		case err == io.EOF:
			return out
		case err != nil:
			tb.Fatal(err)
		}
		out.all = append(out.all, one)
	}
}

func (r *recorded) certify(tb testing.TB) *certify.Result {
	tb.Helper()
	c := certify.New(&r.Policies)
	for i := range r.all {
		if err := c.Add(&r.all[i]); err != nil {
			tb.Fatal(err)
		}
	}
	return c.Finish()
}

// recording records what the flood that sends does, until that ends.
func recording(tb testing.TB, h *netlab.Host, p *policed, o RecordOptions, flood func()) ([]byte, record.End) {
	tb.Helper()
	ctx, stop := context.WithCancel(bounded(tb))
	defer stop()
	var out bytes.Buffer
	type outcome struct {
		end record.End
		err error
	}
	done, started := make(chan outcome, 1), make(chan struct{})
	go func() {
		var got outcome
		got.err = h.Do(func() (err error) {
			got.end, err = p.Record(ctx, &out, o, func() { close(started) })
			return err
		})
		done <- got
	}()
	select {
	case <-started:
	case got := <-done:
		tb.Fatal(got.err)
	}
	flood()
	stop()
	got := <-done
	if got.err != nil {
		tb.Fatal(got.err)
	}
	return out.Bytes(), got.end
}

// pour sends packets of some flows as fast as it can.
func pour(tb testing.TB, h *netlab.Host, packets int) {
	tb.Helper()
	frames := make([]netlab.Frame, 0, 10_000)
	for i := range cap(frames) {
		f := netlab.UDPFlow{From: 7, Payload: 60 + i%7*100}
		f.To = netip.AddrPortFrom(h.Peer().Addr(false), uint16(5000+i%5))
		frame, err := h.UDPFrame(f)
		if err != nil {
			tb.Fatal(err)
		}
		frames = append(frames, frame)
	}
	start := time.Now()
	for sent := 0; sent < packets; sent += len(frames) {
		if err := h.SendFrames(bounded(tb), frames...); err != nil {
			tb.Fatal(err)
		}
	}
	tb.Logf("sent %d packets, %.0f a second", packets, float64(packets)/time.Since(start).Seconds())
}

// A flood is recorded, each decision or the loss of it; the record proves the contract; the mirror, run through the
// record's times and costs, decides and leaves the same; and one forged colour is found out.
func TestRecord(t *testing.T) {
	lab := newLab(t, netlab.Options{})
	p := police(t, lab.Left, lab.Left.Device, Egress, policyPlan(t, recordPolicy))
	const packets = 200_000
	data, end := recording(t, lab.Left, p, RecordOptions{}, func() { pour(t, lab.Left, packets) })
	r := readRecord(t, data)
	stats := p.stats(t)
	t.Logf("%d records, %d lost, %d bytes, %.1f a record; %+v", end.Records, end.Lost, len(data), float64(len(data))/float64(end.Records), stats.Classes)
	if end.Records+end.Lost != packets || end.Late != 0 || len(r.all) != int(end.Records) || end.LeftOut != 0 {
		t.Fatalf("%+v of %d packets", end, packets)
	}
	if end.Lost == 0 {
		var got [2][marker.Colors]uint64
		for i := range r.all {
			got[r.all[i].Class][r.all[i].Color]++
		}
		for class, c := range stats.Classes {
			if got[class] != c.Packets {
				t.Errorf("class %d: %v recorded, and %v counted", class, got[class], c.Packets)
			}
		}
	}
	result := r.certify(t)
	if result.Breaks != 0 || result.Excess != 0 || result.Late != 0 || result.Buckets != 6 || result.Tightest.To.Number == 0 {
		t.Errorf("certified: %+v", result)
	}
	t.Logf("tightest: %s: %+v", r.Keys[result.Tightest.Key], result.Tightest)
	mirrored(t, r, end.Lost > 0)

	forged := 0
	for i := range r.all {
		if one := r.all[i]; one.Class == 1 && one.Color == record.Red && one.Chain == 1 {
			r.all[i].Color, r.all[i].Meters[0].Color = record.Green, record.Green
			if got := r.certify(t); got.Breaks == 0 || got.Broken.To.Number != uint64(i+1) || got.Broken.Key != one.Meters[0].Key {
				t.Errorf("packet %d forged: %+v", i+1, got)
			}
			r.all[i] = one
			if forged++; forged == 3 {
				break
			}
		}
	}
	if forged == 0 {
		t.Error("no packet of the second class was red")
	}
	last := &r.all[len(r.all)-1].Meters[0]
	last.C++
	if got := r.certify(t); got.Breaks != 0 || got.Excess != 1 || got.ExcessKey != last.Key || got.ExcessAt.Number != uint64(len(r.all)) {
		t.Errorf("a nanobyte forged: %+v", got)
	}
}

// mirrored runs the meters of the mirror over each bucket's packets.
func mirrored(tb testing.TB, r *recorded, lost bool) {
	tb.Helper()
	type packet struct {
		*record.Record
		*record.Meter
		in marker.Color
	}
	buckets := map[uint32][]packet{}
	for i := range r.all {
		one := &r.all[i]
		in := marker.Color(one.Arrival)
		for m := range one.Chain {
			buckets[one.Meters[m].Key] = append(buckets[one.Meters[m].Key], packet{one, &one.Meters[m], in})
			if m == 0 {
				in = marker.Green
			}
			in = max(in, marker.Color(one.Meters[m].Color))
		}
	}
	agreed := 0
	for key, all := range buckets {
		// As the bucket counted them: by its time; at one time tokens only go, and who took some was first.
		slices.SortStableFunc(all, func(a, b packet) int {
			return cmp.Or(cmp.Compare(a.Meter.Time, b.Meter.Time), cmp.Compare(b.C, a.C), cmp.Compare(b.X, a.X), cmp.Compare(a.Record.Color, b.Record.Color))
		})
		var bucket marker.Bucket
		for i, p := range all {
			from := &r.Policies[p.Meter.Policy].Profiles[p.Profile]
			profile := profileOf(tb, from)
			cost := p.Cost * marker.Nano
			if i == 0 || lost { // what it held before is not known: what it held, and what was spent
				bucket = marker.Bucket{Last: p.Meter.Time, Tc: p.C, Tx: p.X}
				if p.Record.Color != record.Red {
					unspend(&profile, &bucket, cost, marker.Color(p.Meter.Color))
				}
			}
			profile.Refill(&bucket, p.Record.Time)
			color := profile.Color(&bucket, cost, p.in)
			if p.Record.Color != record.Red {
				profile.Spend(&bucket, cost, color)
			}
			if color != marker.Color(p.Meter.Color) || bucket != (marker.Bucket{Last: p.Meter.Time, Tc: p.C, Tx: p.X}) {
				tb.Fatalf("%s, its packet %d: the mirror says %v, and leaves %+v; recorded: %+v", r.Keys[key], i, color, bucket, *p.Record)
			}
			agreed++
		}
	}
	tb.Logf("the mirror agrees on %d decisions of %d buckets", agreed, len(buckets))
}

// unspend gives back what a packet of a colour took.
func unspend(p *marker.Profile, b *marker.Bucket, cost uint64, color marker.Color) {
	if color == marker.Green {
		b.Tc += cost
	}
	if color == marker.Yellow || color == marker.Green && p.Meter == marker.TRTCM {
		b.Tx += cost
	}
}

func profileOf(tb testing.TB, p *record.Profile) marker.Profile {
	tb.Helper()
	m, err := marker.ParseMeterType(p.Meter)
	if err != nil {
		tb.Fatal(err)
	}
	params := marker.Params{Meter: m, Aware: p.Aware, Coupling: p.Coupling, CIR: p.CIR, CBS: p.CBS / marker.Nano}
	switch m {
	case marker.TRTCM:
		params.PIR, params.PBS = p.XIR, p.XBS/marker.Nano
	case marker.RFC4115:
		params.EIR, params.EBS = p.XIR, p.XBS/marker.Nano
	case marker.SRTCM:
		params.EBS = p.XBS / marker.Nano
	}
	profile, err := params.Compile()
	if err != nil {
		tb.Fatal(err)
	}
	return profile
}

// What is sampled says so; what is too much for the ring is counted as lost.
func TestRecordPart(t *testing.T) {
	lab := newLab(t, netlab.Options{})
	p := police(t, lab.Left, lab.Left.Device, Egress, policyPlan(t, recordPolicy))
	data, end := recording(t, lab.Left, p, RecordOptions{Sample: 10}, func() { pour(t, lab.Left, 20_000) })
	if r := readRecord(t, data); r.Header.Sample != 10 || end.Records+end.LeftOut+end.Lost != 20_000 || end.Records > 2_000 || end.Records == 0 {
		t.Errorf("one in ten: %+v, %+v", r.Header, end)
	}
	data, end = recording(t, lab.Left, p, RecordOptions{Ring: 4096}, func() { pour(t, lab.Left, 50_000) })
	if r := readRecord(t, data); r.Lost != end.Lost || end.Records+end.Lost != 50_000 {
		t.Errorf("a small ring: %+v, and the file has %d lost", end, r.Lost)
	}
	t.Logf("of 50,000 in 4 KiB, %d were lost", end.Lost)
}

// Through changes of policy the record goes on, with each policy in it.
func TestRecordChange(t *testing.T) {
	lab := newLab(t, netlab.Options{})
	p := police(t, lab.Left, lab.Left.Device, Egress, policyPlan(t, recordPolicy))
	data, end := recording(t, lab.Left, p, RecordOptions{}, func() {
		pour(t, lab.Left, 20_000)
		for _, rate := range []string{"20mbit", "60mbit"} {
			text := bytes.Replace([]byte(recordPolicy), []byte("40mbit"), []byte(rate), 1)
			if rate == "60mbit" {
				text = bytes.Replace(text, []byte("cbs: 32KiB"), []byte("cbs: 8KiB"), 1)
			}
			err := lab.Left.Do(func() error {
				_, err := p.Change(0, func(*marker.Plan) (*marker.Plan, error) { return policyPlan(t, string(text)), nil })
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			pour(t, lab.Left, 20_000)
		}
	})
	r := readRecord(t, data)
	if met := p.stats(t); end.Records+end.Lost != 60_000 || end.Late != 0 || len(r.Policies) != 3 {
		t.Errorf("%+v, %d policies; %d packets: %+v", end, len(r.Policies), total(&met), met)
	}
	if result := r.certify(t); result.Breaks != 0 || result.Late != 0 {
		t.Errorf("certified: %+v", result)
	}
}

// One at a time records; an upgrade ends it; and nobody's watching is left when it has ended.
func TestRecordAlone(t *testing.T) {
	lab := newLab(t, netlab.Options{})
	a := attach(t, lab.Right, AttachOptions{Direction: Ingress})
	err := lab.Right.Do(func() error {
		w, err := a.Watch(WatchOptions{})
		if err != nil {
			return err
		}
		if _, err := a.Watch(WatchOptions{}); !errors.Is(err, ErrWatched) {
			t.Errorf("a second recorder: %v", err)
		}
		other, err := a.Watch(WatchOptions{Monitor: true})
		if err != nil {
			return err
		}
		return errors.Join(other.Close(), w.Close())
	})
	if err != nil {
		t.Fatal(err)
	}
}
