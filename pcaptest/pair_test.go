package pcaptest

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/loader"
	"github.com/tricolor-policer/tricolor/marker"
)

// pair is both sides with one plan, for frames made up one by one.
type pair struct {
	*verifier
	kernel *Kernel
	number int64
}

func newPair(t testing.TB, plan *marker.Plan) *pair {
	t.Helper()
	m, err := NewMirror(plan, marker.SeedsFrom(1))
	if err != nil {
		t.Fatal(err)
	}
	k, err := NewKernel(plan, marker.SeedsFrom(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	return &pair{verifier: newVerifier(plan, m, k), kernel: k}
}

// check fails t where the sides differ on a frame.
func (p *pair) check(t testing.TB, f marker.Frame, now uint64) {
	t.Helper()
	p.number++
	f.Data = f.Data[:min(len(f.Data), loader.RunMax)]
	d, err := p.packet(f, p.number, now)
	if err != nil {
		t.Fatalf("%v\nframe %+v\n%x", err, f, f.Data)
	}
	if d != nil {
		t.Fatalf("%v\nframe: link %d, length %d, vlan %#x, gso %d × %d\n%x", d, f.Link, f.Length, f.VLAN, f.GSOSegs, f.GSOSize, f.Data)
	}
}

// pairPlan counts frames, since those need most of the parser.
func pairPlan(t testing.TB, count marker.Count, overhead int64) *marker.Plan {
	plan := planOf(t, marker.Params{Meter: marker.SRTCM, CIR: 1_000_000, CBS: 20_000, EBS: 20_000, Aware: true}, marker.PerFlow, 256)
	plan.Classes[0].Count, plan.Classes[0].Overhead = count, overhead
	return plan
}

// grammar makes up frames as they come, and as they should not.
type grammar struct {
	*rand.Rand
	b []byte
}

func (g *grammar) one(n int) bool { return g.IntN(n) == 0 }

func (g *grammar) bytes(n int) {
	for range n {
		g.b = append(g.b, byte(g.Uint32()))
	}
}

func (g *grammar) be16(v uint16) { g.b = binary.BigEndian.AppendUint16(g.b, v) }

// pick returns one of the values, now and then any.
func (g *grammar) pick(values ...uint16) uint16 {
	if g.one(40) {
		return uint16(g.Uint32())
	}
	return values[g.IntN(len(values))]
}

// frame returns a frame; its data is valid until the next call.
func (g *grammar) frame() marker.Frame {
	g.b = g.b[:0]
	f := marker.Frame{Link: marker.LinkEthernet}
	if g.one(5) {
		f.Link = []marker.Link{marker.LinkOther, marker.LinkIPv4, marker.LinkIPv6}[g.IntN(3)]
	}
	if g.one(8) {
		f.GSOSize = uint32(g.pick(1, 100, 1400, 1460, 0xffff))
		f.GSOSegs = uint32(g.pick(0, 1, 2, 10, 44))
	}
	if f.Link == marker.LinkEthernet {
		if g.one(6) {
			f.VLAN = marker.VLANPresent | uint32(g.pick(0, 100, 0xe064))
		}
		g.ethernet()
	} else if f.Link == marker.LinkIPv6 {
		g.ipv6()
	} else {
		g.ipv4()
	}
	if g.one(6) {
		g.bytes(g.IntN(20)) // a trailer
	}
	f.Length = uint32(len(g.b))
	switch {
	case g.one(6): // cut by the snaplen
		g.b = g.b[:g.IntN(len(g.b)+1)]
	case g.one(40): // longer than any length field
		f.Length += uint32(g.IntN(1 << 18))
	case g.one(15) && len(g.b) > 0: // damaged
		for range 1 + g.IntN(3) {
			g.b[g.IntN(len(g.b))] ^= byte(1 << g.IntN(8))
		}
	}
	f.Data = g.b
	return f
}

func (g *grammar) ethernet() {
	g.bytes(12)
	for range g.IntN(6) * g.IntN(2) {
		g.be16(g.pick(0x8100, 0x88a8))
		g.be16(uint16(g.IntN(4)))
	}
	kind := g.pick(0x0800, 0x86dd, 0x0800, 0x86dd, 0x8864, 0x0806, 0x8847)
	g.be16(kind)
	if kind == 0x8864 {
		g.b = append(g.b, byte(g.pick(0x11, 0x11, 0x11, 0x21)), byte(g.pick(0, 0, 0, 9)))
		g.bytes(4)
		ppp := g.pick(0x0021, 0x0057, 0xc021)
		g.be16(ppp)
		kind = map[uint16]uint16{0x0021: 0x0800, 0x0057: 0x86dd}[ppp]
	}
	if g.one(60) {
		kind ^= 0x0800 ^ 0x86dd // the other version
	}
	switch kind {
	case 0x0800:
		g.ipv4()
	case 0x86dd:
		g.ipv6()
	default:
		g.bytes(g.IntN(60))
	}
}

// addresses are few, so that flows come again.
func (g *grammar) address(size int) {
	g.b = append(g.b, make([]byte, size-1)...)
	g.b = append(g.b, byte(g.IntN(6)))
}

func (g *grammar) ipv4() {
	start := len(g.b)
	ihl := int(g.pick(5, 5, 5, 6, 15, 4, 0)) & 15
	g.b = append(g.b, 4<<4|byte(ihl), byte(g.Uint32()))
	g.be16(0)
	g.bytes(2)
	g.be16(g.pick(0, 0, 0x4000, 0x2000, 0x0010, 0x2010))
	proto := byte(g.pick(6, 17, 17, 1, 132, 136, 33, 47, 50, 51))
	g.b = append(g.b, 64, proto, 0, 0)
	g.address(4)
	g.address(4)
	g.bytes(max(0, ihl-5) * 4)
	g.transport(proto)
	g.length(start, start+2, 0)
}

func (g *grammar) ipv6() {
	start := len(g.b)
	g.be16(6<<12 | uint16(g.Uint32())&0xfff)
	g.bytes(2)
	g.be16(0)
	next := byte(g.pick(6, 17, 58, 0, 43, 60, 51, 0, 44, 50, 59, 132))
	g.b = append(g.b, next, 64)
	g.address(16)
	g.address(16)
	long := g.one(12) // more extension headers than are walked
	for range 12 {
		switch next {
		case 0, 43, 60, 51:
			size := int(g.pick(0, 0, 0, 1, 2, 30)) & 0xff
			after := byte(g.pick(6, 17, 0, 43, 60, 51, 44, 58))
			if long {
				size, after = 0, byte(g.pick(0, 43, 60, 51))
			}
			g.b = append(g.b, after, byte(size))
			if next == 51 {
				g.bytes((size+2)*4 - 2)
			} else {
				g.bytes((size+1)*8 - 2)
			}
			next = after
		case 44:
			after := byte(g.pick(6, 17, 58))
			g.b = append(g.b, after, 0)
			g.be16(g.pick(0, 1, 8))
			g.bytes(4)
			g.transport(after)
			g.length(start, start+4, 40)
			return
		}
	}
	g.transport(next)
	g.length(start, start+4, 40)
}

func (g *grammar) transport(proto byte) {
	g.be16(uint16(g.IntN(4)))
	g.be16(uint16(g.IntN(4)))
	if proto == 6 {
		g.bytes(8)
		g.b = append(g.b, byte(g.pick(5, 5, 8, 15, 0))<<4)
		g.bytes(7)
	}
	g.bytes(g.IntN(3) * g.IntN(120))
}

// length fills in a length field: true, or 0, or false.
func (g *grammar) length(start, at, less int) {
	length := uint16(len(g.b) - start - less)
	switch g.IntN(25) {
	case 0:
		length = 0
	case 1:
		length += uint16(g.IntN(3))
	case 2:
		length -= uint16(g.IntN(60))
	}
	binary.BigEndian.PutUint16(g.b[at:], length)
}

// Mirror and kernel agree on frames made up by a grammar, for each unit of cost.
func TestPairOnMadeUpFrames(t *testing.T) {
	testutils.RequireKernel(t)
	seed := testutils.Seed(t)
	for _, c := range []struct {
		count    marker.Count
		overhead int64
	}{{marker.CountL3, 0}, {marker.CountL2, 0}, {marker.CountL1, -40}, {marker.CountPackets, 0}, {marker.CountL3, 3000}} {
		t.Run(c.count.String(), func(t *testing.T) {
			p := newPair(t, pairPlan(t, c.count, c.overhead))
			g := &grammar{Rand: rand.New(rand.NewPCG(seed, uint64(c.count)))}
			now := uint64(1 << 40)
			const frames = 20_000
			for range frames {
				if now += g.Uint64N(2_000_000); g.one(50) {
					now -= g.Uint64N(20_000_000)
				}
				p.check(t, g.frame(), now)
			}
			stats, err := p.mirror.Stats()
			if err != nil {
				t.Fatal(err)
			}
			class := stats.Classes[0]
			t.Logf("%+v", stats)
			// What hardly ever occurred was hardly compared.
			for what, n := range map[string]uint64{
				"green": class.Packets[marker.Green], "not IP": stats.Port.NotIP, "malformed": stats.Port.Malformed,
				"more extension headers than are walked": stats.Port.LongChain * 4, "clock back": class.ClockBack * 4,
			} {
				if n < frames/100 {
					t.Errorf("%s: only %d of %d frames", what, n, frames)
				}
			}
			if d, _, err := p.end(); d != nil || err != nil {
				t.Errorf("%v %v", d, err)
			}
		})
	}
}

// FuzzParserPair holds the kernel's parser and the mirror's against each other, and all that follows.
func FuzzParserPair(f *testing.F) {
	testutils.RequireKernel(f)
	g := &grammar{Rand: rand.New(rand.NewPCG(1, 2))}
	for range 200 {
		frame := g.frame()
		f.Add(frame.Data, frame.Length-uint32(len(frame.Data)), frame.VLAN, uint8(frame.Link), uint16(frame.GSOSize), uint16(frame.GSOSegs))
	}
	p := newPair(f, pairPlan(f, marker.CountL2, 0))
	now := uint64(1 << 40)
	f.Fuzz(func(t *testing.T, data []byte, more, vlan uint32, link uint8, gsoSize, gsoSegs uint16) {
		const longest = 1 << 20
		frame := marker.Frame{
			Data:    data,
			VLAN:    vlan & 0x1ffff,
			Link:    []marker.Link{marker.LinkEthernet, marker.LinkOther, marker.LinkIPv4, marker.LinkIPv6}[link%4],
			GSOSize: uint32(gsoSize),
			GSOSegs: uint32(gsoSegs),
		}
		frame.Length = uint32(len(frame.Data)) + more%longest
		now += 1000
		p.check(t, frame, now)
	})
}
