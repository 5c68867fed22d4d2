package policy

import "strings"

// suggest says which of the known words was probably meant: the nearest, else all of them.
func suggest(word string, known []string) string {
	best, least := "", 3
	for _, k := range known[:min(len(known), 256)] {
		if d := distance(word, k); d < least && d < len(k) {
			best, least = k, d
		}
	}
	switch {
	case best != "":
		return ": did you mean " + best + "?"
	case len(known) > 16:
		return ": say one of " + strings.Join(known[:16], ", ") + ", …"
	default:
		return ": say one of " + strings.Join(known, ", ")
	}
}

// distance is how many letters must be added, dropped or changed to make b of a. Long words are not
// compared.
func distance(a, b string) int {
	const long = 64
	if len(a) > long || len(b) > long {
		return long
	}
	var row [long + 1]int
	for j := range b {
		row[j+1] = j + 1
	}
	for i := range a {
		diagonal := row[0]
		row[0] = i + 1
		for j := range b {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
