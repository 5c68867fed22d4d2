package marker

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// headerSum is the ones' complement sum over an IPv4 header, checksum included: 0xffff where it is right
// (RFC 791, 1071). It shares nothing with the update under test.
func headerSum(header []byte) uint32 {
	sum := uint32(0)
	for i := 0; i < len(header); i += 2 {
		sum += uint32(header[i])<<8 | uint32(header[i+1])
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return sum
}

// checksumOf computes an IPv4 header's checksum afresh.
func checksumOf(header []byte) uint16 {
	h := bytes.Clone(header)
	h[10], h[11] = 0, 0
	return ^uint16(headerSum(h))
}

// Every change of DSCP, with every checksum that a header can have: what is written is what a sender
// would have computed, so never 0xffff where 0 is right.
func TestRemarkEveryChecksum(t *testing.T) {
	step := 1
	if testing.Short() {
		step = 17
	}
	header := unhex("4500 0054 0000 4000 4001 0000 c0000201 c6336407")
	// The sum of all words but the first, the identification and the checksum.
	others := uint32(0)
	for i := 2; i < 20; i += 2 {
		if i != 4 && i != 10 {
			others += uint32(binary.BigEndian.Uint16(header[i:]))
		}
	}
	complement := func(sum uint32) uint16 {
		sum = sum>>16 + sum&0xffff
		sum = sum>>16 + sum&0xffff
		return ^uint16(sum)
	}
	zero, top := 0, 0
	for old := range 64 {
		ecn := byte(old) & 3
		for dscp := range 64 {
			if old == dscp {
				continue // not written
			}
			word := byte(dscp)<<2 | ecn
			// The identification runs through all, and so does the right checksum.
			for id := 0; id < 0x10000; id += step {
				before := complement(others + 0x4500 + uint32(old)<<2 + uint32(ecn) + uint32(id))
				want := complement(others + 0x4500 + uint32(word) + uint32(id))
				header[1] = byte(old)<<2 | ecn
				header[4], header[5] = byte(id>>8), byte(id)
				header[10], header[11] = byte(before>>8), byte(before)
				remarkIPv4(header, word)
				if got := uint16(header[10])<<8 | uint16(header[11]); got != want || header[1] != word {
					t.Fatalf("DSCP %d to %d, checksum %#04x: became %#04x, not %#04x; second byte %#02x, not %#02x", old, dscp, before, got, want, header[1], word)
				}
				if want == 0 {
					zero++
				}
				if before == 0 {
					top++
				}
			}
		}
	}
	if step == 1 && (zero == 0 || top == 0) {
		t.Errorf("a checksum of 0: %d times after, %d before", zero, top)
	}
	if headerSum(header) != 0xffff {
		t.Errorf("the last header is not right: %x", header)
	}
}

// 0xffff in the field is as good a zero as 0 to whoever verifies; what is written is right all the same.
// A wrong checksum stays as wrong as it was: marking repairs nothing.
func TestRemarkOddChecksums(t *testing.T) {
	header := unhex("4500 0054 0000 4000 4001 0000 c0000201 c6336407")
	id := checksumOf(header) // with this for an identification the right checksum is 0
	binary.BigEndian.PutUint16(header[4:], id)
	if checksumOf(header) != 0 {
		t.Fatalf("the right checksum is %#x", checksumOf(header))
	}
	for dscp := uint8(1); dscp < 64; dscp++ {
		h := bytes.Clone(header)
		h[10], h[11] = 0xff, 0xff
		remarkIPv4(h, dscp<<2)
		if got := binary.BigEndian.Uint16(h[10:]); got != checksumOf(h) {
			t.Errorf("0xffff, DSCP %d: %#x, not %#x", dscp, got, checksumOf(h))
		}
		// One too low: the sum over the header stays at 0xfffe.
		h = bytes.Clone(header)
		h[4]++
		binary.BigEndian.PutUint16(h[10:], checksumOf(h)-1)
		remarkIPv4(h, dscp<<2)
		if got := headerSum(h); got != 0xfffe {
			t.Errorf("wrong by one, DSCP %d: the header's sum became %#x", dscp, got)
		}
	}
}

// SPEC 4.5: the six bits, the checksum, and no other bit of the frame.
func TestRemarkTouchesNothingElse(t *testing.T) {
	tail := "aabbccddeeff"
	for _, c := range []struct {
		name  string
		frame Frame
	}{
		{"IPv4", ethernet("0800", ip4(28, 17), udp, tail)},
		{"IPv4 with options", ethernet("0800", "47"+ip4(36, 17)[2:], "0101010101010101", udp, tail)},
		{"IPv4 behind tags and PPPoE", ethernet("8100 0001 8100 0002 8100 0003 8100 0004", pppoe, "0021", ip4(28, 17), udp, tail)},
		{"IPv4 without link header", Frame{Data: unhex(ip4(28, 17), udp, tail), Link: LinkIPv4}},
		{"IPv6", ethernet("86dd", ip6(8, 17), udp, tail)},
		{"IPv6 behind tags and PPPoE", ethernet("8100 0001 8100 0002 8100 0003 8100 0004", pppoe, "0057", ip6(8, 17), udp, tail)},
		{"IPv6 without link header", Frame{Data: unhex(ip6(8, 17), udp, tail), Link: LinkIPv6}},
		{"IPv6 of nothing but the header", ethernet("86dd", ip6(0, 59))},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := c.frame
			f.Length = uint32(len(f.Data))
			original := bytes.Clone(f.Data)
			for old := range uint8(64) {
				for ecn := range uint8(4) {
					for dscp := range uint8(64) {
						var p packet
						copy(f.Data, original)
						if parseFrame(&f, &p) != parsedIP {
							t.Fatal("not read as IP")
						}
						ip := f.Data[p.l3:]
						class := old<<2 | ecn // the traffic class: 8 bits, from the 5th on in IPv6
						if p.family == FamilyIPv6 {
							ip[0], ip[1] = 0x60|class>>4, class<<4|0xa
						} else {
							ip[1] = class
							binary.BigEndian.PutUint16(ip[10:], checksumOf(ip[:(ip[0]&15)*4]))
						}
						p = packet{}
						parseFrame(&f, &p)
						if p.dscp != old {
							t.Fatalf("traffic class %#02x: DSCP read as %d", class, p.dscp)
						}
						want := bytes.Clone(f.Data)
						wantIP := want[p.l3:]
						class = dscp<<2 | ecn
						if p.family == FamilyIPv6 {
							wantIP[0], wantIP[1] = 0x60|class>>4, class<<4|0xa
						} else {
							wantIP[1] = class
							binary.BigEndian.PutUint16(wantIP[10:], checksumOf(wantIP[:(ip[0]&15)*4]))
						}
						remark(&f, &p.header, actionTOS(&Action{Verbs: VerbDSCP, DSCP: dscp}, p.tos))
						if !bytes.Equal(f.Data, want) {
							t.Fatalf("DSCP %d to %d, ECN %d:\n%x, not\n%x", old, dscp, ecn, f.Data, want)
						}
					}
				}
			}
		})
	}
}

// A packet already right is not written: not even a checksum that another would write differently.
func TestRemarkLeavesWhatIsRight(t *testing.T) {
	f := ethernet("0800", ip4(28, 17), udp)
	f.Length = uint32(len(f.Data))
	for _, checksum := range []uint16{0, 1, 0xffff} {
		binary.BigEndian.PutUint16(f.Data[24:], checksum)
		want := bytes.Clone(f.Data)
		var p packet
		parseFrame(&f, &p)
		remark(&f, &p.header, actionTOS(&Action{Verbs: VerbDSCP, DSCP: 46}, p.tos))
		if !bytes.Equal(f.Data, want) {
			t.Errorf("checksum %#x: written: %x", checksum, f.Data)
		}
	}
}
