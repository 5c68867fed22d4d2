package marker

// srtcm: the single rate three color marker of RFC 2697 (section 3).
//
//	refill   C first; only what C cannot hold goes to E; what E cannot hold is lost
//	color    arrives green and Tc >= B: green. Else arrives no worse than yellow and Te >= B:
//	         yellow. Else red.
//	spend    green: Tc -= B. Yellow: Te -= B. Red spends nothing.

func srtcmRefill(p *Profile, b *Bucket, elapsed uint64) {
	if elapsed >= p.CFill { // ceil((CBS + EBS) / CIR): both are full
		b.Tc = p.CBS
		b.Tx = p.XBS
		return
	}
	earned := elapsed * p.CIR
	room := p.CBS - b.Tc
	if earned <= room {
		b.Tc += earned
		return
	}
	b.Tc = p.CBS
	b.Tx = addUpTo(b.Tx, earned-room, p.XBS)
}

func srtcmColor(b *Bucket, cost uint64, in Color) Color {
	if in == Green && b.Tc >= cost {
		return Green
	}
	if in <= Yellow && b.Tx >= cost {
		return Yellow
	}
	return Red
}

func srtcmSpend(b *Bucket, cost uint64, color Color) {
	switch color {
	case Green:
		b.Tc -= cost
	case Yellow:
		b.Tx -= cost
	}
}
