package marker

// Each meter is two small functions of values, which the compiler inlines here: the bucket stays in
// registers from the first read to the last write.

// Judge is what becomes of a packet of cost nanobytes at now (ns), by this bucket alone: Refill,
// Color and Spend in one. A time before the bucket's last earns nothing; clockBack is then true.
func (p *Profile) Judge(b *Bucket, now, cost uint64, in Color) (color Color, clockBack bool) {
	if now < b.Last {
		// Not even a refill of 0 ns: it would clamp what a change of policy left over the burst.
		color = p.Color(b, cost, in)
		p.Spend(b, cost, color)
		return color, true
	}
	s := *b
	elapsed := now - s.Last
	b.Last = now
	in = p.arrival(in)
	switch p.Meter {
	case Token:
		s, color = tokenJudge(tokenRefill(p, s, elapsed), cost, in)
	case SRTCM:
		s, color = srtcmJudge(srtcmRefill(p, s, elapsed), cost, in)
	case TRTCM:
		s, color = trtcmJudge(trtcmRefill(p, s, elapsed), cost, in)
	default:
		s, color = srtcmJudge(rfc4115Refill(p, s, elapsed), cost, in) // rfc4115
	}
	b.Tc, b.Tx = s.Tc, s.Tx
	return color, false
}

// arrival is the colour in which the meter takes a packet: a blind one takes it as green. Without a
// branch: the jump would cost as much as a judgement.
func (p *Profile) arrival(in Color) Color {
	var aware Color
	if p.Aware {
		aware = 1
	}
	return in & -aware
}

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
		*b = tokenRefill(p, *b, elapsed)
	case SRTCM:
		*b = srtcmRefill(p, *b, elapsed)
	case TRTCM:
		*b = trtcmRefill(p, *b, elapsed)
	case RFC4115:
		*b = rfc4115Refill(p, *b, elapsed)
	}
	return false
}

// Color judges a packet of cost nanobytes; it spends nothing. A blind meter takes it as green.
func (p *Profile) Color(b *Bucket, cost uint64, in Color) (color Color) {
	in = p.arrival(in)
	switch p.Meter {
	case Token:
		_, color = tokenJudge(*b, cost, in)
	case TRTCM:
		_, color = trtcmJudge(*b, cost, in)
	default:
		_, color = srtcmJudge(*b, cost, in) // and rfc4115
	}
	return color
}

// Spend takes what a packet of cost nanobytes and this colour spends: green Tc, yellow Te; trtcm's
// green and yellow both Tp.
func (p *Profile) Spend(b *Bucket, cost uint64, color Color) {
	if color == Green {
		b.Tc -= cost
	}
	if color == Yellow || color == Green && p.Meter == TRTCM {
		b.Tx -= cost
	}
}

// giveBack takes back what Spend, or Judge, took.
func (p *Profile) giveBack(b *Bucket, cost uint64, color Color) { p.Spend(b, -cost, color) }

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
