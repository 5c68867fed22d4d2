package marker

// rfc4115: the differentiated service two-rate three-color marker of RFC 4115, with the coupling of
// MEF 10.3.
//
//	refill   C earns CIR, E earns EIR, each on its own; coupled, E also gets what C cannot hold
//	color    as srtcm's
//	spend    as srtcm's

func rfc4115Refill(p *Profile, b *Bucket, elapsed uint64) {
	if p.Coupling {
		srtcmRefill(p, b, elapsed) // the spill, bounded by (CBS + EBS) / CIR
	} else {
		b.Tc = earn(b.Tc, p.CBS, p.CIR, elapsed, p.CFill)
	}
	b.Tx = earn(b.Tx, p.XBS, p.XIR, elapsed, p.XFill)
}
