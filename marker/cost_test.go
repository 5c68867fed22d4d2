package marker

import (
	"strings"
	"testing"
)

// charge is what a frame costs in a class.
func charge(t *testing.T, count Count, overhead int64, f Frame) cost {
	t.Helper()
	if f.Length == 0 {
		f.Length = uint32(len(f.Data))
	}
	var p packet
	if parsed := parseFrame(&f, &p); parsed != parsedIP {
		t.Fatalf("not read as IP: %d", parsed)
	}
	return costOf(&Class{Count: count, Overhead: overhead}, &f, &p)
}

// SPEC 4.1: a single packet, in each unit.
func TestCostSingle(t *testing.T) {
	small := ethernet("0800", ip4(28, 17), udp)
	at := func(f Frame, length int) Frame { return longer(f, length) }
	big := ethernet("0800", ip4(1500, 17), udp)
	for _, c := range []struct {
		name       string
		frame      Frame
		l3, l2, l1 uint64
	}{
		{"42 bytes, unpadded", small, 28, 60, 84},
		{"padded to 60", at(small, 60), 28, 60, 84},
		{"with a trailer", at(small, 64), 28, 64, 88},
		{"full", at(big, 1514), 1500, 1514, 1538},
		{"tag in the data", at(ethernet("8100 0064 0800", ip4(1500, 17), udp), 1518), 1500, 1518, 1542},
		{"tag offloaded", tagged(at(big, 1514), 100), 1500, 1518, 1542},
		{"tag offloaded, VLAN 0", tagged(at(big, 1514), 0), 1500, 1518, 1542},
		{"tag in the data and offloaded", tagged(at(ethernet("8100 0064 0800", ip4(1500, 17), udp), 1518), 100), 1500, 1522, 1546},
		{"42 bytes and an offloaded tag", tagged(small, 100), 28, 60, 84},
		{"57 bytes and an offloaded tag", tagged(at(small, 57), 100), 28, 61, 85},
		{"PPPoE", at(ethernet(pppoe, "0021", ip4(1492, 17), udp), 1514), 1492, 1514, 1538},
		{"IPv6", at(ethernet("86dd", ip6(1460, 17), udp), 1514), 1500, 1514, 1538},
		{"IPv6 without payload", ethernet("86dd", ip6(0, 59)), 40, 60, 84},
		{"IPv4 length 0", at(ethernet("0800", ip4(0, 17), udp), 70_014), 70_000, 70_014, 70_038},
		{"no link header", Frame{Data: unhex(ip4(28, 17), udp), Link: LinkIPv4}, 28, 28, 52},
		{"no link header, trailer", Frame{Data: unhex(ip4(28, 17), udp, "00000000"), Link: LinkIPv4}, 28, 28, 52},
		{"gso_segs 1 of a single packet", super(at(big, 1514), 0, 1), 1500, 1514, 1538},
	} {
		t.Run(c.name, func(t *testing.T) {
			for count, want := range map[Count]uint64{CountL3: c.l3, CountL2: c.l2, CountL1: c.l1} {
				for _, overhead := range []int64{0, 4, -20, 65_535} {
					adjusted := want + uint64(overhead)
					if got := charge(t, count, overhead, c.frame); got != (cost{adjusted, adjusted, 1}) {
						t.Errorf("%v, overhead %d: %+v, not %d", count, overhead, got, adjusted)
					}
				}
				if got := charge(t, count, -65_535, at(c.frame, max(len(c.frame.Data), int(c.frame.Length)))); want <= 65_535 && got != (cost{0, 0, 1}) {
					t.Errorf("%v, overhead -65,535: %+v, not 0", count, got)
				}
			}
			for overhead, want := range map[int64]uint64{0: 1, 3: 4, -1: 0, -65_535: 0} {
				if got := charge(t, CountPackets, overhead, c.frame); got != (cost{want, c.l3, 1}) {
					t.Errorf("packets, overhead %d: %+v, not %d; bytes %d", overhead, got, want, c.l3)
				}
			}
		})
	}
}

// SPEC 1: in the packet path a cost stays within 0 and 2^24.
func TestCostClamps(t *testing.T) {
	f := longer(ethernet("0800", ip4(0, 17), udp), 14+1<<24)
	for _, c := range []struct {
		name     string
		count    Count
		overhead int64
		frame    Frame
		want     cost
	}{
		{"at the bound", CountL3, 0, f, cost{1 << 24, 1 << 24, 1}},
		{"one below", CountL3, -1, f, cost{1<<24 - 1, 1<<24 - 1, 1}},
		{"one over", CountL3, 1, f, cost{1 << 24, 1 << 24, 1}},
		{"frame over", CountL2, 0, f, cost{1 << 24, 1 << 24, 1}},
		{"packets: the bytes are the packet's", CountPackets, 0, f, cost{1, 1 << 24, 1}},
		{"many segments with a large overhead", CountL3, 65_535,
			super(longer(ethernet("0800", ip4(60_040, 6), tcp), 60_054), 100, 600), cost{1 << 24, 1 << 24, 600}},
		{"packets with a large overhead", CountPackets, 65_535,
			super(longer(ethernet("0800", ip4(60_040, 6), tcp), 60_054), 100, 600), cost{1 << 24, 60_000 + 600*40, 600}},
	} {
		if got := charge(t, c.count, c.overhead, c.frame); got != c.want {
			t.Errorf("%s: %+v, not %+v", c.name, got, c.want)
		}
	}
}

// SPEC 4.1: a super-packet costs what its segments cost on the wire.
func TestCostSuperPackets(t *testing.T) {
	tcpOf := func(words string) string { return strings.Replace(tcp, "5010", words+"010", 1) }
	v4tcp := func(payload int) Frame {
		return longer(ethernet("0800", ip4(40+payload, 6), tcp), 54+payload)
	}
	for _, c := range []struct {
		name           string
		frame          Frame
		size, segments uint32
		l3, l2, l1     uint64
		packets        uint32
	}{
		// 1448 + 1448 + 104 bytes, 40 of IP and TCP each, 54 with Ethernet.
		{"TCP", v4tcp(3000), 1448, 3, 3000 + 3*40, 3000 + 3*54, 3000 + 3*78, 3},
		{"TCP, gso_segs 0", v4tcp(3000), 1448, 0, 3000 + 3*40, 3000 + 3*54, 3000 + 3*78, 3},
		{"TCP, the last is full", v4tcp(2896), 1448, 0, 2896 + 2*40, 2896 + 2*54, 2896 + 2*78, 2},
		{"TCP, the last is 1 byte", v4tcp(2897), 1448, 3, 2897 + 3*40, 2*1502 + 60, 2*1526 + 84, 3},
		{"TCP, the last is 1 byte, gso_segs 0", v4tcp(2897), 1448, 0, 2897 + 3*40, 2*1502 + 60, 2*1526 + 84, 3},
		{"TCP, tiny segments", v4tcp(10), 4, 3, 10 + 3*40, 3 * 60, 3 * 84, 3},
		{"TCP, one segment", v4tcp(1000), 1448, 1, 1040, 1054, 1078, 1},
		{"TCP, one segment, gso_segs 0", v4tcp(1000), 1448, 0, 1040, 1054, 1078, 1},
		{"TCP, no payload, gso_segs 0", v4tcp(0), 1448, 0, 40, 60, 84, 1},
		{"TCP, offloaded tag", tagged(v4tcp(3000), 100), 1448, 3, 3120, 3000 + 3*58, 3000 + 3*82, 3},
		{"TCP, tag in the data", longer(ethernet("8100 0064 0800", ip4(3040, 6), tcp), 3058), 1448, 3, 3120, 3000 + 3*58, 3000 + 3*82, 3},
		{"TCP, 12 bytes of options", longer(ethernet("0800", ip4(3052, 6), tcpOf("8"), strings.Repeat("01", 12)), 3066), 1448, 3, 3000 + 3*52, 3000 + 3*66, 3000 + 3*90, 3},
		{"TCP, 40 bytes of options", longer(ethernet("0800", ip4(3080, 6), tcpOf("f"), strings.Repeat("01", 40)), 3094), 1448, 3, 3000 + 3*80, 3000 + 3*94, 3000 + 3*118, 3},
		{"TCP, data offset 0", longer(ethernet("0800", ip4(3040, 6), tcpOf("0")), 3054), 1448, 3, 3120, 3000 + 3*54, 3000 + 3*78, 3},
		{"TCP, IPv4 options", longer(ethernet("0800", "46"+ip4(3044, 6)[2:], "01010101", tcp), 3058), 1448, 3, 3000 + 3*44, 3000 + 3*58, 3000 + 3*82, 3},
		{"TCP, IPv4 length 0", longer(ethernet("0800", ip4(0, 6), tcp), 54+100_000), 1000, 100, 100_000 + 100*40, 100_000 + 100*54, 100_000 + 100*78, 100},
		{"TCP, IPv6", longer(ethernet("86dd", ip6(3020, 6), tcp), 3074), 1428, 3, 3000 + 3*60, 3000 + 3*74, 3000 + 3*98, 3},
		{"TCP, IPv6, payload length 0", longer(ethernet("86dd", ip6(0, 6), tcp), 74+100_000), 1000, 0, 100_000 + 100*60, 100_000 + 100*74, 100_000 + 100*98, 100},
		{"TCP, IPv6, hop-by-hop", longer(ethernet("86dd", ip6(3028, 0), extension(6, 8), tcp), 3082), 1428, 3, 3000 + 3*68, 3000 + 3*82, 3000 + 3*106, 3},
		{"UDP", longer(ethernet("0800", ip4(2528, 17), udp), 2542), 1000, 3, 2500 + 3*28, 2500 + 3*42, 2500 + 3*66, 3},
		{"UDP, gso_segs 0, the last is 1 byte", longer(ethernet("0800", ip4(2029, 17), udp), 2043), 1000, 0, 2001 + 3*28, 2*1042 + 60, 2*1066 + 84, 3},
		{"UDP, IPv6", longer(ethernet("86dd", ip6(2508, 17), udp), 2562), 1000, 3, 2500 + 3*48, 2500 + 3*62, 2500 + 3*86, 3},
		// SCTP: segments of any size; their number and their sum are known.
		{"SCTP", longer(ethernet("0800", ip4(3412, 132), sctp), 3426), 0xffff, 3, 3380 + 3*32, 3380 + 3*46, 3380 + 3*70, 3},
		{"SCTP, a byte over", longer(ethernet("0800", ip4(3413, 132), sctp), 3427), 0xffff, 3, 3381 + 3*32, 3381 + 3*46, 3381 + 3*70, 3},
		{"SCTP, tiny segments", longer(ethernet("0800", ip4(37, 132), sctp), 51), 0xffff, 4, 5 + 4*32, 4 * 60, 4 * 84, 4},
		{"SCTP, no payload", longer(ethernet("0800", ip4(32, 132), sctp), 46), 0xffff, 2, 2 * 32, 2 * 60, 2 * 84, 2},
		{"SCTP, IPv6", longer(ethernet("86dd", ip6(1472, 132), sctp), 1526), 0xffff, 2, 1460 + 2*52, 1460 + 2*66, 1460 + 2*90, 2},
		{"TCP in PPPoE", longer(ethernet(pppoe, "0021", ip4(3040, 6), tcp), 3062), 1448, 3, 3120, 3000 + 3*62, 3000 + 3*86, 3},
		{"TCP without link header", Frame{Data: unhex(ip4(3040, 6), tcp), Length: 3040, Link: LinkIPv4}, 1448, 3, 3120, 3120, 3120 + 3*24, 3},
		// Tunnelled: outer headers only (a known deviation).
		{"GRE", longer(ethernet("0800", ip4(3020, 47), "00000800", ip4(2996, 6), tcp), 3034), 1000, 3, 3000 + 3*20, 3000 + 3*34, 3000 + 3*58, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := super(c.frame, c.size, c.segments)
			for count, want := range map[Count]uint64{CountL3: c.l3, CountL2: c.l2, CountL1: c.l1} {
				for _, overhead := range []int64{0, 4, -20} {
					adjusted := uint64(int64(want) + overhead*int64(c.packets))
					if got := charge(t, count, overhead, f); got != (cost{adjusted, adjusted, c.packets}) {
						t.Errorf("%v, overhead %d: %+v, not %d", count, overhead, got, adjusted)
					}
				}
			}
			n := uint64(c.packets)
			for overhead, want := range map[int64]uint64{0: n, 3: 4 * n, -1: 0, -5: 0} {
				if got := charge(t, CountPackets, overhead, f); got != (cost{want, c.l3, c.packets}) {
					t.Errorf("packets, overhead %d: %+v, not %d", overhead, got, want)
				}
			}
		})
	}
}

// SPEC 1: the overhead is taken of each segment, and none costs less than nothing.
func TestCostOverheadOfEachSegment(t *testing.T) {
	f := super(longer(ethernet("0800", ip4(3040, 6), tcp), 3054), 1448, 3)
	// 1488 - 200, 1488 - 200, 144 - 200.
	if got := charge(t, CountL3, -200, f); got != (cost{2576, 2576, 3}) {
		t.Errorf("%+v", got)
	}
	if got := charge(t, CountL3, -1488, f); got != (cost{0, 0, 3}) {
		t.Errorf("%+v", got)
	}
}
