package marker

import (
	"fmt"
	"strconv"
)

// DSCPName returns a code point's name (RFC 2474, 2597, 3246, 5865, 8622), or its number.
func DSCPName(d uint8) string {
	switch {
	case d == 46:
		return "ef"
	case d == 44:
		return "va"
	case d == 1:
		return "le"
	case d&7 == 0:
		return "cs" + strconv.Itoa(int(d>>3))
	}
	if class, precedence := d>>3, d>>1&3; d&1 == 0 && class >= 1 && class <= 4 && precedence >= 1 {
		return fmt.Sprintf("af%d%d", class, precedence)
	}
	return strconv.Itoa(int(d))
}

// ParseDSCP reads a code point: its name (ef, va, le, cs0 … cs7, af11 … af43, be or default for 0), or
// a number from 0 to 63.
func ParseDSCP(s string) (uint8, error) {
	if s == "be" || s == "default" {
		return 0, nil
	}
	for d := range uint8(64) {
		if s == DSCPName(d) || s == strconv.Itoa(int(d)) {
			return d, nil
		}
	}
	return 0, fmt.Errorf("%q is no DSCP: say a name (ef, af11 … af43, cs0 … cs7, va, le, be) or a number from 0 to 63", s)
}
