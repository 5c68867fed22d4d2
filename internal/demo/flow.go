package demo

import (
	"fmt"
	"time"

	"github.com/tricolor-policer/tricolor/internal/netlab"
	"github.com/tricolor-policer/tricolor/internal/units"
	"github.com/tricolor-policer/tricolor/marker"
)

// packetLen is the length of each UDP packet, in bytes of IP.
const packetLen = 1250

// A flow is one sender and its receiver, and a bucket of its own.
type flow struct {
	port uint16 // the receiver's; UDP's sender has it too
	ipv6 bool
	ecn  uint8  // of all its packets. TCP: 0, since it does not negotiate ECN here
	rate uint64 // UDP: offered, in bytes of IP per second. 0: TCP, as fast as it gets
}

// flows are under, near and over the rate, each UDP flow with another of the four values of ECN.
var flows = []flow{
	{port: 7001, ecn: 0, rate: 500_000},
	{port: 7002, ecn: 1, rate: 1_312_500},
	{port: 7003, ecn: 2, rate: 3_750_000},
	{port: 7004, ecn: 3, rate: 3_750_000, ipv6: true},
	{port: 7005},
	{port: 7006, ipv6: true},
}

func (f *flow) tcp() bool { return f.rate == 0 }

// proto is the flow's IP protocol.
func (f *flow) proto() uint8 {
	if f.tcp() {
		return protoTCP
	}
	return protoUDP
}

// IP protocols.
const (
	protoTCP = 6
	protoUDP = 17
)

var ecnNames = [4]string{"Not-ECT", "ECT(1)", "ECT(0)", "CE"}

// String is the flow for a person.
func (f *flow) String() string {
	family := 4
	if f.ipv6 {
		family = 6
	}
	if f.tcp() {
		return fmt.Sprintf("TCP IPv%d %-7s  bulk, GSO", family, ecnNames[f.ecn])
	}
	return fmt.Sprintf("UDP IPv%d %-7s  %s", family, ecnNames[f.ecn], units.FormatMeanRate(f.rate))
}

// udp is the flow's sender, for the given time.
func (f *flow) udp(to *netlab.UDPSink, during time.Duration) netlab.UDPFlow {
	headers := 20 + 8
	if f.ipv6 {
		headers = 40 + 8
	}
	interval := time.Duration(packetLen * uint64(time.Second) / f.rate)
	return netlab.UDPFlow{
		To:       to.Addr(),
		From:     f.port,
		Payload:  packetLen - headers,
		Count:    int(during / interval),
		Interval: interval,
		TOS:      f.ecn,
	}
}

// has reports whether a bucket's key is the flow's.
func (f *flow) has(key *marker.KeyFields) bool {
	port := uint16(key.Dport[0])<<8 | uint16(key.Dport[1])
	return port == f.port && key.Proto == f.proto() && key.IPv6() == f.ipv6
}
