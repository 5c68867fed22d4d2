package policy

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Place is where something is written. The zero Place is nowhere: on a command line.
type Place struct {
	File         string
	Line, Column int // from 1; a column is a character
}

// String returns file:line:column, or nothing for the zero Place.
func (p Place) String() string {
	switch {
	case p.File == "":
		return ""
	case p.Line == 0:
		return p.File
	default:
		return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
	}
}

// before orders places: the policy file as given first, then others by name.
func (p Place) before(q Place, first string) bool {
	if p.File != q.File {
		return p.File == first || q.File != first && p.File < q.File
	}
	return p.Line < q.Line || p.Line == q.Line && p.Column < q.Column
}

// Places are where the keys of one part of a file are written; "" is where the part itself is.
type Places map[string]Place

// of returns the place of the first field that is written, else that of the part.
func (p Places) of(fields []string) Place {
	for _, field := range fields {
		if place, ok := p[field]; ok {
			return place
		}
	}
	return p[""]
}

// Columns of a source line that an excerpt shows.
const excerptWidth = 100

// excerpt returns a source line, and a caret under the column. Of a long line it shows the part around
// the column; what a terminal could not show, or would obey, is a dot.
func excerpt(line string, column int) string {
	line = strings.TrimRight(line, "\r\n")
	// A line of a hostile file may be a megabyte: count on, but keep only what is shown.
	skip, at := 0, column-1
	if at > excerptWidth*3/4 {
		skip = at - excerptWidth/2
	}
	var b strings.Builder
	b.WriteString("    ")
	if skip > 0 {
		b.WriteString("…")
		at += len([]rune("…"))
	}
	n := 0
	for _, r := range line {
		if n++; n <= skip {
			continue
		}
		if n > skip+excerptWidth {
			b.WriteString("…")
			break
		}
		switch {
		case r == '\t':
			r = ' '
		case r == utf8.RuneError || !unicode.IsPrint(r):
			r = '.'
		}
		b.WriteRune(r)
	}
	shown := strings.TrimRight(b.String(), " ")
	return shown + "\n    " + strings.Repeat(" ", max(at-skip, 0)) + "^"
}
