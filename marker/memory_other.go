//go:build !linux

package marker

// newSets makes the sets of a table.
func newSets(n uint32) []Set { return make([]Set, n) }
