package pcaptest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/marker"
)

// SPEC 4.5: where the device summed the whole packet (CHECKSUM_COMPLETE), marking keeps that sum true, for
// every change of DSCP, behind any link header, IPv4 and IPv6. The kernel itself compares.
func TestMarkingKeepsTheDevicesChecksum(t *testing.T) {
	testutils.RequireKernel(t)
	plan := planOf(t, marker.Params{Meter: marker.Token, CIR: 1 << 37, CBS: 1 << 30}, marker.PerClass, 64)
	k, err := NewKernel(plan, marker.SeedsFrom(1))
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	k.Runner.ChecksumComplete = true
	for _, link := range []struct {
		name   string
		header []byte // behind the addresses, up to the EtherType
	}{
		{"Ethernet", nil},
		{"a tag", []byte{0x81, 0, 0, 100}},
		{"two tags", []byte{0x88, 0xa8, 0, 100, 0x81, 0, 0, 7}},
	} {
		for _, family := range []int{4, 6} {
			frame := append(make([]byte, 12), link.header...)
			var ip []byte
			if family == 4 {
				frame = append(frame, 0x08, 0)
				ip = make([]byte, 20+40)
				copy(ip, []byte{0x45, 0, 0, 60, 0, 1, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 198, 51, 100, 7})
			} else {
				frame = append(frame, 0x86, 0xdd)
				ip = make([]byte, 40+40)
				copy(ip, []byte{0x60, 0x0a, 0xbc, 0xde, 0, 40, 17, 64, 0x20, 1, 0xd, 0xb8, 23: 1, 24: 0x20, 25: 1, 39: 2})
			}
			at := len(frame)
			frame = append(frame, ip...)
			for dscp := range uint8(64) {
				plan.Classes[0].Actions[marker.Green] = marker.Action{Verbs: marker.VerbDSCP, DSCP: dscp}
				if err := k.Program.Maps.WritePlan(plan); err != nil {
					t.Fatal(err)
				}
				for old := range uint8(64) {
					sent := bytes.Clone(frame)
					class := old<<2 | old&3 // every ECN as well
					if ip := sent[at:]; family == 4 {
						ip[1] = class
						binary.BigEndian.PutUint16(ip[10:], ^sum(ip[:20]))
					} else {
						ip[0], ip[1] = 0x60|class>>4, class<<4|0xa
					}
					f := marker.Frame{Data: sent, Length: uint32(len(sent))}
					out, err := k.Packet(&f, 1)
					if errors.Is(err, unix.EINVAL) {
						t.Skip("this kernel's test runs do not sum packets as a device does")
					}
					if err != nil {
						t.Fatalf("%s, IPv%d, DSCP %d to %d: %v", link.name, family, old, dscp, err)
					}
					if out.Kind != marker.Metered || out.Dropped {
						t.Fatalf("%+v", out)
					}
					if got := f.Data[at]<<4 | f.Data[at+1]>>4; family == 6 && got>>2 != dscp || family == 4 && f.Data[at+1]>>2 != dscp {
						t.Fatalf("%s, IPv%d, DSCP %d to %d: not marked", link.name, family, old, dscp)
					}
					if family == 4 && sum(f.Data[at:at+20]) != 0xffff {
						t.Errorf("%s, DSCP %d to %d: the header's checksum is wrong", link.name, old, dscp)
					}
				}
			}
		}
	}
}

// sum is the ones' complement sum (RFC 1071).
func sum(b []byte) uint16 {
	sum := uint32(0)
	for i := 0; i < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return uint16(sum)
}
