package policy

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tricolor-policer/tricolor/internal/units"
	"github.com/tricolor-policer/tricolor/marker"
)

// The words of a policy that are neither verbs, matches nor of package marker.

// parseMalformed reads what is done to malformed packets.
func parseMalformed(s string) (marker.Action, error) {
	if s != "pass" && s != "drop" {
		return marker.Action{}, fmt.Errorf("%q is no verb for malformed packets: say drop or pass", s)
	}
	return parseAction(s)
}

// parseAware reads whether a meter looks at the arrival colour.
func parseAware(s string) (bool, error) {
	if s != "blind" && s != "aware" {
		return false, fmt.Errorf("%q is no mode: say blind (each packet arrives green) or aware (by its DSCP)", s)
	}
	return s == "aware", nil
}

// parseOverhead reads what is added to each packet's cost: 24, +24, -4.
func parseOverhead(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != strings.TrimPrefix(s, "+") {
		return 0, fmt.Errorf("%q is no overhead: write a whole number without a unit, from -%d to +%d, such as +24 or -4",
			s, MaxOverhead, MaxOverhead)
	}
	return n, nil
}

// parseNumber reads a plain number from 0 to most.
func parseNumber(s, what string, most uint64) (uint64, error) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, fmt.Errorf("%q is no %s: write a whole number from 0 to %d", s, what, most)
	}
	if len(s) > 1 && s[0] == '0' {
		return units.ParseCount(s) // refuses it, with what it might have meant
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n > most {
		return 0, fmt.Errorf("%s is out of range: a %s is from 0 to %d", s, what, most)
	}
	return n, nil
}

// parseName reads the name of a class or a profile.
func parseName(s string) (string, error) {
	valid := s != "" && len(s) <= marker.MaxName
	for i, c := range s {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		valid = valid && (letter || i > 0 && (c == '-' || c == '_' || c == '.'))
	}
	if !valid {
		return s, fmt.Errorf("%.70q is no name: write up to %d of the characters a-z A-Z 0-9 - _ . and begin with a letter or figure", s, marker.MaxName)
	}
	return s, nil
}

const perHelp = "say flow, src, dst, src/24,56 or dst/24,56 (bits of an IPv4 and of an IPv6 address), vlan, dscp, class or interface"

// wholeAddr is what a bare src or dst counts of an address: a host can rotate through a /64 for free.
var wholeAddr = [2]int{32, 64}

// parsePer reads who shares a bucket. Its Meter has no profile yet.
func parsePer(s string) (Meter, error) {
	word, prefix, cut := strings.Cut(s, "/")
	for per := marker.PerFlow; per <= marker.PerInterface; per++ {
		if word != per.String() {
			continue
		}
		m := Meter{Per: per}
		if per != marker.PerSrc && per != marker.PerDst {
			if cut {
				return m, fmt.Errorf("%q: %s takes no prefix: %s", s, word, perHelp)
			}
			return m, nil
		}
		m.Prefix = wholeAddr
		if !cut {
			return m, nil
		}
		var err error
		m.Prefix, err = parsePrefix(s, word, prefix)
		return m, err
	}
	return Meter{}, fmt.Errorf("%q shares no bucket: %s", s, perHelp)
}

// parsePrefix reads 24,56.
func parsePrefix(s, word, text string) (prefix [2]int, err error) {
	four, six, ok := strings.Cut(text, ",")
	if !ok {
		return prefix, fmt.Errorf("%q needs two prefix lengths, of IPv4 and of IPv6: such as %s/24,56", s, word)
	}
	for family, digits := range []string{four, six} {
		n, err := strconv.Atoi(digits)
		if err != nil || strconv.Itoa(n) != digits || n < 0 || n > addrBits[family] {
			return prefix, fmt.Errorf("%q: %q is no prefix length of an IPv%d address: from 0 to %d, such as %s/24,56",
				s, digits, 4+2*family, addrBits[family], word)
		}
		prefix[family] = n
	}
	return prefix, nil
}

// unit is what rates and bursts count, for all of them to be in the same. The zero unit takes all.
type unit struct {
	known   bool
	packets bool
	because string // "count is l2"
	instead string // what else would be right, where packets are written for bytes
}

// misfit refuses a rate or a size of the other unit.
func (u unit) misfit(s, what string, packets bool, bytesHelp, packetsHelp string) error {
	if !u.known || packets == u.packets {
		return nil
	}
	help := packetsHelp
	if packets {
		help = bytesHelp + ", or " + u.instead
	}
	return fmt.Errorf("%q is a %s in %s, while %s: write it in %s", s, what, unitName(packets), u.because, help)
}

// rate reads a rate, per second.
func (u unit) rate(s string) (uint64, error) {
	rate, err := units.ParseRate(s)
	if err != nil {
		return 0, err
	}
	return rate.PerSecond, u.misfit(s, "rate", rate.Packets, "kbit, mbit, gbit or kB/s, MB/s", "pps, kpps or mpps")
}

// size reads a burst, which may be a time at a rate.
func (u unit) size(s string) (units.Size, error) {
	size, err := units.ParseSize(s)
	if err != nil || size.IsTime {
		return size, err
	}
	return size, u.misfit(s, "size", size.Packets, "B, kB, KiB, MiB or a time at the rate, such as 10ms", "pkt or a time at the rate, such as 10ms")
}

// unitName is what rates and bursts count.
func unitName(packets bool) string {
	if packets {
		return "packets"
	}
	return "bytes"
}
