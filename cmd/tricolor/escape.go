package main

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// printable returns s with everything that a terminal would obey (or cannot show) escaped as in a Go
// string: a file or device name must not move the cursor.
func printable(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		if strconv.IsPrint(r) && (r != utf8.RuneError || size > 1) {
			b.WriteString(s[:size])
		} else {
			b.WriteString(strings.Trim(strconv.Quote(s[:size]), `"`))
		}
		s = s[size:]
	}
	return b.String()
}
