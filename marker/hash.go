package marker

// HashSeeds is how many 64-bit seeds the hash of a key takes.
const HashSeeds = 11

// Seeds are the random numbers of a table's hash: nobody who does not know them can choose keys that
// collide. They live as long as the table.
type Seeds [HashSeeds]uint64

// SeedsFrom stretches one number to a table's seeds (splitmix64), so that a replay can be repeated.
func SeedsFrom(seed uint64) Seeds {
	var s Seeds
	for i := range s {
		seed += hashMultiplier
		z := seed
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		s[i] = z ^ z>>31
	}
	return s
}

const hashMultiplier = 0x9e3779b97f4a7c15 // 2^64 / golden ratio

func hashHalf(word, s0, s1 uint64) uint64 {
	return (s0 + uint64(uint32(word))) * (s1 + word>>32)
}

// Hash says where a key is looked for. It is multilinear over the key's 32-bit halves with random seeds
// (Lemire and Kaser, "Strongly universal string hashing is fast", 2014); then a xor-multiply finaliser,
// since without it sequential addresses fall on a lattice.
func (s *Seeds) Hash(k *Key) uint64 {
	h := s[0]
	h += hashHalf(k[0], s[1], s[2])
	h += hashHalf(k[1], s[3], s[4])
	h += hashHalf(k[2], s[5], s[6])
	h += hashHalf(k[3], s[7], s[8])
	h += hashHalf(k[4], s[9], s[10])
	h ^= h >> 32
	h *= hashMultiplier
	return h ^ h>>32
}

// A hash's parts: a candidate set in each half of the table, and a tag, never 0.

func hashLeft(h uint64, mask uint32) uint32 {
	return uint32(h) & (mask >> 1)
}

func hashRight(h uint64, mask uint32) uint32 {
	return uint32(h>>32)&(mask>>1) + mask>>1 + 1
}

func hashTag(h uint64) uint8 {
	tag := uint8(h >> 56)
	if tag == 0 {
		return 1
	}
	return tag
}
