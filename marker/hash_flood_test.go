package marker

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tricolor-policer/tricolor/internal/testutils"
)

// An attacker who knows the hash but not the seeds sends the keys that he thinks share a set. He must not do better
// than with keys at random: then no set takes more than what the bound below says, except once in 10^9 runs.
const (
	floodKeys  = 1 << 12
	floodSets  = 1 << 10 // in each half of the table
	floodMask  = 2*floodSets - 1
	floodSeeds = 64
	floodAlarm = 1e-9 // of the whole test, by chance
)

// strategies choose floodKeys different keys. base is any key.
var strategies = []struct {
	name string
	keys func(base Key, r *rand.Rand) []Key
}{
	{"one bit or two changed", func(base Key, r *rand.Rand) (keys []Key) {
		for a := range 320 {
			for b := range a + 1 {
				k := base
				k[a/64] ^= 1 << (a % 64)
				if b != a {
					k[b/64] ^= 1 << (b % 64)
				}
				keys = append(keys, k)
			}
		}
		r.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		return keys[:floodKeys]
	}},
	{"all sums of twelve differences", func(base Key, r *rand.Rand) []Key {
		return combine(base, func(int) (d Key) {
			for i := range d {
				d[i] = r.Uint64()
			}
			return d
		}, func(a, b uint64) uint64 { return a + b })
	}},
	{"all combinations of twelve bits, at the top of the halves", func(base Key, _ *rand.Rand) []Key {
		return combine(base, func(i int) (d Key) {
			d[i/2%5] = 1 << (63 - i%2*32 - i/10)
			return d
		}, func(a, b uint64) uint64 { return a ^ b })
	}},
	{"all combinations of twelve bits, at the bottom of the halves", func(base Key, _ *rand.Rand) []Key {
		return combine(base, func(i int) (d Key) {
			d[i/2%5] = 1 << (i%2*32 + i/10)
			return d
		}, func(a, b uint64) uint64 { return a ^ b })
	}},
	{"sequential sources", func(base Key, _ *rand.Rand) []Key {
		return numbered(func(i uint32) Key {
			f := base.Fields()
			binary.BigEndian.PutUint32(f.Src[:], i)
			return f.Key()
		})
	}},
	{"sequential sources, as a little-endian machine counts", func(base Key, _ *rand.Rand) []Key {
		return numbered(func(i uint32) Key {
			k := base
			k[0] += uint64(i)
			return k
		})
	}},
	{"sources a set apart", func(base Key, _ *rand.Rand) []Key {
		return numbered(func(i uint32) Key {
			k := base
			k[0] = uint64(i * floodSets)
			return k
		})
	}},
	{"sequential ports", func(base Key, _ *rand.Rand) []Key {
		return numbered(func(i uint32) Key {
			f := base.Fields()
			binary.BigEndian.PutUint16(f.Sport[:], uint16(i>>6))
			binary.BigEndian.PutUint16(f.Dport[:], uint16(i&63))
			return f.Key()
		})
	}},
	{"source + destination constant", func(base Key, _ *rand.Rand) []Key {
		return numbered(func(i uint32) Key {
			k := base
			k[0], k[2] = uint64(i), uint64(-i)
			return k
		})
	}},
	{"low half × high half constant", func(base Key, _ *rand.Rand) []Key {
		return numbered(func(i uint32) Key {
			k := base
			k[0] = uint64(i+1) | uint64(math.MaxUint32/(i+1))<<32
			return k
		})
	}},
	{"one left set under another table's seeds", func(base Key, r *rand.Rand) []Key {
		return sharing(base, r.Uint64(), func(h uint64) bool { return hashLeft(h, floodMask) == 0 })
	}},
	{"neighbouring sets in both halves under another table's seeds", func(base Key, r *rand.Rand) []Key {
		return sharing(base, r.Uint64(), func(h uint64) bool { return h&0x1f == 0 && h>>32&0x1f == 0 })
	}},
}

func numbered(key func(i uint32) Key) []Key {
	keys := make([]Key, floodKeys)
	for i := range keys {
		keys[i] = key(uint32(i))
	}
	return keys
}

// combine has every combination of twelve differences.
func combine(base Key, difference func(i int) Key, add func(a, b uint64) uint64) []Key {
	var differences [12]Key
	for i := range differences {
		differences[i] = difference(i)
	}
	return numbered(func(n uint32) Key {
		k := base
		for i, d := range differences {
			for w := range k {
				if n>>i&1 != 0 {
					k[w] = add(k[w], d[w])
				}
			}
		}
		return k
	})
}

// sharing finds, by trying, keys whose hashes are alike under the seeds of one table.
func sharing(base Key, seed uint64, alike func(h uint64) bool) (keys []Key) {
	s := SeedsFrom(seed)
	k := base
	for i := uint64(0); len(keys) < floodKeys; i++ {
		k[0], k[2] = i&0xffff, i>>16
		if alike(s.Hash(&k)) {
			keys = append(keys, k)
		}
	}
	return keys
}

// binomialTail is the chance of at least m of n, each with chance p: the sum's first term, and what the rest can be
// beyond it, as m lies over the mean.
func binomialTail(n, m int, p float64) float64 {
	gamma := func(x int) float64 { g, _ := math.Lgamma(float64(x) + 1); return g }
	first := math.Exp(gamma(n) - gamma(m) - gamma(n-m) + float64(m)*math.Log(p) + float64(n-m)*math.Log1p(-p))
	step := float64(n-m) / float64(m+1) * p / (1 - p) // each term over the one before it, at most
	return first / (1 - step)
}

// binomialBound is the least number that is reached in any of so many tries with a chance below alarm.
func binomialBound(n, tries int, p, alarm float64) int {
	m := int(float64(n)*p) + 1
	for binomialTail(n, m, p)*float64(tries) >= alarm {
		m++
	}
	return m
}

func TestBinomialBound(t *testing.T) {
	// At least 2 of 2 and at least 1 of 1, worked out by hand: 1/16 and 1/4.
	if got := binomialTail(2, 2, .25); math.Abs(got-1./16) > 1e-12 {
		t.Errorf("2 of 2: %v", got)
	}
	if got := binomialTail(1, 1, .25); math.Abs(got-1./4) > 1e-12 {
		t.Errorf("1 of 1: %v", got)
	}
	// Poisson of mean 4: at least 20 has a chance of 1.0e-8 by its tables.
	if got := binomialTail(floodKeys, 20, 1./floodSets); got < 0.9e-8 || got > 1.2e-8 {
		t.Errorf("20 and more of mean 4: %v", got)
	}
	if got := binomialBound(floodKeys, 1, 1./floodSets, 1e-7); got <= 15 || got > 20 {
		t.Errorf("bound at 1e-7: %d", got)
	}
}

// SPEC 3.5, and why the seeds are random: nobody overfills a set by choice of keys. Half of the alarm is for keys in
// one set, half for keys that share both.
func TestHashFlooding(t *testing.T) {
	seed := testutils.Seed(t)
	r := rand.New(rand.NewPCG(seed, 0))
	f := KeyFields{Src: [16]byte{10, 0, 0, 1}, Dst: [16]byte{192, 0, 2, 1}, Sport: [2]byte{0x12, 0x34}, Dport: [2]byte{1, 0xbb}, Proto: 6}
	bases := []Key{{}, f.Key(), {r.Uint64(), r.Uint64(), r.Uint64(), r.Uint64(), r.Uint64()}}

	trials := len(strategies) * len(bases) * floodSeeds
	one := binomialBound(floodKeys, trials*2*floodSets, 1./floodSets, floodAlarm/2)
	both := 1 + binomialBound(floodKeys-1, trials*floodKeys, 1./(floodSets*floodSets), floodAlarm/2)
	t.Logf("%d keys, %d sets in each half: fewer than %d in a set and %d in a pair of sets, but once in %.0e runs", floodKeys, floodSets, one, both, 1/floodAlarm)
	for _, strategy := range strategies {
		t.Run(strategy.name, func(t *testing.T) {
			worst, worstPair := 0, 0
			for _, base := range bases {
				keys := strategy.keys(base, r)
				if n := different(keys); n != floodKeys {
					t.Fatalf("%d different keys, not %d", n, floodKeys)
				}
				for range floodSeeds {
					set, pair := fullest(keys, SeedsFrom(r.Uint64()))
					worst, worstPair = max(worst, set), max(worstPair, pair)
				}
			}
			t.Logf("at most %d keys in a set, %d in a pair", worst, worstPair)
			if worst >= one {
				t.Errorf("%d keys in one set: keys at random stay below %d", worst, one)
			}
			if worstPair >= both {
				t.Errorf("%d keys in one pair of sets: keys at random stay below %d", worstPair, both)
			}
		})
	}
}

func different(keys []Key) int {
	seen := make(map[Key]bool, len(keys))
	for _, k := range keys {
		seen[k] = true
	}
	return len(seen)
}

// fullest returns how many of the keys the fullest set would have to take, and the fullest pair of sets.
func fullest(keys []Key, s Seeds) (set, pair int) {
	sets := make([]int, 2*floodSets)
	pairs := make(map[uint64]int, len(keys))
	for i := range keys {
		h := s.Hash(&keys[i])
		left, right := hashLeft(h, floodMask), hashRight(h, floodMask)
		for _, at := range []uint32{left, right} {
			sets[at]++
			set = max(set, sets[at])
		}
		both := uint64(left)<<32 | uint64(right)
		pairs[both]++
		pair = max(pair, pairs[both])
	}
	return set, pair
}

// The test above can fail: a table whose seeds are known is flooded, by the very keys that are harmless to others.
func TestHashFloodingWithKnownSeeds(t *testing.T) {
	const known = 1
	keys := sharing(Key{}, known, func(h uint64) bool { return hashLeft(h, floodMask) == 0 })
	if set, _ := fullest(keys, SeedsFrom(known)); set != floodKeys {
		t.Errorf("%d of %d keys that share a set do so", set, floodKeys)
	}
}
