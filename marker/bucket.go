package marker

// Bucket is a meter's state. Tokens are nanobytes (10^-9 byte), so that elapsed ns × bytes per
// second is a whole number of them: one multiplication, no division, nothing rounded.
type Bucket struct {
	Last uint64 // ns: when the tokens were counted; never moves back
	Tc   uint64 // nanobytes
	Tx   uint64 // nanobytes: Te (srtcm, rfc4115) or Tp (trtcm)
}

// addUpTo adds to tokens, up to burst; tokens <= burst.
func addUpTo(tokens, amount, burst uint64) uint64 {
	if amount >= burst-tokens {
		return burst
	}
	return tokens + amount
}

// earn returns what a bucket of this rate holds after elapsed ns; fill is the time in which it
// surely fills, so that the product never overflows.
func earn(tokens, burst, rate, elapsed, fill uint64) uint64 {
	if elapsed >= fill {
		return burst
	}
	return addUpTo(tokens, elapsed*rate, burst)
}
