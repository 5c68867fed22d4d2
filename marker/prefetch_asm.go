//go:build amd64 || arm64

package marker

// prefetchSet asks for the line of a set that has its tags. Nothing waits for it.
//
//go:noescape
func prefetchSet(set *Set)

// prefetchSlot asks for both lines of a slot. Nothing waits for them.
//
//go:noescape
func prefetchSlot(slot *Slot)
