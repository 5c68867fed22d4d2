package marker

// srtcm: the single rate three color marker of RFC 2697 (section 3).
//
//	refill   C first; only what C cannot hold goes to E; what E cannot hold is lost
//	judge    arrives green and Tc >= B: green, Tc -= B. Else arrives no worse than yellow and
//	         Te >= B: yellow, Te -= B. Else red.

func srtcmRefill(p *Profile, b Bucket, elapsed uint64) Bucket {
	tc := p.CBS + p.XBS // after ceil((CBS + EBS) / CIR) both are full
	if elapsed < p.CFill {
		tc = b.Tc + elapsed*p.CIR
	}
	b.Tc = min(tc, p.CBS)
	b.Tx = min(b.Tx+tc-b.Tc, p.XBS)
	return b
}

func srtcmJudge(b Bucket, cost uint64, in Color) (Bucket, Color) {
	if in == Green && b.Tc >= cost {
		b.Tc -= cost
		return b, Green
	}
	if in <= Yellow && b.Tx >= cost {
		b.Tx -= cost
		return b, Yellow
	}
	return b, Red
}
