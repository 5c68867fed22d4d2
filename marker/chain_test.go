package marker

import (
	"encoding/binary"
	"slices"
	"testing"
)

// SPEC 3.2: all are judged before any pays; a packet that ends red spends nothing anywhere.
func TestChainRedSpendsNothing(t *testing.T) {
	m := mirrorOf(t, planOf(t, testClass{name: "a", meters: []testMeter{
		{number: 0, params: token(1000)},
		{number: 1, per: PerClass, params: token(1500)},
	}}))
	a, b := uint16(1), uint16(2) // two flows
	wantChain(t, "first of flow a", m, from(a, 600), 0, Green, 400, 0, 900, 0)
	wantChain(t, "flow b", m, from(b, 800), 0, Green, 200, 0, 100, 0)
	wantChain(t, "the flow has it, the class has not", m, from(b, 150), 0, Red, 200, 0, 100, 0)
	wantChain(t, "a new flow has it, the class has not", m, from(3, 101), 0, Red, 1000, 0, 100, 0)
	wantChain(t, "the class has it, the flow has not", m, from(b, 201), 0, Red, 200, 0, 100, 0)
	out := wantChain(t, "both have it exactly", m, from(b, 100), 0, Green, 100, 0, 0, 0)
	// Buckets count by the packet's colour, not by their own meter's.
	if s := bucketOf(m, out, 0); s.Packets != [Colors]uint64{Green: 2, Red: 2} || s.Bytes != [Colors]uint64{Green: 900, Red: 351} {
		t.Errorf("flow b counted %v %v", s.Packets, s.Bytes)
	}
	if s := bucketOf(m, out, 1); s.Packets != [Colors]uint64{Green: 3, Red: 3} || s.Bytes != [Colors]uint64{Green: 1500, Red: 452} {
		t.Errorf("the class's bucket counted %v %v", s.Packets, s.Bytes)
	}
	if got := m.Stats().Classes[0]; got != (ClassStats{Packets: [Colors]uint64{Green: 3, Red: 3}, Bytes: [Colors]uint64{Green: 1500, Red: 452}}) {
		t.Errorf("counted %+v", got)
	}
}

// Red by the last of three: what the first two would have spent, green and yellow, stays.
func TestChainRedByTheLast(t *testing.T) {
	m := mirrorOf(t, planOf(t, testClass{name: "a", meters: []testMeter{
		{number: 0, params: Params{Meter: TRTCM, CIR: 1, CBS: 200, PIR: 1, PBS: 300}},
		{number: 1, per: PerSrc, prefix: [2]int{32, 64}, params: srtcmOf(100, 400)},
		{number: 2, per: PerInterface, params: token(220)},
	}}))
	wantChain(t, "green, yellow, green", m, from(1, 120), 0, Yellow, 80, 180, 100, 280, 100, 0)
	wantChain(t, "yellow, then yellow, then red", m, from(1, 101), 0, Red, 80, 180, 100, 280, 100, 0)
	wantChain(t, "yellow, green, green", m, from(1, 100), 0, Yellow, 80, 80, 0, 280, 0, 0)
	wantChain(t, "green, yellow, red", m, from(1, 30), 0, Red, 80, 80, 0, 280, 0, 0)
	wantChain(t, "red, yellow, red", m, from(1, 81), 0, Red, 80, 80, 0, 280, 0, 0)
}

// Each bucket spends by its own meter's colour; an aware meter takes the worst colour so far, a blind one
// green.
func TestChainColorsPassOn(t *testing.T) {
	narrow := srtcmOf(100, 300)
	for name, c := range map[string]struct {
		second, third Params
		want          [2][]uint64 // left of the second and third, after a green and a yellow packet of 100
	}{
		"blind, blind": {srtcmOf(500, 500), srtcmOf(1000, 1000), [2][]uint64{{300, 500}, {800, 1000}}},
		"aware, blind": {aware(srtcmOf(500, 500)), srtcmOf(1000, 1000), [2][]uint64{{400, 400}, {800, 1000}}},
		// The second is green by itself; the worst so far is the first's yellow.
		"blind, aware": {srtcmOf(500, 500), aware(srtcmOf(1000, 1000)), [2][]uint64{{300, 500}, {900, 900}}},
		"aware, aware": {aware(srtcmOf(500, 500)), aware(srtcmOf(1000, 1000)), [2][]uint64{{400, 400}, {900, 900}}},
	} {
		t.Run(name, func(t *testing.T) {
			m := mirrorOf(t, planOf(t, testClass{name: "a", meters: []testMeter{
				{number: 0, params: narrow},
				{number: 1, per: PerSrc, prefix: [2]int{24, 64}, params: c.second},
				{number: 2, per: PerClass, params: c.third},
			}}))
			m.Packet(ptr(from(1, 100)), 0)
			tokens := append(append([]uint64{0, 200}, c.want[0]...), c.want[1]...)
			wantChain(t, "yellow by the first", m, from(1, 100), 0, Yellow, tokens...)
			wantChain(t, "red by the first", m, from(1, 201), 0, Red, tokens...)
		})
	}
}

func ptr[T any](v T) *T { return &v }

// The first meter's arrival colour is the packet's own, the next one's is what the meters said: what a
// blind first meter took as green is green to the second.
func TestChainArrival(t *testing.T) {
	yellow := from(1, 100)
	yellow.Data[15] = 12 << 2 // af12
	for name, c := range map[string]struct {
		first, second Params
		color         Color
		tokens        []uint64
	}{
		"aware, aware": {aware(srtcmOf(500, 500)), aware(srtcmOf(500, 500)), Yellow, []uint64{500, 400, 500, 400}},
		"aware, blind": {aware(srtcmOf(500, 500)), srtcmOf(500, 500), Yellow, []uint64{500, 400, 400, 500}},
		"blind, aware": {srtcmOf(500, 500), aware(srtcmOf(500, 500)), Green, []uint64{400, 500, 400, 500}},
		"token, aware": {aware(token(500)), srtcmOf(500, 500), Red, []uint64{500, 0, 500, 500}},
	} {
		m := mirrorOf(t, planOf(t, testClass{name: "a", meters: []testMeter{{params: c.first}, {number: 1, per: PerClass, params: c.second}}}))
		f := whole(yellow)
		if out := wantChain(t, name, m, f, 0, c.color, c.tokens...); out.Arrival != Yellow {
			t.Errorf("%s: arrived %v", name, out.Arrival)
		}
	}
}

// A red packet's refill is kept in every bucket of the chain, and its key is inserted in every stage.
func TestChainKeepsRefill(t *testing.T) {
	second := uint64(Nano)
	m := mirrorOf(t, planOf(t, testClass{name: "a", meters: []testMeter{
		{number: 0, params: Params{Meter: Token, CIR: 10, CBS: 500}},
		{number: 1, per: PerSrc, prefix: [2]int{32, 64}, params: Params{Meter: SRTCM, CIR: 20, CBS: 100, EBS: 100}},
		{number: 2, per: PerClass, params: Params{Meter: Token, CIR: 40, CBS: 150}},
	}}))
	wantChain(t, "red by the wide one, new keys", m, from(1, 151), second, Red, 500, 0, 100, 100, 150, 0)
	wantChain(t, "all of it", m, from(1, 150), second, Red, 500, 0, 100, 100, 150, 0) // 150 > 100, > 100
	wantChain(t, "green", m, from(1, 100), second, Green, 400, 0, 0, 100, 50, 0)
	out := wantChain(t, "red, two seconds later", m, from(1, 131), 3*second, Red, 420, 0, 40, 100, 130, 0)
	for i := range out.Slots {
		if b := bucketOf(m, out, i).Bucket; b.Last != 3*second {
			t.Errorf("bucket %d: last %d", i+1, b.Last)
		}
	}
	// Behind them all: counted once for each bucket, nothing earned.
	wantChain(t, "back", m, from(1, 40), 2*second, Green, 380, 0, 0, 100, 90, 0)
	if got := m.Stats().Classes[0].ClockBack; got != 3 {
		t.Errorf("counted %d buckets that saw a time before their last, not 3", got)
	}
}

// SPEC 3.1: a class's bucket is its own, an interface's is shared by every class that names its profile,
// at any position.
func TestChainSharedBuckets(t *testing.T) {
	link := token(1000)
	m := mirrorOf(t, planOf(t,
		testClass{name: "a", rules: []func(*Rule){srcIn("10.0.0.1/32")}, meters: []testMeter{{number: 0, per: PerClass, params: token(700)}, {number: 5, per: PerInterface, params: link}}},
		testClass{name: "b", stats: 1, meters: []testMeter{{number: 1, per: PerFlow, params: token(700)}, {number: 2, per: PerClass, params: token(700)}, {number: 5, per: PerInterface, params: link}}},
	))
	wantChain(t, "class a", m, from(1, 600), 0, Green, 100, 0, 400, 0)
	wantChain(t, "class b, the rest of the link", m, from(2, 401), 0, Red, 700, 0, 700, 0, 400, 0)
	wantChain(t, "class b", m, from(2, 350), 0, Green, 350, 0, 350, 0, 50, 0)
	wantChain(t, "class b, another flow", m, from(3, 50), 0, Green, 650, 0, 300, 0, 0, 0)
	wantChain(t, "class a again", m, from(1, 28), 0, Red, 100, 0, 0, 0)
	if got := m.Stats().Classes; got[0].Packets != [Colors]uint64{Green: 1, Red: 1} || got[1].Packets != [Colors]uint64{Green: 2, Red: 1} {
		t.Errorf("counted %+v", got)
	}
}

// flooded is a class whose keyed stages of 64 slots are offered 500 flows, all at once; the packets of the
// last 100.
func flooded(t *testing.T, meters ...testMeter) (*Mirror, []Outcome) {
	m := mirrorOf(t, planOf(t, testClass{name: "a", meters: meters}))
	var outs []Outcome
	for i := range 500 {
		f := from(uint16(i), 100)
		binary.BigEndian.PutUint16(f.Data[32:], uint16(i)) // destination 10.0.i
		outs = append(outs, m.Packet(&f, 0))
	}
	return m, outs[400:]
}

// SPEC 3.3 in a chain: one stage full, the other not; and two overflow buckets at once.
func TestChainOverflow(t *testing.T) {
	per := func(number uint32, per Per, bits int, cbs uint64) testMeter {
		return testMeter{number: number, per: per, prefix: [2]int{bits, 64}, params: token(cbs)}
	}
	for name, c := range map[string]struct {
		meters   []testMeter
		overflow []bool
	}{
		"the first":  {[]testMeter{per(0, PerFlow, 0, 100), per(1, PerSrc, 16, 60_000), per(2, PerClass, 0, 60_000)}, []bool{true, false, false}},
		"the second": {[]testMeter{per(0, PerSrc, 16, 60_000), per(1, PerFlow, 0, 100), per(2, PerClass, 0, 60_000)}, []bool{false, true, false}},
		"two":        {[]testMeter{per(0, PerFlow, 0, 20_000), per(1, PerDst, 32, 20_000), per(2, PerClass, 0, 60_000)}, []bool{true, true, false}},
		"all":        {[]testMeter{per(0, PerFlow, 0, 20_000), per(1, PerDst, 32, 20_000), per(2, PerSrc, 32, 20_000)}, []bool{true, true, true}},
	} {
		t.Run(name, func(t *testing.T) {
			m, outs := flooded(t, c.meters...)
			g, n := m.Plan().Geometry, 0
			for _, out := range outs {
				var overflow []bool
				for i, at := range out.Slots {
					is := at == g.OverflowSet(i, uint32(i))*SetSlots
					if !is && i < 2 && c.meters[i].per < PerClass && (at/SetSlots < g.Stages[i].Base || at/SetSlots > g.Stages[i].Base+g.Stages[i].Mask) {
						t.Fatalf("meter %d's bucket is in set %d: not of its stage", i+1, at/SetSlots)
					}
					overflow = append(overflow, is)
				}
				if slices.Equal(overflow, c.overflow) {
					n++
					if out.Color != Red {
						t.Fatal("the overflow bucket gave more than its one burst") // it was spent by the first ones
					}
				}
			}
			if n == 0 {
				t.Fatal("no packet in these overflow buckets alone")
			}
			// A chain is counted once, whatever the number of its overflow buckets. Accepted in overflow is one
			// burst: as much as one key's.
			var accepted uint64
			for i, is := range c.overflow {
				if s := m.Sets()[g.OverflowSet(i, uint32(i))][0]; is {
					accepted = s.Bytes[Green]
					if spent := c.meters[i].params.CBS - s.Bucket.Tc/Nano; accepted != spent {
						t.Errorf("the overflow bucket of meter %d: %d bytes accepted, %d spent", i+1, accepted, spent)
					}
				} else if s.Tags != 0 {
					t.Errorf("meter %d has an overflow bucket in use", i+1)
				}
			}
			if got := m.Stats().Classes[0]; got.Overflow < uint64(n) || got.Overflow > 500 {
				t.Errorf("%d of 500 packets counted in overflow; at least %d were", got.Overflow, n)
			}
		})
	}
}

// No packet allocates: chains of three, prefix sets, a change that was not confirmed, and what is not IP.
func TestChainAllocatesNothing(t *testing.T) {
	build := func() *Plan {
		plan := planOf(t,
			testClass{name: "a", rules: []func(*Rule){only(FamilyIP)}, meters: []testMeter{
				{number: 0, params: token(100)}, {number: 1, per: PerSrc, prefix: [2]int{24, 64}, params: aware(srtcmOf(100, 100))},
				{number: 2, per: PerInterface, params: token(1e6)},
			}},
			testClass{name: "b", rules: []func(*Rule){only(FamilyNone)}, change: func(c *Class) { c.Count = CountL2 }, meters: []testMeter{{number: 3, per: PerVLAN, params: token(1e6)}}},
		)
		plan.setProfile(t, 4, 0, token(1000))
		plan.Sets = []PrefixSet{entries("10.0.0.0/8", NoProfile, "10.0.2.0/24", uint32(4), "10.0.2.1/32", uint32(0))}
		plan.Rules[0].SrcSet = 1
		return plan
	}
	m := mirrorOf(t, build())
	if err := m.Apply(build(), 0, 500*1000); err != nil {
		t.Fatal(err)
	}
	f, arp, n := from(0, 100), whole(arpFrame), uint64(0)
	if allocs := testing.AllocsPerRun(1000, func() {
		n++
		binary.BigEndian.PutUint16(f.Data[28:], uint16(n*7))
		m.Packet(&f, n*1000)
		m.Packet(&arp, n*1000)
	}); allocs != 0 {
		t.Errorf("%v allocations in two packets", allocs)
	}
	if over := m.Stats().Classes[0].Overflow; over == 0 || over == n {
		t.Errorf("%d of %d in overflow", over, n)
	}
	if _, _, generation := m.generations.inForce(n * 1000); generation != 2 {
		t.Errorf("generation %d in force, not 2", generation)
	}
}
