package fit

import "math/bits"

// Need is what is added to the least burst, and why.
type Need struct {
	What  string // the flag
	Bytes uint64
	Why   string
}

const (
	// tcpHeader is the most that IP and TCP headers take of a packet as senders make them: IPv6, and TCP with time
	// stamps.
	tcpHeader = 40 + 32
	nano      = 1_000_000_000
)

// Window is what a TCP sender may send at once after a pause, without ever exceeding its rate over a round trip:
// rate (bytes per second) × rtt (ns), rounded up.
func Window(rate, rtt uint64) Need {
	high, low := bits.Mul64(rate, rtt)
	low, carry := bits.Add64(low, nano-1, 0)
	high += carry
	bytes := ^uint64(0)
	if high < nano {
		bytes, _ = bits.Div64(high, low, nano)
	}
	return Need{"--rtt", bytes, "TCP may send a whole window, rate × RTT, at once after a pause"}
}

// Packet is the largest packet of an interface, whose IP bytes are at most mtu; a packet costs extra bytes beside them.
func Packet(mtu, extra uint64) Need {
	return Need{"--mtu", mtu + extra, "a packet of the MTU conforms also where the burst was just spent to the byte"}
}

// Super is a super-packet (GRO, GSO) of size bytes, as each of its segments costs, headers and all, where a segment's
// IP bytes are at most mtu; each costs extra bytes beside them.
func Super(size, mtu, extra uint64) Need {
	payload := uint64(1)
	if mtu > tcpHeader {
		payload = mtu - tcpHeader
	}
	segments := (size + payload - 1) / payload
	return Need{"--gso", size + segments*(tcpHeader+extra), "offloads hand over one super-packet, judged as a whole with the headers of all its segments"}
}
