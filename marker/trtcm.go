package marker

// trtcm: the two rate three color marker of RFC 2698 (section 3).
//
//	refill   Tc earns CIR up to CBS, Tp earns PIR up to PBS, each on its own
//	judge    arrives red or Tp < B: red. Else Tp -= B. Arrives yellow or Tc < B: yellow.
//	         Else green, Tc -= B.

func trtcmRefill(p *Profile, b Bucket, elapsed uint64) Bucket {
	b.Tc = earnC(p, b.Tc, elapsed)
	b.Tx = earnX(p, b.Tx, elapsed)
	return b
}

func trtcmJudge(b Bucket, cost uint64, in Color) (Bucket, Color) {
	if in == Red || b.Tx < cost {
		return b, Red
	}
	b.Tx -= cost
	if in == Yellow || b.Tc < cost {
		return b, Yellow
	}
	b.Tc -= cost
	return b, Green
}
