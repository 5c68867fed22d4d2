package pcaptest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/marker"
)

// Marking in the kernel, held against frames that are marked here afresh, not against the mirror.

// markingKernel is the kernel's side where all is green; act has it mark everything by an action.
type markingKernel struct {
	*Kernel
	plan *marker.Plan
}

func newMarkingKernel(t *testing.T) *markingKernel {
	t.Helper()
	testutils.RequireKernel(t)
	plan := planOf(t, marker.Params{Meter: marker.Token, CIR: 1 << 37, CBS: 1 << 30}, marker.PerClass, 64)
	k, err := NewKernel(plan, marker.SeedsFrom(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	return &markingKernel{k, plan}
}

func (k *markingKernel) act(t *testing.T, a marker.Action) {
	t.Helper()
	k.plan.Classes[0].Actions[marker.Green] = a
	if err := k.Program.Maps.WritePlan(k.plan); err != nil {
		t.Fatal(err)
	}
}

// marked is what becomes of a frame, whose bytes are marked in place.
func (k *markingKernel) marked(t *testing.T, f *marker.Frame) {
	t.Helper()
	f.Length = uint32(len(f.Data))
	out, err := k.Packet(f, 1)
	if errors.Is(err, unix.EINVAL) && k.Runner.ChecksumComplete {
		t.Skip("this kernel's test runs do not sum packets as a device does")
	}
	if err != nil {
		t.Fatalf("%v\n%x", err, f.Data)
	}
	if out.Kind != marker.Metered || out.Color != marker.Green || out.Dropped {
		t.Fatalf("%+v\n%x", out, f.Data)
	}
}

// markingIPv4 is a frame of IPv4 and where its IP header is.
func markingIPv4() (frame []byte, at int) {
	frame = make([]byte, 14+20+40)
	frame[12] = 0x08
	copy(frame[14:], []byte{0x45, 0, 0, 60, 0, 1, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 1, 198, 51, 100, 7, 0x0f, 0xa0, 0x13, 0x88})
	return frame, 14
}

// setChecksum gives an IPv4 header the identification by which a checksum is right.
func setChecksum(ip []byte, checksum uint16) {
	binary.BigEndian.PutUint16(ip[4:], 0)
	binary.BigEndian.PutUint16(ip[10:], checksum)
	binary.BigEndian.PutUint16(ip[4:], ^sum(ip[:20]))
}

// freshChecksum writes an IPv4 header's checksum as a sender would.
func freshChecksum(ip []byte) {
	binary.BigEndian.PutUint16(ip[10:], 0)
	binary.BigEndian.PutUint16(ip[10:], ^sum(ip[:int(ip[0]&15)*4]))
}

// All 64 × 64 changes of DSCP, each under 64 checksums: those of RFC 1624's corners, those that become 0 or
// nearly so by this very change, and others; the ECN is each of the four in turn. What is right already
// keeps even 0xffff for a checksum, which a rewrite would turn into 0: nothing is written.
func TestKernelMarksEveryChecksum(t *testing.T) {
	k := newMarkingKernel(t)
	random := rand.New(rand.NewPCG(testutils.Seed(t), 0))
	corners := []uint16{
		0, 1, 2, 3, 4, 0xfb, 0xfc, 0xfd, 0xfe, 0xff, 0x100, 0x101, 0x102, 0x103, 0x104,
		0x7ffe, 0x7fff, 0x8000, 0x8001, 0xfeff, 0xff00, 0xff01, 0xff02, 0xff03, 0xff04,
		0xfffa, 0xfffb, 0xfffc, 0xfffd, 0xfffe, 0xffff,
	}
	const sums = 64
	frame, at := markingIPv4()
	sent, want := bytes.Clone(frame), bytes.Clone(frame)
	f := marker.Frame{Data: bytes.Clone(frame)}
	runs, became0, was0, was0xffff, kept := 0, 0, 0, 0, 0
	for dscp := range uint8(64) {
		k.act(t, marker.Action{Verbs: marker.VerbDSCP, DSCP: dscp})
		for old := range uint8(64) {
			for i := range sums {
				ip := sent[at:]
				ecn := uint8(i+int(old)) & 3
				ip[1] = old<<2 | ecn
				checksum := uint16(random.Uint32())
				if i < len(corners) {
					checksum = corners[i]
				} else if near := i - len(corners); near < 17 {
					// By the change 4·(dscp − old) is subtracted.
					checksum = uint16(4*(int(dscp)-int(old)) + near - 8)
				}
				setChecksum(ip, checksum)
				copy(f.Data, sent)
				k.marked(t, &f)
				runs++

				copy(want, sent)
				if dscp != old {
					want[at+1] = dscp<<2 | ecn
					freshChecksum(want[at:])
				} else {
					kept++
				}
				if !bytes.Equal(f.Data, want) {
					t.Fatalf("DSCP %d to %d, ECN %d, checksum %#04x:\n%x, not\n%x", old, dscp, ecn, checksum, f.Data, want)
				}
				switch checksum {
				case 0:
					was0++
				case 0xffff:
					was0xffff++
				}
				if binary.BigEndian.Uint16(want[at+10:]) == 0 && dscp != old {
					became0++
				}
			}
		}
	}
	t.Logf("%d runs; checksums: %d were 0, %d were 0xffff, %d became 0; %d packets were right", runs, was0, was0xffff, became0, kept)
	if runs != 64*64*sums || was0 < 64*64 || was0xffff < 64*64 || became0 < 64*63 || kept != 64*sums {
		t.Error("a corner was not met under each change")
	}
}

// IPv6's traffic class lies over the border of two bytes, between the version and the flow label: all
// changes of DSCP, under each ECN, with flow labels that would show a bit too many.
func TestMarksOverTheNibbleBorder(t *testing.T) {
	k := newMarkingKernel(t)
	frame := make([]byte, 14+40+20)
	copy(frame[12:], []byte{0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, 17, 64, 0x20, 1, 0x0d, 0xb8, 29: 1, 30: 0x20, 31: 1, 32: 0x0d, 33: 0xb8, 45: 2})
	head := func(b []byte, class uint8, label uint32) {
		binary.BigEndian.PutUint32(b[14:], 6<<28|uint32(class)<<20|label)
	}
	sent, want := bytes.Clone(frame), bytes.Clone(frame)
	f := marker.Frame{Data: bytes.Clone(frame)}
	for dscp := range uint8(64) {
		k.act(t, marker.Action{Verbs: marker.VerbDSCP, DSCP: dscp})
		m, err := NewMirror(k.plan, marker.SeedsFrom(1))
		if err != nil {
			t.Fatal(err)
		}
		for class := range 256 {
			old, ecn := uint8(class)>>2, uint8(class)&3
			for _, label := range []uint32{0, 0xfffff, 0xa5a5a, 0x80001} {
				head(sent, uint8(class), label)
				head(want, dscp<<2|ecn, label)
				copy(f.Data, sent)
				k.marked(t, &f)
				if !bytes.Equal(f.Data, want) {
					t.Fatalf("kernel: DSCP %d to %d, ECN %d, flow label %#05x:\n%x, not\n%x", old, dscp, ecn, label, f.Data, want)
				}
				copy(f.Data, sent)
				if out, err := m.Packet(&f, 1); err != nil || out.Dropped || !bytes.Equal(f.Data, want) {
					t.Fatalf("mirror: DSCP %d to %d, ECN %d, flow label %#05x:\n%x, not\n%x (%+v, %v)", old, dscp, ecn, label, f.Data, want, out, err)
				}
			}
		}
	}
}

// Fragments after the first have no ports, and are marked all the same; so are those that are all in one.
// The device's checksum (CHECKSUM_COMPLETE) stays true, where this kernel's test runs can tell.
func TestMarksEveryFragment(t *testing.T) {
	for _, summed := range []bool{false, true} {
		name := "as it is"
		if summed {
			name = "summed by the device"
		}
		t.Run(name, func(t *testing.T) {
			k := newMarkingKernel(t)
			k.Runner.ChecksumComplete = summed
			for dscp := range uint8(64) {
				k.act(t, marker.Action{Verbs: marker.VerbDSCP, DSCP: dscp})
				for ecn := range uint8(4) {
					class := dscp<<2 | ecn
					for _, fragment := range []uint16{0x2000, 0x2000 | 185, 370, 1, 0x1fff} { // more follow, and 13 bits of 8 bytes
						for _, payload := range []int{1, 7, 8, 40} {
							sent, at := markingIPv4()
							sent = append(sent[:at+20], bytes.Repeat([]byte{0xa5}, payload)...)
							ip := sent[at:]
							ip[1] = ^dscp<<2 | ecn
							binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)))
							binary.BigEndian.PutUint16(ip[6:], fragment)
							freshChecksum(ip)
							want := bytes.Clone(sent)
							want[at+1] = class
							freshChecksum(want[at:])
							f := marker.Frame{Data: sent}
							k.marked(t, &f)
							if !bytes.Equal(f.Data, want) {
								t.Fatalf("IPv4, DSCP %d, ECN %d, fragment %#04x of %d bytes:\n%x, not\n%x", dscp, ecn, fragment, payload, f.Data, want)
							}

							sent = make([]byte, 14+40+8, 14+40+8+payload)
							copy(sent[12:], []byte{0x86, 0xdd, 0x60 | (^dscp&63)>>2, ^dscp<<6 | ecn<<4 | 0xa, 0xbc, 0xde, 0, byte(8 + payload), 44, 64, 0x20, 1})
							sent[14+39] = 9
							copy(sent[14+40:], []byte{17, 0, byte(fragment >> 5), byte(fragment<<3) | byte(fragment>>13), 0, 0, 0, 7})
							sent = append(sent, bytes.Repeat([]byte{0x5a}, payload)...)
							want = bytes.Clone(sent)
							want[14], want[15] = 0x60|class>>4, class<<4|0xa
							f = marker.Frame{Data: sent}
							k.marked(t, &f)
							if !bytes.Equal(f.Data, want) {
								t.Fatalf("IPv6, DSCP %d, ECN %d, fragment %#04x of %d bytes:\n%x, not\n%x", dscp, ecn, fragment, payload, f.Data, want)
							}
						}
					}
				}
			}
		})
	}
}

// CE is set on what is ECN-capable, and on nothing else; the DSCP beside it is for what is not. The device's
// checksum stays true.
func TestKernelMarksCE(t *testing.T) {
	k := newMarkingKernel(t)
	k.Runner.ChecksumComplete = true
	for _, a := range []marker.Action{{Verbs: marker.VerbCE}, {Verbs: marker.VerbCE | marker.VerbDSCP, DSCP: 12}} {
		k.act(t, a)
		for class := range 256 {
			want := uint8(class)
			if class&3 != 0 {
				want |= 3
			} else if a.Verbs&marker.VerbDSCP != 0 {
				want = 12 << 2
			}
			sent, at := markingIPv4()
			sent[at+1] = uint8(class)
			freshChecksum(sent[at:])
			right := bytes.Clone(sent)
			right[at+1] = want
			freshChecksum(right[at:])
			f := marker.Frame{Data: sent}
			k.marked(t, &f)
			if !bytes.Equal(f.Data, right) {
				t.Fatalf("IPv4, %+v, traffic class %#02x:\n%x, not\n%x", a, class, f.Data, right)
			}
			sent = make([]byte, 14+40+20)
			copy(sent[12:], []byte{0x86, 0xdd, 0x60 | uint8(class)>>4, uint8(class)<<4 | 0xa, 0xbc, 0xde, 0, 20, 17, 64, 0x20, 1})
			right = bytes.Clone(sent)
			right[14], right[15] = 0x60|want>>4, want<<4|0xa
			f = marker.Frame{Data: sent}
			k.marked(t, &f)
			if !bytes.Equal(f.Data, right) {
				t.Fatalf("IPv6, %+v, traffic class %#02x:\n%x, not\n%x", a, class, f.Data, right)
			}
		}
	}
}
