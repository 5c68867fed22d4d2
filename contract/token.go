package contract

import "github.com/tricolor-policer/tricolor/marker"

// token is the token bucket, and the very meter that the policer has:
//
//	refill   Tc = min(B, Tc + elapsed × r)
//	admit    Tc >= cost: Tc -= cost
//
// It starts full.
type token struct {
	*terms
	bucket marker.Bucket
	began  bool
}

func (b *token) admit(now, cost uint64) verdict {
	if !b.began {
		b.profile.Init(&b.bucket, now)
		b.began = true
	}
	color, _ := b.profile.Judge(&b.bucket, now, cost*marker.Nano, marker.Green)
	return b.admits(color == marker.Green, now)
}

// state is the time of the last count and the tokens.
func (b *token) state() uint64 { return 16 }

// tokens is what was left by the last arrival, in nano-units.
func (b *token) tokens() uint64 { return b.bucket.Tc }
