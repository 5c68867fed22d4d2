package marker

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Changes at random: what must hold whatever is applied, confirmed or not, at whatever time.

// changing is a mirror whose policy changes, beside a simple model of it: every bucket is settled the moment
// that a policy begins or lapses.
type changing struct {
	*Mirror
	meter    MeterType
	policies []Params // all that ever were in force
	inForce  Profile
	previous Profile // comes back at the deadline
	deadline uint64  // 0: none
	buckets  map[uint16]*Bucket
	fresh    *Bucket // of a key that never spent anything: what a new key starts with; nil: full
	accepted map[uint16][]acceptance
	lapses   int
}

// acceptance is a packet let through, at the time that its bucket had seen.
type acceptance struct {
	clock, nanobytes uint64
	color            Color
}

func newChanging(t fataler, params Params) *changing {
	c := &changing{
		Mirror: mirrorOf(t, one(t, params)), meter: params.Meter, policies: []Params{params},
		buckets: map[uint16]*Bucket{}, accepted: map[uint16][]acceptance{},
	}
	c.inForce = c.plan.Profiles[0]
	return c
}

// take has a profile take over at a time.
func (c *changing) take(p Profile, at uint64) {
	if c.fresh == nil {
		c.fresh = &Bucket{}
		c.inForce.Init(c.fresh, at)
	}
	for _, b := range append(slices.Collect(maps.Values(c.buckets)), c.fresh) {
		c.inForce.Refill(b, at)
		b.Tc, b.Tx = min(b.Tc, p.CBS), min(b.Tx, p.XBS)
	}
	c.inForce = p
}

func (c *changing) lapse(now uint64) {
	if c.deadline != 0 && now >= c.deadline {
		c.take(c.previous, c.deadline)
		c.deadline = 0
		c.lapses++
	}
}

func (c *changing) change(t fataler, params Params, now, deadline uint64) {
	t.Helper()
	c.lapse(now)
	plan := one(t, params)
	if err := c.Apply(plan, now, deadline); err != nil {
		t.Fatal(err)
	}
	c.policies = append(c.policies, params)
	c.previous = c.inForce
	c.take(plan.Profiles[0], now)
	c.deadline = deadline
}

// packet polices a packet of a flow; exact compares with the model, which holds where no clock steps back.
func (c *changing) packet(flow uint16, bytes int, now uint64, exact bool) error {
	out := c.Packet(ptr(from(flow, bytes)), now)
	b := bucketOf(c.Mirror, out, 0).Bucket
	if out.Color != Red {
		c.accepted[flow] = append(c.accepted[flow], acceptance{b.Last, uint64(bytes) * Nano, out.Color})
	}
	if !exact {
		return nil
	}
	c.lapse(now)
	want := c.buckets[flow]
	if want == nil {
		want = &Bucket{}
		if c.inForce.Init(want, now); c.fresh != nil {
			*want = *c.fresh
			c.inForce.Refill(want, now)
		}
		c.buckets[flow] = want
	}
	color, _ := c.inForce.Judge(want, now, uint64(bytes)*Nano, Green)
	if color != out.Color || b != *want {
		return fmt.Errorf("%v, %+v, not %v, %+v", out.Color, b, color, *want)
	}
	return nil
}

// envelopes checks that each flow stayed under the envelope of the larger of all rates and of all bursts, in
// the time of its bucket.
func (c *changing) envelopes() error {
	most := c.policies[0].envelopes()
	for _, params := range c.policies[1:] {
		for i, e := range params.envelopes() {
			most[i].rate, most[i].burst = max(most[i].rate, e.rate), max(most[i].burst, e.burst)
		}
	}
	for flow, all := range c.accepted {
		for _, e := range most {
			e.tokens = e.burst
			for _, a := range all {
				if a.color > e.worst {
					continue
				}
				if err := e.take(a.clock, a.nanobytes); err != nil {
					return fmt.Errorf("flow %d: %w", flow, err)
				}
			}
		}
	}
	return nil
}

// params are those of a meter of the type, of a few bytes and bytes a second.
func (c *changing) draw(t *rapid.T) Params {
	n := func(from, to uint64) uint64 { return rapid.Uint64Range(from, to).Draw(t, "n") }
	p := Params{Meter: c.meter, CIR: n(1, 100), CBS: n(28, 600)}
	switch c.meter {
	case SRTCM:
		p.EBS = n(0, 400)
	case TRTCM:
		p.PIR, p.PBS = p.CIR+n(0, 100), n(28, 900)
	case RFC4115:
		p.EIR, p.EBS, p.Coupling = n(1, 100), n(1, 400), rapid.Bool().Draw(t, "coupling")
	}
	return p
}

func testChanges(t *testing.T, meter MeterType, clockBack bool) {
	var packets, accepted, applies, lapses int
	rapid.Check(t, func(t *rapid.T) {
		c := &changing{meter: meter}
		c = newChanging(t, c.draw(t))
		now, latest, after := second, second, uint64(0)
		steps := rapid.IntRange(1, 60).Draw(t, "steps")
		for i := range steps {
			latest = max(latest, now)
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0, 1:
				deadline := uint64(0)
				if rapid.Bool().Draw(t, "to be confirmed") {
					deadline = now + rapid.Uint64Range(1, 4*second).Draw(t, "deadline")
				}
				c.change(t, c.draw(t), now, deadline)
				after = deadline
				applies++
			case 2:
				if after == 0 || latest < after { // only before it has lapsed
					c.Confirm(latest)
					c.deadline, after = 0, 0
				}
			case 3, 4:
				now += rapid.Uint64Range(0, 3*second).Draw(t, "ns")
			case 5:
				if clockBack {
					now -= min(now, rapid.Uint64Range(0, 3*second).Draw(t, "back"))
				}
			default:
				flow := rapid.Uint16Range(1, 4).Draw(t, "flow")
				bytes := rapid.IntRange(28, 150).Draw(t, "bytes")
				if err := c.packet(flow, bytes, now, !clockBack); err != nil {
					t.Fatalf("step %d, at %d ns, flow %d, %d bytes: %v", i+1, now, flow, bytes, err)
				}
				packets++
			}
		}
		if err := c.envelopes(); err != nil {
			t.Fatal(err)
		}
		for _, a := range c.accepted {
			accepted += len(a)
		}
		lapses += c.lapses
	})
	t.Logf("%d packets, %d accepted, %d applies, %d lapsed", packets, accepted, applies, lapses)
	if accepted == 0 || accepted == packets || applies == 0 || !clockBack && lapses == 0 {
		t.Error("a case never occurred")
	}
}

// SPEC 3.7: under any changes the accepted bytes of each key stay, over every interval, under the envelope of
// the larger of the rates and bursts; and where no clock steps back, each bucket is that of the model.
func TestChangesStayUnderTheEnvelope(t *testing.T) {
	for _, meter := range []MeterType{Token, SRTCM, TRTCM, RFC4115} {
		t.Run(meter.String(), func(t *testing.T) { testChanges(t, meter, false) })
		t.Run(meter.String()+", clocks step back", func(t *testing.T) { testChanges(t, meter, true) })
	}
}
