package policy

import "strings"

// suggest says which of the known words was probably meant: the nearest, else all of them.
func suggest(word string, known []string) string {
	best := nearest(word, known)
	switch {
	case best != "":
		return ": did you mean " + best + "?"
	case len(known) > 16:
		return ": say one of " + strings.Join(known[:16], ", ") + ", …"
	default:
		return ": say one of " + strings.Join(known, ", ")
	}
}

// nearest is the known word that was probably meant, or none.
func nearest(word string, known []string) (best string) {
	least := 3
	for _, k := range known[:min(len(known), 256)] {
		if d := distance(word, k); d < least && d < len(k) {
			best, least = k, d
		}
	}
	return best
}

// distance is how many letters must be added, dropped, changed or swapped with the next to make b of a.
// Long words are not compared.
func distance(a, b string) int {
	const long = 64
	if len(a) > long || len(b) > long {
		return long
	}
	var before, last, row [long + 1]int
	for j := range len(b) + 1 {
		row[j] = j
	}
	for i := range len(a) {
		before, last = last, row
		row[0] = i + 1
		for j := range len(b) {
			change := last[j]
			if a[i] != b[j] {
				change++
			}
			row[j+1] = min(change, row[j]+1, last[j+1]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}
