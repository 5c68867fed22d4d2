package marker

// token: a single-rate two-colour token bucket.
//
//	refill   Tc = min(CBS, Tc + elapsed × CIR)
//	judge    arrives green and Tc >= B: green, Tc -= B. Else red.

func tokenRefill(p *Profile, b Bucket, elapsed uint64) Bucket {
	b.Tc = earnC(p, b.Tc, elapsed)
	return b
}

func tokenJudge(b Bucket, cost uint64, in Color) (Bucket, Color) {
	if in == Green && b.Tc >= cost {
		b.Tc -= cost
		return b, Green
	}
	return b, Red
}
