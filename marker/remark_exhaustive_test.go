package marker

import (
	"encoding/binary"
	"runtime/debug"
	"testing"

	"golang.org/x/sys/unix"
)

// fold is a ones' complement sum in 16 bits.
func fold(sum uint32) uint16 {
	sum = sum>>16 + sum&0xffff
	return uint16(sum>>16 + sum&0xffff)
}

// Every change of a DSCP, under each ECN, with every sum that the rest of a header can have: the update
// gives what a sender would have computed afresh, in either byte order.
//
// 64 × 63 changes under 4 ECNs with 65,536 sums are 10^9 cases, and no more than 126 × 65,536 different
// ones. A header's first word is m = v + 4·DSCP + ECN, so RFC 1624's ~m + m' is 0xffff + 4·(DSCP' − DSCP):
// version, IHL and ECN fall out, and only the difference of the code points, −63 … 63, is left. That the
// function sees nothing else of them is checked for every change; then each difference meets every sum.
// Swapped bytes swap the difference, so both orders are run.
func TestChecksumUpdateExhaustive(t *testing.T) {
	const first = 0x4500
	// That the update is one of ~m + m' alone, at sums that carry and that do not.
	probes := []uint16{0, 1, 2, 3, 0xfc, 0xff, 0x100, 0x3fff, 0x7fff, 0x8000, 0xff00, 0xff03, 0xfffc, 0xfffd, 0xfffe, 0xffff}
	for old := range uint16(64) {
		for dscp := range uint16(64) {
			for ecn := range uint16(4) {
				from, to := first|old<<2|ecn, first|dscp<<2|ecn
				// The same difference, from the lowest code point that has it.
				low, high := first|old<<2-min(old, dscp)<<2, first|dscp<<2-min(old, dscp)<<2
				if uint32(^from)+uint32(to) != uint32(^low)+uint32(high) {
					t.Fatalf("DSCP %d to %d, ECN %d: not the difference alone", old, dscp, ecn)
				}
				for _, probe := range probes {
					if checksumUpdate(probe, from, to) != checksumUpdate(probe, low, high) {
						t.Fatalf("DSCP %d to %d, ECN %d, checksum %#04x: not the difference alone", old, dscp, ecn, probe)
					}
				}
			}
		}
	}
	swap := func(v uint16) uint16 { return v<<8 | v>>8 }
	before0, after0 := 0, 0
	for difference := -63; difference <= 63; difference++ {
		if difference == 0 {
			continue // not written
		}
		old, dscp := uint16(max(0, -difference)), uint16(max(0, difference))
		from, to := first|old<<2, first|dscp<<2
		// What the other nine words add up to: 0 never, since the source address is among them.
		for rest := uint32(1); rest <= 0xffff; rest++ {
			before, want := ^fold(rest+uint32(from)), ^fold(rest+uint32(to))
			if got := checksumUpdate(before, from, to); got != want {
				t.Fatalf("difference %d, checksum %#04x: became %#04x, not %#04x", difference, before, got, want)
			}
			if got := checksumUpdate(swap(before), swap(from), swap(to)); got != swap(want) {
				t.Fatalf("difference %d, checksum %#04x, bytes swapped: became %#04x, not %#04x", difference, before, swap(got), want)
			}
			if want == 0xffff {
				t.Fatalf("difference %d, checksum %#04x: the right one is 0xffff, which no sender writes", difference, before)
			}
			if before == 0 {
				before0++
			}
			if want == 0 {
				after0++
			}
		}
	}
	// A sum of 0xffff, once for each difference and side; else the corner was not met.
	if before0 != 126 || after0 != 126 {
		t.Errorf("a checksum of 0: %d times before, %d after, not 126 each", before0, after0)
	}
}

// A packet already right is not written, not even with what it holds: its bytes lie in memory that cannot
// be. One that is not right cannot be marked there, else nothing was shown.
func TestRemarkOfWhatIsRightWritesNothing(t *testing.T) {
	page, err := unix.Mmap(-1, 0, unix.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Munmap(page); err != nil {
			t.Error(err)
		}
	})
	faults := func(f *Frame, p *packet, a *Action) (faulted bool) {
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
		defer func() { faulted = recover() != nil }()
		remark(f, &p.header, actionTOS(a, p.tos))
		return false
	}
	for name, frame := range map[string]Frame{"IPv4": ethernet("0800", ip4(28, 17), udp), "IPv6": ethernet("86dd", ip6(8, 17), udp)} {
		for class := range 256 {
			if err := unix.Mprotect(page, unix.PROT_READ|unix.PROT_WRITE); err != nil {
				t.Fatal(err)
			}
			f := frame
			f.Data = page[:copy(page, frame.Data)]
			f.Length = uint32(len(f.Data))
			if ip := f.Data[14:]; name == "IPv4" {
				ip[1] = byte(class)
				binary.BigEndian.PutUint16(ip[10:], checksumOf(ip[:20]))
			} else {
				ip[0], ip[1] = 0x60|byte(class>>4), byte(class<<4)|0xa
			}
			if err := unix.Mprotect(page, unix.PROT_READ); err != nil {
				t.Fatal(err)
			}
			var p packet
			if parseFrame(&f, &p) != parsedIP {
				t.Fatal("not read as IP")
			}
			dscp, ecn := uint8(class>>2), class&3
			right := []Action{{Verbs: VerbDSCP, DSCP: dscp}, {}, {Verbs: VerbMark, Mark: 1}}
			wrong := []Action{{Verbs: VerbDSCP, DSCP: dscp ^ 1}, {Verbs: VerbDSCP, DSCP: dscp ^ 32}}
			switch ecn {
			case 0: // not capable: CE beside the DSCP it has, or alone
				right = append(right, Action{Verbs: VerbCE}, Action{Verbs: VerbCE | VerbDSCP, DSCP: dscp})
			case 3: // CE already
				right = append(right, Action{Verbs: VerbCE}, Action{Verbs: VerbCE | VerbDSCP, DSCP: dscp ^ 1})
			default:
				wrong = append(wrong, Action{Verbs: VerbCE})
			}
			for _, a := range right {
				if faults(&f, &p, &a) {
					t.Errorf("%s, traffic class %#02x, %+v: written", name, class, a)
				}
			}
			for _, a := range wrong {
				if !faults(&f, &p, &a) {
					t.Errorf("%s, traffic class %#02x, %+v: not written", name, class, a)
				}
			}
		}
	}
}
