package testutils

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Seed returns the seed for a random test and logs it, so that a failure can be repeated:
// TRICOLOR_SEED, a whole number, sets it; else it is drawn at random.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := rand.Uint64()
	if text, set := os.LookupEnv("TRICOLOR_SEED"); set {
		var err error
		if seed, err = strconv.ParseUint(text, 0, 64); err != nil {
			t.Fatalf("TRICOLOR_SEED=%s is no seed: give a whole number from 0 to 2^64-1", text)
		}
	}
	t.Logf("TRICOLOR_SEED=%d repeats this run", seed)
	return seed
}
