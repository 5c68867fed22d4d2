package marker

// trtcm: the two rate three color marker of RFC 2698 (section 3).
//
//	refill   Tc earns CIR up to CBS, Tp earns PIR up to PBS, each on its own
//	color    arrives red or Tp < B: red. Else arrives yellow or Tc < B: yellow. Else green.
//	spend    green: Tp -= B and Tc -= B. Yellow: Tp -= B, Tc untouched. Red spends nothing.

func trtcmRefill(p *Profile, b *Bucket, elapsed uint64) {
	b.Tc = earn(b.Tc, p.CBS, p.CIR, elapsed, p.CFill)
	b.Tx = earn(b.Tx, p.XBS, p.XIR, elapsed, p.XFill)
}

func trtcmColor(b *Bucket, cost uint64, in Color) Color {
	if in == Red || b.Tx < cost {
		return Red
	}
	if in == Yellow || b.Tc < cost {
		return Yellow
	}
	return Green
}

func trtcmSpend(b *Bucket, cost uint64, color Color) {
	if color == Red {
		return
	}
	b.Tx -= cost
	if color == Green {
		b.Tc -= cost
	}
}
