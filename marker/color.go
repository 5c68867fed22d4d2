// Package marker is the user-space mirror of the kernel program: the meters as pure functions of
// profile, state, time, cost and arrival colour, and the data path around them. It gives the same
// answer as the kernel, bit for bit. It has no clock of its own, no floating point, and allocates
// nothing for a packet.
//
// Each file has a twin of the same name in bpf/include, with the same names in the same order.
package marker

import "fmt"

// Color is a packet's colour, on arrival or after metering.
type Color uint8

// The colours, from best to worst.
const (
	Green Color = iota
	Yellow
	Red
	Colors // how many there are
)

var colorNames = [Colors]string{"green", "yellow", "red"}

// String returns the colour's name.
func (c Color) String() string {
	if c < Colors {
		return colorNames[c]
	}
	return fmt.Sprintf("color(%d)", uint8(c))
}

// ParseColor reads a colour's name.
func ParseColor(s string) (Color, error) {
	for c, name := range colorNames {
		if s == name {
			return Color(c), nil
		}
	}
	return 0, fmt.Errorf("%q is no colour: say green, yellow or red", s)
}
