//go:build !amd64 && !arm64

package marker

// Where there is no instruction to ask for memory ahead, nobody asks: it is but slower.

func prefetchTags(*Set, *uint32, int) {}

func prefetchSlots(*Set, *uint32, int) {}
