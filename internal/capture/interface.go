package capture

import (
	"math"
	"math/bits"
)

// The options of an Interface Description Block that matter here.
const (
	optionEnd        = 0
	optionResolution = 9
	optionFCS        = 13
	optionOffset     = 14
)

// ngInterface is what packets need of an Interface Description Block.
type ngInterface struct {
	link       LinkType
	snap       uint32 // bytes; 0: none given
	resolution uint8  // of a time stamp: 10^-n s, or 2^-n s where the top bit is set
	offset     int64  // seconds to add to each time stamp
	fcs        int    // bytes of check sequence behind each frame
}

// describe reads an Interface Description Block.
func (f *pcapng) describe(length uint32) error {
	const size = 8
	in := f.in
	b, err := f.body("the interface block", length, size)
	if err != nil {
		return err
	}
	if len(f.interfaces) == maxInterfaces {
		return in.damaged("a section describes over %d interfaces", maxInterfaces)
	}
	i := ngInterface{
		link:       LinkType(half(b, f.big)).normal(),
		snap:       word(b[4:], f.big),
		resolution: 6,
	}
	for options := b[size:]; len(options) >= 4; {
		code, n := half(options, f.big), int(half(options[2:], f.big))
		options = options[4:]
		if code == optionEnd {
			break
		}
		if n > len(options) {
			return in.damaged("interface %d has an option of %d bytes in a block with %d left", len(f.interfaces), n, len(options))
		}
		if err := i.option(f, code, options[:n]); err != nil {
			return err
		}
		options = options[min(len(options), (n+3)&^3):]
	}
	f.interfaces = append(f.interfaces, i)
	return nil
}

func (i *ngInterface) option(f *pcapng, code uint16, value []byte) error {
	size := map[uint16]int{optionResolution: 1, optionFCS: 1, optionOffset: 8}[code]
	if size == 0 {
		return nil
	}
	if len(value) != size {
		return f.in.damaged("interface %d has an option %d of %d bytes: it has %d", len(f.interfaces), code, len(value), size)
	}
	switch code {
	case optionResolution:
		i.resolution = value[0]
	case optionFCS:
		i.fcs = checkSequence(value[0])
	case optionOffset:
		high, low := word(value, f.big), word(value[4:], f.big)
		if !f.big {
			high, low = low, high
		}
		i.offset = int64(uint64(high)<<32 | uint64(low))
	}
	return nil
}

// checkSequence is the bytes of if_fcslen, which the draft gives in bits and
// writers in bytes; a length that is neither is not believed.
func checkSequence(length uint8) int {
	switch length {
	case 2, 16:
		return 2
	case 4, 32:
		return 4
	}
	return 0
}

// nanoseconds converts a time stamp to nanoseconds since 1970, rounded down
// and clamped to what 64 bits hold.
func (i *ngInterface) nanoseconds(stamp uint64) uint64 {
	high, low := scaleStamp(stamp, i.resolution)
	return addSeconds(high, low, i.offset)
}

// scaleStamp is a time stamp in nanoseconds, of 128 bits.
func scaleStamp(stamp uint64, resolution uint8) (high, low uint64) {
	exponent := int(resolution & 0x7f)
	switch binary := resolution&0x80 != 0; {
	case binary && exponent >= 64:
		high, _ = bits.Mul64(stamp, 1e9)
		return 0, high >> (exponent - 64)
	case binary:
		high, low = bits.Mul64(stamp, 1e9)
		return high >> exponent, high<<(64-exponent) | low>>exponent
	case exponent > 9+19:
		return 0, 0 // a whole u64 of them is below one nanosecond
	case exponent >= 9:
		return 0, stamp / powerOfTen(exponent-9)
	default:
		return bits.Mul64(stamp, powerOfTen(9-exponent))
	}
}

func powerOfTen(n int) uint64 {
	power := uint64(1)
	for range n {
		power *= 10
	}
	return power
}

// addSeconds adds to nanoseconds of 128 bits, and clamps to 64.
func addSeconds(high, low uint64, seconds int64) uint64 {
	var over uint64
	magnitude := uint64(seconds)
	if seconds < 0 {
		magnitude = -magnitude
	}
	more, shift := bits.Mul64(magnitude, 1e9)
	if seconds < 0 {
		low, over = bits.Sub64(low, shift, 0)
		if high, over = bits.Sub64(high, more, over); over != 0 {
			return 0
		}
	} else {
		low, over = bits.Add64(low, shift, 0)
		high, _ = bits.Add64(high, more, over)
	}
	if high != 0 {
		return math.MaxUint64
	}
	return low
}
