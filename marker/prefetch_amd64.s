#include "textflag.h"

// func prefetchTags(table *Set, slots *uint32, n int)
TEXT ·prefetchTags(SB), NOSPLIT, $0-24
	MOVQ table+0(FP), AX
	MOVQ slots+8(FP), BX
	MOVQ n+16(FP), CX
	TESTQ CX, CX
	JZ   done
next:
	MOVL -4(BX)(CX*4), DX
	SHLQ $7, DX
	PREFETCHT0 (AX)(DX*1)
	DECQ CX
	JNZ  next
done:
	RET

// func prefetchSlots(table *Set, slots *uint32, n int)
TEXT ·prefetchSlots(SB), NOSPLIT, $0-24
	MOVQ table+0(FP), AX
	MOVQ slots+8(FP), BX
	MOVQ n+16(FP), CX
	TESTQ CX, CX
	JZ   done
next:
	MOVL -4(BX)(CX*4), DX
	SHLQ $7, DX
	PREFETCHT0 (AX)(DX*1)
	PREFETCHT0 64(AX)(DX*1)
	DECQ CX
	JNZ  next
done:
	RET
