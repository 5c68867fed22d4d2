package marker

// ClassStats are the counters of one class. Packets are wire packets; bytes are what they cost (IP
// bytes where packets are counted). Never lost when a bucket is forgotten.
type ClassStats struct {
	Packets   [Colors]uint64
	Bytes     [Colors]uint64
	Overflow  uint64 // packets metered in an overflow bucket: the table was full
	Contended uint64 // packets red because a bucket could not be locked in time
	ClockBack uint64 // buckets that saw a time before their last
}

// PortStats are the counters of what no class saw.
type PortStats struct {
	Unmatched uint64 // wire packets
	NotIP     uint64
	Malformed uint64
	LongChain uint64 // IPv6 with more extension headers than are walked; still policed
	Unread    uint64 // headers that the kernel could not pull within reach, for want of memory: dropped
}

// Stats are all counters of an attachment.
type Stats struct {
	Port    PortStats
	Classes []ClassStats // as Plan.Classes
}
