package pcaptest

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/marker"
)

// A tick is how an interface of a pcapng writes the time.
type tick struct {
	resolution uint8
	offset     int64
}

// nanoseconds is what a stamp says, with numbers as large as they need be.
func (k tick) nanoseconds(stamp uint64) uint64 {
	ns := new(big.Int).SetUint64(stamp)
	ns.Mul(ns, big.NewInt(1e9))
	exponent := int64(k.resolution & 0x7f)
	base := big.NewInt(10)
	if k.resolution&0x80 != 0 {
		base = big.NewInt(2)
	}
	ns.Div(ns, base.Exp(base, big.NewInt(exponent), nil))
	ns.Add(ns, new(big.Int).Mul(big.NewInt(k.offset), big.NewInt(1e9)))
	if ns.Sign() < 0 {
		return 0
	}
	if !ns.IsUint64() {
		return ^uint64(0)
	}
	return ns.Uint64()
}

// stamp is the last stamp that is not after a time, as far as 64 bits hold it.
func (k tick) stamp(ns uint64) uint64 {
	low, high := uint64(0), ^uint64(0)
	for low < high {
		middle := low + (high-low)/2 + 1
		if k.nanoseconds(middle) <= ns {
			low = middle
		} else {
			high = middle - 1
		}
	}
	return low
}

// clockCases are clocks that no machine has, and captures do.
var clockCases = []struct {
	name  string
	ticks []tick // of the interfaces of a pcapng; none: a pcap
	start uint64 // ns
	// The next time after one.
	next func(r *rand.Rand, now uint64) uint64
}{
	{"equal stamps", nil, 1e18, func(_ *rand.Rand, now uint64) uint64 { return now }},
	{"one ns back, each", nil, 1e18, func(_ *rand.Rand, now uint64) uint64 { return now - 1 }},
	{"decades back and forth", nil, 1e18, decades},
	{"decades back and forth, on several interfaces", []tick{{6, 0}, {9, 0}, {0x80 | 10, 0}, {6, 0}}, 1e18, decades},
	{"several resolutions", []tick{{6, 0}, {9, 0}, {0x80 | 10, 0}, {0, 0}, {12, 0}, {3, 0}, {0x80 | 32, 0}}, 1e18, jitter},
	{"offsets", []tick{{9, 1 << 30}, {6, -1000}, {0x80 | 10, 1e9}, {9, 0}, {0, -1 << 40}}, 2e18, jitter},
	{"past 2^32 s", []tick{{6, 0}, {0x80 | 10, 0}, {9, 1 << 32}, {0, 0}}, 1 << 32 * 1e9, jitter},
	{"over 2^32 s and back", []tick{{6, 0}, {0x80 | 10, 0}, {9, 0}}, 1<<32*1e9 - 5e8, jitter},
	{"at the end of 64 bits", []tick{{9, 0}, {9, 1}, {6, 1 << 33}, {0, 0}}, 1<<64 - 5e9, jitter},
}

// jitter goes on by up to half a second, at times back by as much, at times not at all.
func jitter(r *rand.Rand, now uint64) uint64 {
	switch step := r.Uint64N(5e8); r.IntN(8) {
	case 0:
		return now
	case 1, 2:
		return now - min(now, step)
	default:
		sum, carry := bits.Add64(now, step, 0)
		if carry != 0 {
			return ^uint64(0)
		}
		return sum
	}
}

// decades is jitter that at times jumps by years, to either side.
func decades(r *rand.Rand, now uint64) uint64 {
	const year = 365 * 86400 * 1e9
	switch r.IntN(12) {
	case 0:
		return now - min(now, r.Uint64N(60*year))
	case 1:
		return min(now+r.Uint64N(30*year), 4e18)
	}
	return jitter(r, now)
}

// clockPackets is a capture of so many packets of two flows, and each one's time in ns.
func clockPackets(o byteOrder, r *rand.Rand, ticks []tick, start uint64, packets int, next func(*rand.Rand, uint64) uint64) (file []byte, times []uint64) {
	packet := func() []byte {
		ip, _ := markingIPv4()
		ip[14+19] = byte(r.IntN(2))
		freshChecksum(ip[14:])
		return ip
	}
	if ticks == nil {
		file = pcapOf(o, 1)
	} else {
		file = appendSection(nil, o)
	}
	for _, k := range ticks {
		file = appendInterface(file, o, 1, k.resolution, k.offset)
	}
	for now := start; len(times) < packets; now = next(r, now) {
		if ticks == nil {
			file = appendRecord(file, o, now, packet(), 74)
			times = append(times, now)
			continue
		}
		i := r.IntN(len(ticks))
		stamp := ticks[i].stamp(now)
		file = appendPacket(file, o, i, stamp, packet(), 74)
		times = append(times, ticks[i].nanoseconds(stamp))
	}
	return file, times
}

// A clockBucket is a token bucket that earns only when its clock reaches a time it has never seen.
type clockBucket struct{ last, tokens uint64 } // tokens in nanobytes

func (b *clockBucket) green(now, rate, burst, cost uint64) bool {
	if now > b.last {
		high, earned := bits.Mul64(now-b.last, rate)
		sum, carry := bits.Add64(b.tokens, earned, 0)
		if b.tokens = min(sum, burst*1e9); high != 0 || carry != 0 {
			b.tokens = burst * 1e9
		}
		b.last = now
	}
	if b.tokens < cost*1e9 {
		return false
	}
	b.tokens -= cost * 1e9
	return true
}

// Whatever the clock of a capture does: each packet has its stamp's time, to the nanosecond; a jump back is
// never credited; and how many there are is said.
func TestClocks(t *testing.T) {
	seed := testutils.Seed(t)
	const rate, burst, cost, packets = 100, 180, 60, 400
	for i, c := range clockCases {
		for _, o := range []byteOrder{binary.LittleEndian, binary.BigEndian} {
			t.Run(fmt.Sprintf("%s, %v", c.name, o), func(t *testing.T) {
				file, times := clockPackets(o, rand.New(rand.NewPCG(seed, uint64(i))), c.ticks, c.start, packets, c.next)
				back, clockBack := int64(0), uint64(0)
				buckets := map[string]*clockBucket{}
				plan := planOf(t, marker.Params{Meter: marker.Token, CIR: rate, CBS: burst}, marker.PerFlow, 64)
				previous, at := times[0], 0
				replay, err := ReplayCapture(context.Background(), writeCapture(t, file), ReplayOptions{
					Plan: plan, Seeds: marker.SeedsFrom(1), Each: func(s *Step) error {
						now := times[at]
						if at++; s.Packet.Time != now {
							t.Fatalf("packet %d is at %d ns, not %d", at, s.Packet.Time, now)
						}
						if now < previous {
							back++
						}
						previous = now
						flow := s.Seen.Flow.String()
						b := buckets[flow]
						if b == nil {
							b = &clockBucket{now, burst * 1e9}
							buckets[flow] = b
						}
						if now < b.last {
							clockBack++
						}
						green := b.green(now, rate, burst, cost)
						if (s.Outcome.Color == marker.Green) != green || s.Bucket.Bucket.Tc != b.tokens || s.Bucket.Bucket.Last != b.last {
							t.Fatalf("packet %d at %d ns: %v, %d nB at %d ns; should be green: %v, %d nB at %d ns",
								at, now, s.Outcome.Color, s.Bucket.Bucket.Tc, s.Bucket.Bucket.Last, green, b.tokens, b.last)
						}
						return nil
					},
				})
				if err != nil || replay.Records != packets || at != packets || len(buckets) != 2 {
					t.Fatalf("%d packets of %d flows: %v", at, len(buckets), err)
				}
				if replay.Backward != back {
					t.Errorf("%d steps back are told, %d are there", replay.Backward, back)
				}
				if got := replay.Stats.Classes[0].ClockBack; got != clockBack {
					t.Errorf("%d packets are counted behind their bucket, %d are", got, clockBack)
				}
				if c.name == "equal stamps" != (back == 0) {
					t.Errorf("%d steps back", back)
				}
			})
		}
	}
}

// Mirror and kernel agree on such clocks, and both with replay.
func TestVerifyClocks(t *testing.T) {
	testutils.RequireKernel(t)
	seed := testutils.Seed(t)
	for i, c := range clockCases {
		for half := range 2 { // each meter on several clocks
			meter := verifiedMeters[(i+half*len(verifiedMeters)/2)%len(verifiedMeters)]
			t.Run(c.name+", "+meter.name, func(t *testing.T) {
				params := meter.params
				params.CIR, params.PIR, params.EIR = params.CIR/200, params.PIR/200, params.EIR/200
				params.CBS, params.EBS, params.PBS = params.CBS/20, params.EBS/20, params.PBS/20
				plan := planOf(t, params, marker.PerFlow, 64)
				file, _ := clockPackets(binary.LittleEndian, rand.New(rand.NewPCG(seed, uint64(i))), c.ticks, c.start, 300, c.next)
				path := writeCapture(t, file)
				replay, err := ReplayCapture(context.Background(), path, ReplayOptions{Plan: plan, Seeds: marker.SeedsFrom(1)})
				if err != nil {
					t.Fatal(err)
				}
				forgotten := 0
				v, err := verifyFile(t, path, plan, &forgotten)
				if err != nil || v.First != nil || v.Compared != 300 {
					t.Fatalf("%d packets compared: %v %v", v.Compared, v.First, err)
				}
				if got, want := v.Stats.Classes[0], replay.Stats.Classes[0]; got != want {
					t.Errorf("verify counts %+v, replay %+v", got, want)
				}
				// Green never exceeds what the time from the earliest to the latest stamp earns.
				high, earned := bits.Mul64(replay.Span(), params.CIR)
				if green := replay.Stats.Classes[0].Bytes[marker.Green]; high == 0 && green > 2*(params.CBS+earned/1e9+1) {
					t.Errorf("%d bytes are green in %d ns", green, replay.Span())
				}
			})
		}
	}
}
