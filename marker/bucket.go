package marker

// Bucket is a meter's state. Tokens are nanobytes (10^-9 byte), so that elapsed ns × bytes per
// second is a whole number of them: one multiplication, no division, nothing rounded.
type Bucket struct {
	Last uint64 // ns: when the tokens were counted; never moves back
	Tc   uint64 // nanobytes
	Tx   uint64 // nanobytes: Te (srtcm, rfc4115) or Tp (trtcm)
}

// earnC returns what C holds after elapsed ns. In CFill it surely fills, so no sum overflows.
func earnC(p *Profile, tc, elapsed uint64) uint64 {
	if elapsed >= p.CFill {
		return p.CBS
	}
	return min(tc+elapsed*p.CIR, p.CBS)
}

// earnX is earnC for the second bucket.
func earnX(p *Profile, tx, elapsed uint64) uint64 {
	if elapsed >= p.XFill {
		return p.XBS
	}
	return min(tx+elapsed*p.XIR, p.XBS)
}
