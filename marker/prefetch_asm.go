//go:build amd64 || arm64

package marker

// prefetchTags asks for the first line of n slots of a table, each set × SetSlots + slot. Nothing waits for it.
//
//go:noescape
func prefetchTags(table *Set, slots *uint32, n int)

// prefetchSlots asks for both lines of them.
//
//go:noescape
func prefetchSlots(table *Set, slots *uint32, n int)
