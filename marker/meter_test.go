package marker_test

import (
	"fmt"
	"math/big"
	"testing"

	"github.com/tricolor-policer/tricolor/marker"
	"pgregory.net/rapid"
)

// machine is a meter as three functions, so that the same properties judge the shipped one and the
// broken ones of mutants_test.go.
type machine struct {
	refill func(p *marker.Profile, b *marker.Bucket, now uint64) bool
	color  func(p *marker.Profile, b *marker.Bucket, cost uint64, in marker.Color) marker.Color
	spend  func(p *marker.Profile, b *marker.Bucket, cost uint64, color marker.Color)
}

var shipped = machine{(*marker.Profile).Refill, (*marker.Profile).Color, (*marker.Profile).Spend}

// step is one packet's way through a meter.
type step struct {
	arrival
	profile                 *marker.Profile
	before, refilled, after marker.Bucket
	color                   marker.Color
	back                    bool // the clock stepped back
}

// run takes the trace through the machine, from full buckets at the first packet's time, and shows
// see each step; an error of see ends it, and comes back with the packet's number.
func (m machine) run(tr trace, see func(s step) error) error {
	profile, err := tr.params.Compile()
	if err != nil {
		return err
	}
	var b marker.Bucket
	profile.Init(&b, tr.packets[0].now)
	for i, a := range tr.packets {
		s := step{arrival: a, profile: &profile, before: b}
		s.back = m.refill(&profile, &b, a.now)
		s.refilled = b
		s.color = m.color(&profile, &b, a.bytes*marker.Nano, a.in)
		m.spend(&profile, &b, a.bytes*marker.Nano, s.color)
		s.after = b
		if err := see(s); err != nil {
			return fmt.Errorf("packet %d: %w", i+1, err)
		}
	}
	return nil
}

// property is something that holds for every trace of a meter.
type property struct {
	name   string
	meters []marker.MeterType
	holds  func(m machine, tr trace) error
}

var properties = []property{
	{"envelope", meterTypes, keepsEnvelope},
	{"refill twice is refill once", meterTypes, refillsInAnySteps},
	{"the best colour its tokens allow", meterTypes, givesBestColor},
	{"each colour spends its own", meterTypes, spendsByColor},
	{"nothing earned is lost while there is room", []marker.MeterType{marker.Token, marker.SRTCM}, losesNothing},
	{"tokens stay within bursts", meterTypes, staysWithinBursts},
	{"a clock step back earns nothing", meterTypes, ignoresStepsBack},
	{"aware with green arrivals is blind", meterTypes, awareOfGreenIsBlind},
	{"token is GCRA", []marker.MeterType{marker.Token}, tokenIsGCRA},
	{"token is srtcm without EBS", []marker.MeterType{marker.Token}, tokenIsSRTCM},
	{"coupled rfc4115 without EIR is srtcm", []marker.MeterType{marker.RFC4115}, coupledIsSRTCM},
}

func TestProperties(t *testing.T) {
	for _, property := range properties {
		for _, meter := range property.meters {
			t.Run(property.name+"/"+meter.String(), func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) {
					tr := genTrace(fromRapid(t), meter, widest)
					if err := property.holds(shipped, tr); err != nil {
						t.Fatalf("%v\n%v", err, tr)
					}
				})
			})
		}
	}
}

// keepsEnvelope: over every interval from one packet to a later one, each group of colours passes at
// most its bursts + its rates × the interval (SPEC of the meters: RFC 2697, 2698, 4115 section 3).
//
// The interval is measured on the bucket's clock, the latest time seen so far: a step back earns
// nothing, so it takes no time. That is never longer than from the earliest to the latest stamp of
// the interval's packets, so the envelope holds by the stamps too.
func keepsEnvelope(m machine, tr trace) error {
	p := tr.params
	type group struct {
		name        string
		worst       marker.Color
		burst, rate uint64
	}
	groups := []group{{"green", marker.Green, p.CBS, p.CIR}}
	switch p.Meter {
	case marker.Token:
	case marker.SRTCM:
		groups = append(groups, group{"green + yellow", marker.Yellow, p.CBS + p.EBS, p.CIR})
	case marker.TRTCM:
		groups = append(groups, group{"green + yellow", marker.Yellow, p.PBS, p.PIR})
	case marker.RFC4115:
		groups = append(groups, group{"green + yellow", marker.Yellow, p.CBS + p.EBS, p.CIR + p.EIR})
	}
	var clock []uint64
	var steps []step
	err := m.run(tr, func(s step) error {
		now := s.now
		if n := len(clock); n > 0 {
			now = max(now, clock[n-1])
		}
		clock, steps = append(clock, now), append(steps, s)
		return nil
	})
	if err != nil {
		return err
	}
	nano, passed, allowed, most := big.NewInt(marker.Nano), new(big.Int), new(big.Int), new(big.Int)
	for _, g := range groups {
		most.Mul(most.SetUint64(g.burst), nano)
		for i := range steps {
			passed.SetInt64(0) // nanobytes
			for j := i; j < len(steps); j++ {
				if steps[j].color > g.worst {
					continue
				}
				passed.Add(passed, new(big.Int).SetUint64(steps[j].bytes*marker.Nano))
				allowed.Mul(allowed.SetUint64(clock[j]-clock[i]), new(big.Int).SetUint64(g.rate))
				allowed.Add(allowed, most)
				if passed.Cmp(allowed) > 0 {
					return fmt.Errorf("packets %d to %d: %v nanobytes %s, over %v", i+1, j+1, passed, g.name, allowed)
				}
			}
		}
	}
	return nil
}

// refillsInAnySteps: stopping on the way changes nothing.
func refillsInAnySteps(m machine, tr trace) error {
	return m.run(tr, func(s step) error {
		if s.now < s.before.Last {
			return nil
		}
		gap := s.now - s.before.Last
		for _, part := range []uint64{0, min(gap, 1), gap / 3, gap / 2, gap - min(gap, 1), gap} {
			b := s.before
			m.refill(s.profile, &b, s.before.Last+part)
			m.refill(s.profile, &b, s.now)
			if b != s.refilled {
				return fmt.Errorf("%+v refilled at +%d ns and +%d is %+v, at once it is %+v", s.before, part, gap, b, s.refilled)
			}
		}
		return nil
	})
}

// givesBestColor: of the colours no better than the arrival colour whose buckets all hold the packet,
// the best; red where there is none.
func givesBestColor(m machine, tr trace) error {
	return m.run(tr, func(s step) error {
		inC, inX := s.refilled.Tc >= s.bytes*marker.Nano, s.refilled.Tx >= s.bytes*marker.Nano
		holds := map[marker.MeterType][]bool{ // green, yellow, red
			marker.Token:   {inC, false, true},
			marker.SRTCM:   {inC, inX, true},
			marker.TRTCM:   {inC && inX, inX, true},
			marker.RFC4115: {inC, inX, true},
		}[s.profile.Meter]
		want := marker.Green
		if s.profile.Aware {
			want = s.in
		}
		for !holds[want] {
			want++
		}
		if s.color != want {
			return fmt.Errorf("%d bytes arriving %v are %v with %+v, want %v", s.bytes, s.in, s.color, s.refilled, want)
		}
		return nil
	})
}

// losesNothing: what a single rate earns in a time is all in C and E, but for what neither can hold.
func losesNothing(m machine, tr trace) error {
	return m.run(tr, func(s step) error {
		if s.now <= s.before.Last {
			return nil
		}
		earned := new(big.Int).SetUint64(s.now - s.before.Last)
		earned.Mul(earned, new(big.Int).SetUint64(s.profile.CIR))
		gained := s.refilled.Tc - s.before.Tc + s.refilled.Tx - s.before.Tx
		full := s.profile.Full(&s.refilled)
		if c := earned.Cmp(new(big.Int).SetUint64(gained)); c < 0 || c > 0 && !full {
			return fmt.Errorf("%v nanobytes earned, %d gained: %+v became %+v", earned, gained, s.before, s.refilled)
		}
		return nil
	})
}

// spendsByColor: red spends nothing; yellow leaves C alone; green leaves E alone, but takes from P.
func spendsByColor(m machine, tr trace) error {
	return m.run(tr, func(s step) error {
		want, cost := s.refilled, s.bytes*marker.Nano
		if s.color == marker.Green {
			want.Tc -= cost
		}
		if s.color == marker.Yellow || s.color == marker.Green && s.profile.Meter == marker.TRTCM {
			want.Tx -= cost
		}
		if s.after != want {
			return fmt.Errorf("%v of %d bytes leaves %+v of %+v, want %+v", s.color, s.bytes, s.after, s.refilled, want)
		}
		return nil
	})
}

// staysWithinBursts: no count is over its burst (nor, being unsigned, under 0), and time only takes
// it up.
func staysWithinBursts(m machine, tr trace) error {
	return m.run(tr, func(s step) error {
		for _, b := range []marker.Bucket{s.refilled, s.after} {
			if b.Tc > s.profile.CBS || b.Tx > s.profile.XBS {
				return fmt.Errorf("tokens %d and %d, bursts %d and %d", b.Tc, b.Tx, s.profile.CBS, s.profile.XBS)
			}
		}
		if s.refilled.Tc < s.before.Tc || s.refilled.Tx < s.before.Tx {
			return fmt.Errorf("refilling %+v takes tokens: %+v", s.before, s.refilled)
		}
		return nil
	})
}

// ignoresStepsBack: such a refill says so and changes nothing; any other sets Last.
func ignoresStepsBack(m machine, tr trace) error {
	return m.run(tr, func(s step) error {
		switch back := s.now < s.before.Last; {
		case s.back != back:
			return fmt.Errorf("refilling %+v at %d says clock back %v", s.before, s.now, s.back)
		case back && s.refilled != s.before:
			return fmt.Errorf("%+v became %+v at the earlier time %d", s.before, s.refilled, s.now)
		case !back && s.refilled.Last != s.now:
			return fmt.Errorf("last is %d after a refill at %d", s.refilled.Last, s.now)
		}
		return nil
	})
}

// awareOfGreenIsBlind: where every packet arrives green, looking makes no difference; and a blind
// meter does not look.
func awareOfGreenIsBlind(m machine, tr trace) error {
	blind := tr
	blind.params.Aware = false
	aware := tr
	aware.params.Aware = true
	aware.packets = append([]arrival(nil), tr.packets...)
	for i := range aware.packets {
		aware.packets[i].in = marker.Green
	}
	return m.agree(blind, aware, func(s step) marker.Color { return s.color })
}

// agree runs two traces of equally many packets side by side: same colours, same tokens. Where they
// differ in colour, excuse may name the one the second may give instead.
func (m machine) agree(first, second trace, excuse func(s step) marker.Color) error {
	var steps []step
	err := m.run(first, func(s step) error {
		steps = append(steps, s)
		return nil
	})
	if err != nil {
		return err
	}
	i := 0
	return m.run(second, func(s step) error {
		one := steps[i]
		i++
		if s.after != one.after || s.color != one.color && s.color != excuse(one) {
			return fmt.Errorf("%v is %v and leaves %+v, %v is %v and leaves %+v",
				one.profile.Meter, one.color, one.after, s.profile.Meter, s.color, s.after)
		}
		return nil
	})
}

// tokenIsGCRA: the generic cell rate algorithm as virtual scheduling (ITU-T I.371), in exact
// fractions of seconds: a packet of B bytes at t conforms where the theoretical arrival time, moved on
// by B/CIR, is at most CBS/CIR ahead of t.
func tokenIsGCRA(m machine, tr trace) error {
	p := tr.params
	tolerance := new(big.Rat).SetFrac(whole(p.CBS).Num(), whole(p.CIR).Num()) // seconds
	var now, tat *big.Rat                                                     // seconds; now never steps back
	return m.run(tr, func(s step) error {
		stamp := new(big.Rat).SetFrac(whole(s.now).Num(), big.NewInt(1e9))
		if now == nil {
			now, tat = stamp, stamp
		}
		if stamp.Cmp(now) > 0 {
			now = stamp
		}
		if tat.Cmp(now) < 0 {
			tat = now
		}
		after := new(big.Rat).SetFrac(whole(s.bytes).Num(), whole(p.CIR).Num())
		after.Add(after, tat)
		want := marker.Red
		if ahead := new(big.Rat).Sub(after, now); ahead.Cmp(tolerance) <= 0 && (!p.Aware || s.in == marker.Green) {
			want, tat = marker.Green, after
		}
		left := new(big.Rat).Sub(tat, now) // tokens are what is left of the tolerance
		left.Sub(tolerance, left).Mul(left, whole(p.CIR)).Mul(left, whole(marker.Nano))
		if s.color != want || left.Cmp(whole(s.after.Tc)) != 0 {
			return fmt.Errorf("%v with %d nanobytes left; GCRA says %v with %v", s.color, s.after.Tc, want, left)
		}
		return nil
	})
}

// tokenIsSRTCM: with EBS 0. But an aware srtcm passes a packet of no bytes that arrives yellow as
// yellow (an empty E holds 0 bytes), which the two colours of token cannot say.
func tokenIsSRTCM(m machine, tr trace) error {
	second := tr
	second.params.Meter = marker.SRTCM
	return m.agree(tr, second, func(s step) marker.Color {
		if s.bytes == 0 && s.in == marker.Yellow {
			return marker.Yellow
		}
		return s.color
	})
}

// coupledIsSRTCM: with EIR 0, all that E gets is what C cannot hold.
func coupledIsSRTCM(m machine, tr trace) error {
	tr.params.Coupling, tr.params.EIR = true, 0
	tr.params.CIR, tr.params.CBS = max(1, tr.params.CIR), max(1, tr.params.CBS)
	tr.params.EBS = min(tr.params.EBS, marker.MaxBurst-tr.params.CBS)
	second := tr
	second.params.Meter, second.params.Coupling = marker.SRTCM, false
	return m.agree(tr, second, func(s step) marker.Color { return s.color })
}

// TestJudgeIsItsThreeSteps: what the data path calls is Refill, Color and Spend, which the oracle, the
// vectors and the properties judge.
func TestJudgeIsItsThreeSteps(t *testing.T) {
	for _, meter := range meterTypes {
		t.Run(meter.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				tr := genTrace(fromRapid(t), meter, widest)
				err := shipped.run(tr, func(s step) error {
					after := s.before
					color, back := s.profile.Judge(&after, s.now, s.bytes*marker.Nano, s.in)
					if color != s.color || back != s.back || after != s.after {
						return fmt.Errorf("judged %v, clock back %v, leaves %+v; in three steps %v, %v, %+v",
							color, back, after, s.color, s.back, s.after)
					}
					// A bucket with more than its bursts hold: a change of policy left it so, and the
					// clock stepped back behind the change.
					over := s.before
					over.Tc, over.Tx = over.Tc+marker.Nano, over.Tx+marker.Nano
					after = over
					color, back = s.profile.Judge(&after, s.now, s.bytes*marker.Nano, s.in)
					steps := s.profile.Refill(&over, s.now)
					want := s.profile.Color(&over, s.bytes*marker.Nano, s.in)
					s.profile.Spend(&over, s.bytes*marker.Nano, want)
					if color != want || back != steps || after != over {
						return fmt.Errorf("over its bursts: judged %v, clock back %v, leaves %+v; in three steps %v, %v, %+v",
							color, back, after, want, steps, over)
					}
					return nil
				})
				if err != nil {
					t.Fatalf("%v\n%v", err, tr)
				}
			})
		})
	}
}

// TestPropertiesAreNotVacuous: the traces reach every colour of every meter, arrivals of each, steps
// back, partial fills and full buckets; else a property would hold of nothing.
func TestPropertiesAreNotVacuous(t *testing.T) {
	for _, meter := range meterTypes {
		seen := map[string]int{}
		for i := range uint64(200) {
			err := shipped.run(genTrace(fromSeed(1, i), meter, widest), func(s step) error {
				seen[s.color.String()]++
				seen["back"] += count(s.back)
				seen["partial fill"] += count(s.before.Tc < s.refilled.Tc && s.refilled.Tc < s.profile.CBS)
				seen["exact fit"] += count(s.color == marker.Green && s.after.Tc == 0 && s.bytes > 0)
				seen["full"] += count(s.profile.Full(&s.refilled))
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, what := range []string{"green", "yellow", "red", "back", "partial fill", "exact fit", "full"} {
			if seen[what] < 20 && (what != "yellow" || meter != marker.Token) {
				t.Errorf("%v: only %d packets: %s", meter, seen[what], what)
			}
		}
		t.Logf("%v: %v", meter, seen)
	}
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
