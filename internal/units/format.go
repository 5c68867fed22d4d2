package units

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
)

// step is a unit and how much of the base one it is.
type step struct {
	amount uint64
	name   string
}

var (
	bitSteps    = []step{{tera, "Tbit/s"}, {giga, "Gbit/s"}, {mega, "Mbit/s"}, {kilo, "kbit/s"}}
	packetSteps = []step{{mega, "Mpps"}, {kilo, "kpps"}, {1, "pps"}}
	sizeSteps   = []step{{gibi, "GiB"}, {giga, "GB"}, {mebi, "MiB"}, {mega, "MB"}, {kibi, "KiB"}, {kilo, "kB"}, {1, "B"}}
	byteSteps   = []step{{tera, "TB"}, {giga, "GB"}, {mega, "MB"}, {kilo, "kB"}}
)

// FormatRate prints a rate exactly, in the largest unit that gives a whole
// number: "10 Mbit/s", "2048 kbit/s", "5 kpps"; else "1234567 B/s". ParseRate
// reads it back to the same number.
func FormatRate(perSecond uint64, packets bool) string {
	if packets {
		return exact(perSecond, packetSteps)
	}
	if perSecond == 0 {
		return "0 bit/s"
	}
	if perSecond <= math.MaxUint64/8 && perSecond*8%kilo == 0 {
		return exact(perSecond*8, bitSteps)
	}
	return strconv.FormatUint(perSecond, 10) + " B/s"
}

// FormatSize prints a size in bytes exactly, in the unit that gives the
// smallest whole number: "96 KiB", "2 MB", "1500 B". ParseSize reads it back
// to the same number.
func FormatSize(bytes uint64) string { return exact(bytes, sizeSteps) }

// exact prints value in the largest step that divides it.
func exact(value uint64, steps []step) string {
	last := steps[len(steps)-1]
	if value != 0 {
		for _, s := range steps {
			if value%s.amount == 0 {
				return strconv.FormatUint(value/s.amount, 10) + " " + s.name
			}
		}
	}
	return strconv.FormatUint(value/last.amount, 10) + " " + last.name
}

// FormatBytes prints a byte count for a table, rounded to three figures:
// "1.23 MB". Below 1000 it is exact.
func FormatBytes(bytes uint64) string { return rounded(bytes, byteSteps, "B") }

// FormatMeanRate prints a measured rate in bytes per second for a table,
// rounded to three figures: "9.87 Mbit/s".
func FormatMeanRate(bytesPerSecond uint64) string {
	if bytesPerSecond > math.MaxUint64/8 {
		return FormatBytes(bytesPerSecond) + "/s"
	}
	return rounded(bytesPerSecond*8, bitSteps, "bit/s")
}

// FormatBits prints a rate in bytes per second exactly, in the largest unit of bits that it reaches: "1.2 Mbit/s",
// "320 bit/s". ParseRate reads it back to the same number.
func FormatBits(perSecond uint64) string {
	high, value := bits.Mul64(perSecond, 8)
	if high > 0 {
		return FormatRate(perSecond, false)
	}
	for _, s := range bitSteps {
		if value >= s.amount {
			whole := strconv.FormatUint(value/s.amount, 10)
			if part := value % s.amount; part > 0 {
				digits := strconv.FormatUint(s.amount+part, 10)[1:]
				whole += "." + strings.TrimRight(digits, "0")
			}
			return whole + " " + s.name
		}
	}
	return strconv.FormatUint(value, 10) + " bit/s"
}

// FormatMeanOver prints the mean rate of bytes over a time in ns as FormatMeanRate does, from the nearest bit per
// second. A time of 0 gives "0 bit/s".
func FormatMeanOver(bytes, ns uint64) string {
	if ns == 0 {
		return "0 bit/s"
	}
	high, low := bits.Mul64(bytes, 8*giga)
	low, carry := bits.Add64(low, ns/2, 0)
	if high += carry; high < ns {
		rate, _ := bits.Div64(high, low, ns)
		return rounded(rate, bitSteps, "bit/s")
	}
	rate := uint64(math.MaxUint64) // more than there is
	if high, low = bits.Mul64(bytes, giga); high < ns {
		rate, _ = bits.Div64(high, low, ns)
	}
	return FormatMeanRate(rate)
}

// rounded prints value with three figures, rounded half up.
func rounded(value uint64, steps []step, base string) string {
	for _, s := range steps {
		if value < s.amount {
			continue
		}
		decimals, scale := 0, uint64(1)
		for whole := value / s.amount; whole*scale < 100; scale *= 10 {
			decimals++
		}
		high, low := bits.Mul64(value, scale)
		low, carry := bits.Add64(low, s.amount/2, 0)
		figures, _ := bits.Div64(high+carry, low, s.amount)
		if decimals == 0 {
			return FormatCount(figures) + " " + s.name
		}
		return fmt.Sprintf("%d.%0*d %s", figures/scale, decimals, figures%scale, s.name)
	}
	return strconv.FormatUint(value, 10) + " " + base
}

// FormatCount prints a count with a comma between each three digits.
func FormatCount(n uint64) string {
	digits := strconv.FormatUint(n, 10)
	out := make([]byte, 0, len(digits)+len(digits)/3)
	for i := range len(digits) {
		if i > 0 && (len(digits)-i)%3 == 0 {
			out = append(out, ',')
		}
		out = append(out, digits[i])
	}
	return string(out)
}
