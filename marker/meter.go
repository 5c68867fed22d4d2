package marker

// Refill brings the bucket to now (ns). A time before its last earns nothing and does not move it;
// Refill then returns true.
func (p *Profile) Refill(b *Bucket, now uint64) (clockBack bool) {
	if now < b.Last {
		return true
	}
	elapsed := now - b.Last
	b.Last = now
	switch p.Meter {
	case Token:
		tokenRefill(p, b, elapsed)
	case SRTCM:
		srtcmRefill(p, b, elapsed)
	case TRTCM:
		trtcmRefill(p, b, elapsed)
	case RFC4115:
		rfc4115Refill(p, b, elapsed)
	}
	return false
}

// Color judges a packet of cost nanobytes; it spends nothing. A blind meter takes it as green.
func (p *Profile) Color(b *Bucket, cost uint64, in Color) Color {
	if !p.Aware {
		in = Green
	}
	switch p.Meter {
	case Token:
		return tokenColor(b, cost, in)
	case TRTCM:
		return trtcmColor(b, cost, in)
	default:
		return srtcmColor(b, cost, in) // and rfc4115
	}
}

// Spend takes what a packet of cost nanobytes and this colour spends.
func (p *Profile) Spend(b *Bucket, cost uint64, color Color) {
	switch p.Meter {
	case Token:
		tokenSpend(b, cost, color)
	case TRTCM:
		trtcmSpend(b, cost, color)
	default:
		srtcmSpend(b, cost, color) // and rfc4115
	}
}

// Init fills a bucket that was never used, as of now (ns).
func (p *Profile) Init(b *Bucket, now uint64) {
	b.Last = now
	b.Tc = p.CBS
	b.Tx = p.XBS
}

// Full reports whether the bucket holds every one of its bursts in full.
func (p *Profile) Full(b *Bucket) bool {
	return b.Tc == p.CBS && b.Tx == p.XBS
}
