package marker

// rfc4115: the differentiated service two-rate three-color marker of RFC 4115, with the coupling of
// MEF 10.3.
//
//	refill   C earns CIR, E earns EIR, each on its own; coupled, E also gets what C cannot hold
//	judge    as srtcm's

func rfc4115Refill(p *Profile, b Bucket, elapsed uint64) Bucket {
	tc := p.CBS + p.XBS // after ceil(CBS / CIR) C is full; coupled, after ceil((CBS + EBS) / CIR) both
	if elapsed < p.CFill {
		tc = b.Tc + elapsed*p.CIR
	}
	b.Tc = min(tc, p.CBS)
	b.Tx = earnX(p, b.Tx, elapsed)
	if p.Coupling {
		b.Tx = min(b.Tx+tc-b.Tc, p.XBS)
	}
	return b
}
