#include "textflag.h"

// func prefetchTags(table *Set, slots *uint32, n int)
TEXT ·prefetchTags(SB), NOSPLIT, $0-24
	MOVD table+0(FP), R0
	MOVD slots+8(FP), R1
	MOVD n+16(FP), R2
	CBZ  R2, done
next:
	MOVWU.P 4(R1), R3
	ADD  R3<<7, R0, R4
	PRFM (R4), PLDL1KEEP
	SUB  $1, R2
	CBNZ R2, next
done:
	RET

// func prefetchSlots(table *Set, slots *uint32, n int)
TEXT ·prefetchSlots(SB), NOSPLIT, $0-24
	MOVD table+0(FP), R0
	MOVD slots+8(FP), R1
	MOVD n+16(FP), R2
	CBZ  R2, done
next:
	MOVWU.P 4(R1), R3
	ADD  R3<<7, R0, R4
	PRFM (R4), PLDL1KEEP
	PRFM 64(R4), PLDL1KEEP
	SUB  $1, R2
	CBNZ R2, next
done:
	RET
