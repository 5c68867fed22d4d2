package exporter

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// labelValue makes a name what a label may hold, which is UTF-8: each byte that is none is written \xff. The kernel
// takes any bytes for a device's name.
func labelValue(name string) string {
	if utf8.ValidString(name) {
		return name
	}
	var b strings.Builder
	for len(name) > 0 {
		r, size := utf8.DecodeRuneInString(name)
		if r == utf8.RuneError && size == 1 {
			b.WriteString(strings.Trim(strconv.Quote(name[:1]), `"`))
		} else {
			b.WriteString(name[:size])
		}
		name = name[size:]
	}
	return b.String()
}
