package marker

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"testing"
)

// The numbers of splitmix64 from 0, as published with it (and in Java's SplittableRandom).
func TestSeedsFrom(t *testing.T) {
	s := SeedsFrom(0)
	want := []uint64{0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f, 0xf88bb8a8724c81ec}
	for i, w := range want {
		if s[i] != w {
			t.Errorf("seed %d: %#x, not %#x", i, s[i], w)
		}
	}
	if SeedsFrom(1) == s {
		t.Error("two numbers give the same seeds")
	}
}

// The multilinear sum, worked out by hand: with all seeds 0 but one it is the product of two halves.
func TestHashByHand(t *testing.T) {
	finish := func(h uint64) uint64 { // xor-shift, multiply, xor-shift
		h ^= h >> 32
		h *= 0x9e3779b97f4a7c15
		return h ^ h>>32
	}
	for i := range 5 {
		var s Seeds
		k := Key{}
		k[i] = 7<<32 | 3
		if got := s.Hash(&k); got != finish(21) {
			t.Errorf("word %d: %#x, not of 3 × 7", i, got)
		}
		s[0], s[1+2*i], s[2+2*i] = 1000, 10, 100
		if got := s.Hash(&k); got != finish(1000+13*107) {
			t.Errorf("word %d with seeds: %#x, not of 1000 + (10 + 3) × (100 + 7)", i, got)
		}
	}
}

// A tag is never 0, which is an empty slot's; two candidates are never one set.
func TestHashParts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	hashes := []uint64{0, 1, ^uint64(0), 1 << 32, 1 << 56, 0x00ffffffffffffff, 0x0000000500000005}
	for range 100_000 {
		h := r.Uint64()
		hashes = append(hashes, h, h&0x00ffffffffffffff, h&0xffffffff|h<<32)
	}
	for _, h := range hashes {
		if hashTag(h) == 0 {
			t.Fatalf("hash %#x: tag 0", h)
		}
		for mask := uint32(1); mask < MaxFlows/SetSlots; mask = mask<<1 | 1 {
			left, right := hashLeft(h, mask), hashRight(h, mask)
			if left == right || left > mask || right > mask {
				t.Fatalf("hash %#x, mask %#x: candidates %d and %d", h, mask, left, right)
			}
		}
	}
}

// A bit of the key changes each bit of the hash about every other time, for addresses as they come:
// few bits set, in sequence.
func TestHashAvalanche(t *testing.T) {
	const rounds = 2000
	r := rand.New(rand.NewPCG(3, 4))
	for bit := range 320 {
		var flips [64]int
		for range rounds {
			s := SeedsFrom(r.Uint64())
			f := KeyFields{Proto: 17}
			binary.BigEndian.PutUint32(f.Src[:], 0x0a000000+r.Uint32N(256))
			binary.BigEndian.PutUint32(f.Dst[:], 0xc0a80000+r.Uint32N(256))
			k := f.Key()
			changed := k
			changed[bit/64] ^= 1 << (bit % 64)
			d := s.Hash(&k) ^ s.Hash(&changed)
			for ; d != 0; d &= d - 1 {
				flips[bits.TrailingZeros64(d)]++
			}
		}
		for out, n := range flips {
			// Over 8 standard deviations from a half: not by chance in a lifetime.
			if dev := n - rounds/2; dev < -180 || dev > 180 {
				t.Errorf("bit %d of the key flips bit %d of the hash %d of %d times", bit, out, n, rounds)
			}
		}
	}
}

// Whoever does not know the seeds cannot choose two bits whose change leaves a key where it is, under
// more than a few seeds.
func TestHashChosenFlips(t *testing.T) {
	const mask, seeds = 1<<18 - 1, 64 // a million slots
	r := rand.New(rand.NewPCG(5, 6))
	tables := make([]Seeds, seeds)
	for i := range tables {
		tables[i] = SeedsFrom(r.Uint64())
	}
	for _, k := range []Key{{}, {0x0100000a, 0, 0x0200000a, 0, 17<<32 | 0x35003412}} {
		for a := range 320 {
			for b := range a {
				changed := k
				changed[a/64] ^= 1 << (a % 64)
				changed[b/64] ^= 1 << (b % 64)
				same := 0
				for i := range tables {
					h, g := tables[i].Hash(&k), tables[i].Hash(&changed)
					if hashLeft(h, mask) == hashLeft(g, mask) && hashRight(h, mask) == hashRight(g, mask) {
						same++
					}
				}
				if same > 1 {
					t.Errorf("key %x, bits %d and %d: the same sets under %d of %d seeds", k, a, b, same, seeds)
				}
			}
		}
	}
}

// How many keys find no room, filling a table once. Two sets of four chosen at random, one in each
// half of the table, leave 0, .40 and 3.3 % at loads of .5, .75 and .9; addresses and ports in sequence do no worse.
func TestHashShareInOverflow(t *testing.T) {
	const flows = 1 << 16
	keys := map[string]func(i uint32, r *rand.Rand) KeyFields{
		"random": func(_ uint32, r *rand.Rand) (f KeyFields) {
			binary.BigEndian.PutUint32(f.Src[:], r.Uint32())
			binary.BigEndian.PutUint32(f.Dst[:], r.Uint32())
			return f
		},
		"sequential sources": func(i uint32, _ *rand.Rand) (f KeyFields) {
			binary.BigEndian.PutUint32(f.Src[:], 0x0a000000+i)
			return f
		},
		"256 sources × 256 destinations": func(i uint32, _ *rand.Rand) (f KeyFields) {
			f.Src, f.Dst = [16]byte{10, 0, 0, byte(i >> 8)}, [16]byte{10, 1, 0, byte(i)}
			return f
		},
		"all source ports": func(i uint32, _ *rand.Rand) (f KeyFields) {
			f.Src, f.Dst, f.Proto = [16]byte{10, 0, 0, 1}, [16]byte{10, 0, 0, 2}, 6
			binary.BigEndian.PutUint16(f.Sport[:], uint16(i))
			return f
		},
		"IPv6 interface identifiers": func(i uint32, _ *rand.Rand) (f KeyFields) {
			f.Src, f.Kind = [16]byte{0x20, 1, 0xd, 0xb8}, kindIPv6
			binary.BigEndian.PutUint32(f.Src[12:], i)
			return f
		},
	}
	for name, key := range keys {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(7, 8))
			for _, c := range []struct{ load, least, most float64 }{{.5, 0, .0001}, {.75, .002, .006}, {.9, .025, .037}} {
				m := tiny(t, Params{Meter: Token, CIR: 1, CBS: 1000}, flows, 9)
				n := int(c.load * flows)
				for i := range n {
					f := key(uint32(i), r)
					p, pl, h := packet{key: f.Key(), header: header{family: FamilyIPv4}}, place{}, held{}
					meter := &m.plan.Classes[0].Meters[0]
					m.place(&p, meter, 0, &pl)
					m.find(&pl, meter, 0, 0, &h)
					m.table.slot(h.at).Bucket.Tc = 0 // in use: not to be forgotten
					m.stats.Classes[0].Overflow += uint64(map[bool]int{true: 1}[h.overflow])
				}
				share := float64(m.stats.Classes[0].Overflow) / float64(n)
				t.Logf("load %v: %.3f %% in overflow", c.load, 100*share)
				if share < c.least || share > c.most {
					t.Errorf("load %v: %.3f %% in overflow, not %v … %v %%", c.load, 100*share, 100*c.least, 100*c.most)
				}
			}
		})
	}
}
