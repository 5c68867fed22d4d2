package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
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

// oneLined escapes the line ends of words (of a command line) where a message repeats them, or a part of a
// path: they begin no line of the message, which it would be taken to say itself.
func oneLined(message string, words []string) string {
	for _, word := range words {
		for _, part := range strings.FieldsFunc(word, func(r rune) bool { return r == '/' || r == '=' }) {
			if strings.Contains(part, "\n") {
				message = strings.ReplaceAll(message, part, strings.ReplaceAll(part, "\n", `\n`))
			}
		}
	}
	return message
}

// printableJSON returns the same JSON with everything that a terminal would obey (or cannot show) escaped.
// JSON itself demands that below U+0020 only.
func printableJSON(text []byte) []byte {
	if bytes.IndexFunc(text, unprintable) < 0 {
		return text
	}
	var b bytes.Buffer
	for _, r := range string(text) { // it is valid UTF-8, and such a rune stands only within a string
		switch {
		case !unprintable(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.Bytes()
}

func unprintable(r rune) bool { return r != '\n' && !strconv.IsPrint(r) }
