package main

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"time"

	"golang.org/x/time/rate"

	"github.com/tricolor-policer/tricolor/marker"
)

// arrival is one packet for a meter: ns since the one before, nanobytes, colour.
type arrival struct {
	gap, cost uint64
	in        marker.Color
}

// arrivals are 4,096 packets of 770 bytes on average at about the meter's rate in bursts, so that all
// colours occur; green ones are so small that none exceeds.
func arrivals(mixed bool) *[4096]arrival {
	r := rand.New(rand.NewPCG(1, 2))
	list := new([4096]arrival)
	for i := range list {
		mean := []uint64{2_000, 25_000}[i/128%2]
		list[i] = arrival{gap: r.Uint64N(2 * mean), cost: (40 + r.Uint64N(1461)) * marker.Nano}
		if !mixed {
			list[i].cost /= 64
		}
	}
	return list
}

// meter times the Go meter alone, in ns a packet: refill, colour, spend.
func meter(params marker.Params, mixed bool, rounds, packets int) (figure, error) {
	p, err := params.Compile()
	if err != nil {
		return nil, err
	}
	list := arrivals(mixed)
	var f figure
	var b marker.Bucket
	var colors uint64
	p.Init(&b, 0)
	now := uint64(0)
	for range rounds {
		start := time.Now()
		for i := range uint(packets) {
			a := &list[i%uint(len(list))]
			now += a.gap
			color, _ := p.Judge(&b, now, a.cost, a.in)
			colors += uint64(color)
		}
		f = append(f, since(start, packets))
	}
	if (colors > 0) != mixed {
		return nil, fmt.Errorf("the bench's packets have the wrong colours: %d", colors)
	}
	return f, nil
}

func since(start time.Time, packets int) float64 {
	return float64(time.Since(start).Nanoseconds()) / float64(packets)
}

// batchSize is how many packets the mirror is given at a time.
const batchSize = 256

// traffic is packets of flows source addresses at random: a power of two of them, four a flow and more.
type traffic struct {
	sources []uint32
	next    int
}

func newTraffic(flows uint32) *traffic {
	t, r := &traffic{sources: make([]uint32, max(1<<20, 1<<bits.Len32(4*flows-1)))}, rand.New(rand.NewPCG(1, 2))
	for i := range t.sources {
		t.sources[i] = r.Uint32N(flows)
	}
	return t
}

func (t *traffic) source() uint32 {
	t.next = (t.next + 1) & (len(t.sources) - 1)
	return t.sources[t.next]
}

// way is one way to police traffic. run takes n packets from now (ns) on, 1 ns apart, and returns how many ns it
// took.
type way struct {
	what, target string
	run          func(n int, now uint64) time.Duration
}

// perPacket is what a packet takes, in ns.
func (w *way) perPacket(n int, now uint64) float64 {
	return float64(w.run(n, now).Nanoseconds()) / float64(n)
}

// mirrorWays are the mirror's halves, and all of it.
func mirrorWays(plan *marker.Plan, tr *traffic) (lookUp, whole way, err error) {
	seeds := marker.SeedsFrom(1)
	m, err := marker.NewMirror(plan, seeds)
	if err != nil {
		return way{}, way{}, err
	}
	b := marker.Batch{Frames: make([]marker.Frame, batchSize), Times: make([]uint64, batchSize)}
	keys := make([]marker.Key, batchSize)
	for i := range b.Frames {
		data := udpFrame()
		b.Frames[i] = marker.Frame{Data: data, Length: uint32(len(data))}
		keys[i] = udpKey()
	}
	fill := func(now uint64) {
		for i := range b.Frames {
			source := tr.source()
			binary.BigEndian.PutUint32(b.Frames[i].Data[26:], source)
			binary.BigEndian.PutUint32(keys[i].Bytes()[:], source)
			b.Times[i] = now + uint64(i)
		}
	}
	var sink uint64
	lookUp.what, whole.what = "look-up and meter", "parser to counters"
	// What the first half does beyond the key's hash is done outside of the time taken.
	lookUp.run = func(n int, now uint64) (took time.Duration) {
		for at := 0; at < n; at += batchSize {
			fill(now + uint64(at))
			m.Prepare(&b)
			start := time.Now()
			for i := range keys {
				sink += seeds.Hash(&keys[i])
			}
			m.Decide(&b)
			took += time.Since(start)
		}
		return took
	}
	whole.run = func(n int, now uint64) time.Duration {
		start := time.Now()
		for at := 0; at < n; at += batchSize {
			fill(now + uint64(at))
			m.Prepare(&b)
			m.Decide(&b)
		}
		return time.Since(start)
	}
	return lookUp, whole, nil
}

// peerWays are what people write: a Go map of buckets by key, with the same meter and with x/time's.
func peerWays(profile *marker.Profile, tr *traffic) (meter, limiter way) {
	key := udpKey()
	buckets, limiters := map[marker.Key]*marker.Bucket{}, map[marker.Key]*rate.Limiter{}
	meter.what, limiter.what = "Go map and the same meter", "Go map and x/time/rate"
	meter.run = func(n int, now uint64) time.Duration {
		start := time.Now()
		for i := range n {
			binary.BigEndian.PutUint32(key.Bytes()[:], tr.source())
			b := buckets[key]
			if b == nil {
				b = new(marker.Bucket)
				profile.Init(b, now)
				buckets[key] = b
			}
			profile.Judge(b, now+uint64(i), 50*marker.Nano, marker.Green)
		}
		return time.Since(start)
	}
	limiter.run = func(n int, now uint64) time.Duration {
		start := time.Now()
		for i := range n {
			binary.BigEndian.PutUint32(key.Bytes()[:], tr.source())
			l := limiters[key]
			if l == nil {
				l = rate.NewLimiter(rate.Limit(profile.CIR), int(profile.CBS/marker.Nano))
				limiters[key] = l
			}
			l.AllowN(time.Unix(0, int64(now)+int64(i)), 50)
		}
		return time.Since(start)
	}
	return meter, limiter
}

func udpKey() marker.Key {
	data := udpFrame()
	flow := marker.See(&marker.Frame{Data: data, Length: uint32(len(data))}).Flow
	return flow.Key()
}

var meters = []struct {
	name   string
	params marker.Params
}{
	{"token", marker.Params{Meter: marker.Token, CIR: 60e6, CBS: 32e3}},
	{"srtcm", marker.Params{Meter: marker.SRTCM, CIR: 60e6, CBS: 32e3, EBS: 32e3}},
	{"trtcm", marker.Params{Meter: marker.TRTCM, CIR: 30e6, CBS: 32e3, PIR: 60e6, PBS: 32e3}},
	{"rfc4115", marker.Params{Meter: marker.RFC4115, CIR: 30e6, CBS: 32e3, EIR: 30e6, EBS: 32e3}},
}

func meterSection(t *table) error {
	for _, m := range meters {
		for _, mixed := range []bool{false, true} {
			f, err := meter(m.params, mixed, rounds, 4_000_000)
			if err != nil {
				return err
			}
			name, target := " green", "<= 2.5"
			if mixed {
				name, target = " mixed colours", "<= 4.5"
			}
			t.row(m.name+name, f, "ns", target)
		}
	}
	return nil
}

// mirror times the whole mirror, in batches, with flows source addresses at random, in ns a packet.
func mirror(plan *marker.Plan, flows uint32, rounds, packets int) (figure, error) {
	tr := newTraffic(flows)
	_, whole, err := mirrorWays(plan, tr)
	if err != nil {
		return nil, err
	}
	whole.run(max(packets, len(tr.sources)), 0)
	var f figure
	for i := range rounds {
		f = append(f, whole.perPacket(packets, uint64(i+1)<<32))
	}
	return f, nil
}

// mirrorSection measures all ways on the same traffic, in turn.
func mirrorSection(t *table) error {
	plan, err := hotPlan()
	if err != nil {
		return err
	}
	for _, c := range []struct {
		name   string
		flows  uint32
		target string
	}{{"1 flow", 1, "<= 11"}, {"100k flows at random", 100_000, ""}, {"1M flows at random", 1_000_000, "<= 50"}} {
		tr := newTraffic(c.flows)
		lookUp, whole, err := mirrorWays(plan, tr)
		if err != nil {
			return err
		}
		lookUp.target = c.target
		meter, limiter := peerWays(&plan.Profiles[0], tr)
		ways := []way{lookUp, whole, meter, limiter}
		figures := make([]figure, len(ways))
		const packets = 1 << 19
		for round := -1; round < rounds; round++ {
			for i, w := range ways {
				if round < 0 {
					w.run(len(tr.sources), 0) // every flow is seen
					continue
				}
				figures[i] = append(figures[i], w.perPacket(packets, uint64(round+1)<<32+uint64(i)<<30))
			}
		}
		for i, w := range ways {
			t.row(w.what+", "+c.name, figures[i], "ns", w.target)
		}
	}
	return nil
}
