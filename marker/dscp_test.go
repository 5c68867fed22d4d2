package marker

import (
	"strconv"
	"testing"
)

// The names of RFC 2474, 2597, 3246, 5865 and 8622.
var dscpNames = map[uint8]string{
	0: "cs0", 8: "cs1", 16: "cs2", 24: "cs3", 32: "cs4", 40: "cs5", 48: "cs6", 56: "cs7",
	10: "af11", 12: "af12", 14: "af13", 18: "af21", 20: "af22", 22: "af23",
	26: "af31", 28: "af32", 30: "af33", 34: "af41", 36: "af42", 38: "af43",
	46: "ef", 44: "va", 1: "le",
}

func TestDSCPNames(t *testing.T) {
	for d := range uint8(64) {
		name, ok := dscpNames[d]
		if !ok {
			name = strconv.Itoa(int(d))
		}
		if got := DSCPName(d); got != name {
			t.Errorf("%d: %s, not %s", d, got, name)
		}
		for _, s := range []string{name, strconv.Itoa(int(d))} {
			if got, err := ParseDSCP(s); got != d || err != nil {
				t.Errorf("%s: %d, %v", s, got, err)
			}
		}
	}
	for _, s := range []string{"be", "default"} {
		if got, err := ParseDSCP(s); got != 0 || err != nil {
			t.Errorf("%s: %d, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "64", "-1", "046", "0x2e", "af10", "af14", "af44", "af51", "cs8", "ef1", "4 6"} {
		if got, err := ParseDSCP(s); err == nil {
			t.Errorf("%q: read as %d", s, got)
		}
	}
}

// SPEC 4.4: AFx1 green, AFx2 yellow, AFx3 red, all else green.
func TestDefaultArrival(t *testing.T) {
	want := map[uint8]Color{12: Yellow, 20: Yellow, 28: Yellow, 36: Yellow, 14: Red, 22: Red, 30: Red, 38: Red}
	c := Class{Arrival: DefaultArrival()}
	for d := range uint8(64) {
		if got := arrivalColor(&c, d); got != want[d] {
			t.Errorf("%s arrives %v, not %v", DSCPName(d), got, want[d])
		}
	}
}

// Any table of arrival colours, to the last code point.
func TestArrivalTable(t *testing.T) {
	for d := range uint8(64) {
		for _, color := range []Color{Green, Yellow, Red} {
			c := Class{Arrival: [2]uint64{^uint64(0), 0}}
			if c.Arrival[0] &^= 1 << d; color == Yellow {
				c.Arrival[0] = 1 << d
			} else if color == Red {
				c.Arrival[1] = 1 << d
			}
			if got := arrivalColor(&c, d); got != color {
				t.Errorf("DSCP %d: %v, not %v", d, got, color)
			}
		}
	}
}
