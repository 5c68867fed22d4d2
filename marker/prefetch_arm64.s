#include "textflag.h"

// func prefetchSet(set *Set)
TEXT ·prefetchSet(SB), NOSPLIT, $0-8
	MOVD set+0(FP), R0
	PRFM (R0), PLDL1KEEP
	RET

// func prefetchSlot(slot *Slot)
TEXT ·prefetchSlot(SB), NOSPLIT, $0-8
	MOVD slot+0(FP), R0
	PRFM (R0), PLDL1KEEP
	PRFM 64(R0), PLDL1KEEP
	RET
