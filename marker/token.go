package marker

// token: a single-rate two-colour token bucket.
//
//	refill   Tc = min(CBS, Tc + elapsed × CIR)
//	color    arrives green and Tc >= B: green. Else red.
//	spend    green: Tc -= B. Red spends nothing.

func tokenRefill(p *Profile, b *Bucket, elapsed uint64) {
	b.Tc = earn(b.Tc, p.CBS, p.CIR, elapsed, p.CFill)
}

func tokenColor(b *Bucket, cost uint64, in Color) Color {
	if in == Green && b.Tc >= cost {
		return Green
	}
	return Red
}

func tokenSpend(b *Bucket, cost uint64, color Color) {
	if color == Green {
		b.Tc -= cost
	}
}
