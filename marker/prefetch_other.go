//go:build !amd64 && !arm64

package marker

// Where there is no instruction to ask for memory ahead, nobody asks: it is but slower.

func prefetchSet(*Set) {}

func prefetchSlot(*Slot) {}
