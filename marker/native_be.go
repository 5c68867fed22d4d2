//go:build armbe || arm64be || mips || mips64 || mips64p32 || ppc64 || s390 || s390x || sparc || sparc64

package marker

// half is a word whose first four bytes in memory are those of v, the rest zero.
func half(v uint32) uint64 { return uint64(v) << 32 }

// transport is a key's last word: the four bytes of the ports as they stand in memory, the protocol.
func transport(ports uint32, proto uint8) uint64 { return uint64(ports)<<32 | uint64(proto)<<24 }

// networkOrder is a word whose first two bytes in memory are those of v in network order.
func networkOrder(v uint16) uint32 { return uint32(v) << 16 }
