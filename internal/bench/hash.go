package main

import (
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/tricolor-policer/tricolor/marker"
)

// hasher is a way to hash a key, with seeds of its own.
type hasher struct {
	name string
	seed func(seed uint64) func(*marker.Key) uint64
}

var hashers = []hasher{
	{"ours, multilinear", func(seed uint64) func(*marker.Key) uint64 {
		s := marker.SeedsFrom(seed)
		return s.Hash
	}},
	{"jhash (lookup3)", seeded(jhash)},
	{"xxh64, word by word", seeded(xxhash)},
	{"multiply and shift", seeded(multiplyMix)},
}

func seeded(f func(*marker.Key, uint64) uint64) func(uint64) func(*marker.Key) uint64 {
	return func(seed uint64) func(*marker.Key) uint64 {
		return func(k *marker.Key) uint64 { return f(k, seed) }
	}
}

// patterns are keys as they come, and as somebody chooses them.
var patterns = []struct {
	name string
	key  func(i uint32, r *rand.Rand) marker.KeyFields
}{
	{"random addresses and ports", func(_ uint32, r *rand.Rand) (f marker.KeyFields) {
		binary.BigEndian.PutUint32(f.Src[:], r.Uint32())
		binary.BigEndian.PutUint32(f.Dst[:], r.Uint32())
		binary.BigEndian.PutUint16(f.Sport[:], uint16(r.Uint32()))
		f.Proto = 6
		return f
	}},
	{"sequential sources", func(i uint32, _ *rand.Rand) (f marker.KeyFields) {
		binary.BigEndian.PutUint32(f.Src[:], 10<<24+i)
		return f
	}},
	{"a /24 × a /24 × ports", func(i uint32, _ *rand.Rand) (f marker.KeyFields) {
		f.Src, f.Dst = [16]byte{192, 0, 2, byte(i)}, [16]byte{198, 51, 100, byte(i >> 8)}
		binary.BigEndian.PutUint16(f.Dport[:], uint16(i>>16))
		return f
	}},
}

func keysOf(pattern, n int, seed uint64) []marker.Key {
	r := rand.New(rand.NewPCG(seed, 0))
	keys := make([]marker.Key, n)
	for i := range keys {
		f := patterns[pattern].key(uint32(i), r)
		keys[i] = f.Key()
	}
	return keys
}

// hashSection measures how fast ways to hash are and how well they spread, then how much a table's shape leaves in
// overflow.
func hashSection(t *table) error {
	speedRows(t)
	chosenRows(t)
	spreadRows(t)
	return shapeRows(t)
}

func speedRows(t *table) {
	keys := keysOf(0, 4096, 1)
	times := make([]figure, len(hashers))
	seen := uint64(0)
	for range rounds {
		for i, h := range hashers {
			const n = 2_000_000
			hash := h.seed(1)
			start := time.Now()
			for j := range uint(n) {
				seen ^= hash(&keys[j%uint(len(keys))])
			}
			times[i] = append(times[i], since(start, n))
		}
	}
	for i, h := range hashers {
		t.row(h.name+", a key of 40 bytes", times[i], "ns", "")
	}
	if seen == 0 {
		t.note("all hashes together came to 0")
	}
}

// chosenRows counts the seeds, of a thousand, under which two keys that were chosen without them have one hash.
func chosenRows(t *table) {
	const seeds = 1000
	for _, h := range hashers {
		f := marker.KeyFields{Src: [16]byte{0x20, 1, 0xd, 0xb8}, Dst: [16]byte{0x20, 1, 0xd, 0xb8, 1}, Proto: 17}
		k := f.Key()
		changed := colliding(h.name, k)
		same := 0
		for seed := range uint64(seeds) {
			if hash := h.seed(seed); hash(&k) == hash(&changed) {
				same++
			}
		}
		t.row(h.name+", a chosen pair collides", figure{100 * float64(same) / seeds}, "% of seeds", "0")
	}
}

func spreadRows(t *table) {
	const slots, load = 1 << 17, .75
	two4 := shape{"two sets of 4", 4, 2}
	for p := range patterns {
		for _, h := range hashers {
			var f figure
			for seed := range uint64(rounds) {
				f = append(f, 100*two4.overflow(keysOf(p, load*slots, seed), slots, h.seed(seed)))
			}
			t.row(h.name+", "+patterns[p].name+", load .75: overflow", f, "%", "")
		}
	}
}
