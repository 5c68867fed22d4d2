#include "textflag.h"

// func prefetchSet(set *Set)
TEXT ·prefetchSet(SB), NOSPLIT, $0-8
	MOVQ set+0(FP), AX
	PREFETCHT0 (AX)
	RET

// func prefetchSlot(slot *Slot)
TEXT ·prefetchSlot(SB), NOSPLIT, $0-8
	MOVQ slot+0(FP), AX
	PREFETCHT0 (AX)
	PREFETCHT0 64(AX)
	RET
