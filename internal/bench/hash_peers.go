package main

import (
	"math/bits"

	"github.com/tricolor-policer/tricolor/marker"
)

// The hashes that ours is measured against. Each takes a seed and gives 64 bits, as a table's two sets take.

// jhash is Jenkins's lookup3 over the key's ten 32-bit words, with both words of its result
// (http://burtleburtle.net/bob/c/lookup3.c, public domain; Linux's jhash2 is the same with one).
func jhash(k *marker.Key, seed uint64) uint64 {
	lo := func(i int) uint32 { return uint32(k[i]) }
	hi := func(i int) uint32 { return uint32(k[i] >> 32) }
	a := uint32(0xdeadbeef) + 40 + uint32(seed)
	b, c := a, a+uint32(seed>>32)
	a, b, c = jenkinsMix(a+lo(0), b+hi(0), c+lo(1))
	a, b, c = jenkinsMix(a+hi(1), b+lo(2), c+hi(2))
	a, b, c = jenkinsMix(a+lo(3), b+hi(3), c+lo(4))
	a += hi(4)
	c = c ^ b - bits.RotateLeft32(b, 14)
	a = a ^ c - bits.RotateLeft32(c, 11)
	b = b ^ a - bits.RotateLeft32(a, 25)
	c = c ^ b - bits.RotateLeft32(b, 16)
	a = a ^ c - bits.RotateLeft32(c, 4)
	b = b ^ a - bits.RotateLeft32(a, 14)
	c = c ^ b - bits.RotateLeft32(b, 24)
	return uint64(b)<<32 | uint64(c)
}

func jenkinsMix(a, b, c uint32) (uint32, uint32, uint32) {
	a = a - c ^ bits.RotateLeft32(c, 4)
	c += b
	b = b - a ^ bits.RotateLeft32(a, 6)
	a += c
	c = c - b ^ bits.RotateLeft32(b, 8)
	b += a
	a = a - c ^ bits.RotateLeft32(c, 16)
	c += b
	b = b - a ^ bits.RotateLeft32(a, 19)
	a += c
	c = c - b ^ bits.RotateLeft32(b, 4)
	b += a
	return a, b, c
}

// The primes of XXH64.
const (
	xxPrime1 = 11400714785074694791
	xxPrime2 = 14029467366897019727
	xxPrime3 = 1609587929392839161
	xxPrime4 = 9650029242287828579
	xxPrime5 = 2870177450012600261
)

// xxhash takes the key's five words as XXH64 takes those behind its stripes
// (https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md).
func xxhash(k *marker.Key, seed uint64) uint64 {
	h := seed + xxPrime5 + 40
	for _, word := range k {
		h ^= xxRound(word)
		h = bits.RotateLeft64(h, 27)*xxPrime1 + xxPrime4
	}
	h = (h ^ h>>33) * xxPrime2
	h = (h ^ h>>29) * xxPrime3
	return h ^ h>>32
}

func xxRound(word uint64) uint64 { return bits.RotateLeft64(word*xxPrime2, 31) * xxPrime1 }

// multiplyMix is the plainest: xor, multiply, shift.
func multiplyMix(k *marker.Key, seed uint64) uint64 {
	for _, word := range k {
		seed = (seed ^ word) * xxPrime1
		seed ^= seed >> 32
	}
	return seed
}

// colliding changes a key so that a hash of no secret but its first state stays the same, whatever the seed: a
// difference of the top bit comes out of a multiplication by an odd number as it was, and the next word takes it
// away.
func colliding(hash string, k marker.Key) marker.Key {
	const top = 1 << 63
	switch hash {
	case "xxh64, word by word":
		k[0] = xxUnround(xxRound(k[0]) ^ top>>27)
		k[1] = xxUnround(xxRound(k[1]) ^ top)
	default:
		k[0] ^= top
		k[1] ^= top | top>>32
	}
	return k
}

func xxUnround(r uint64) uint64 {
	return bits.RotateLeft64(r*inverse(xxPrime1), -31) * inverse(xxPrime2)
}

// inverse of an odd number modulo 2^64: each step of Newton's doubles the bits that are right.
func inverse(n uint64) uint64 {
	x := n
	for range 5 {
		x *= 2 - n*x
	}
	return x
}
