/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * A key's hash. Twin: marker/hash.go.
 *
 * Multilinear over the key's 32-bit halves with random 64-bit seeds, so that nobody who does not
 * know the seeds can choose keys that collide (Lemire and Kaser, "Strongly universal string hashing
 * is fast", 2014); then a xor-multiply finaliser, since without it sequential addresses fall on a
 * lattice.
 */
#ifndef TRICOLOR_HASH_H
#define TRICOLOR_HASH_H

#include "abi.h"
#include "maps.h"

#define HASH_MULTIPLIER 0x9e3779b97f4a7c15ULL /* 2^64 / golden ratio */

static always_inline u64 hash_half(u64 word, u64 s0, u64 s1)
{
	return (s0 + (u32)word) * (s1 + (word >> 32));
}

static always_inline u64 hash_key(const struct key *k, const u64 *seeds)
{
	u64 h = seeds[0];

	h += hash_half(k->word[0], seeds[1], seeds[2]);
	h += hash_half(k->word[1], seeds[3], seeds[4]);
	h += hash_half(k->word[2], seeds[5], seeds[6]);
	h += hash_half(k->word[3], seeds[7], seeds[8]);
	h += hash_half(k->word[4], seeds[9], seeds[10]);
	h ^= h >> 32;
	h *= HASH_MULTIPLIER;
	return h ^ h >> 32;
}

/* A hash's parts: a candidate set in each half of the table, and a tag, never 0. */
static always_inline u32 hash_left(u64 h, u32 mask)
{
	return (u32)h & mask >> 1;
}

static always_inline u32 hash_right(u64 h, u32 mask)
{
	return ((u32)(h >> 32) & mask >> 1) + (mask >> 1) + 1;
}

static always_inline u8 hash_tag(u64 h)
{
	u8 tag = h >> 56;

	return tag ? tag : 1;
}

#endif
