package pcaptest

import (
	"encoding/binary"
	"testing"

	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/internal/vectors"
	"github.com/tricolor-policer/tricolor/marker"
)

// vectorFrame is a packet that costs length bytes where the class's overhead is vectorOverhead, and
// that arrives in a colour. Where no IPv4 length field holds it, the field is 0, as on super-packets,
// and the frame's length counts.
func vectorFrame(data *[34]byte, length uint64, arrival marker.Color) marker.Frame {
	const ethernet = 14
	*data = [34]byte{12: 0x08, 14: 0x45, 22: 64, 23: 17, 26: 192, 28: 2, 29: 1, 30: 192, 32: 2, 33: 2}
	data[15] = []byte{marker.Green: 10, marker.Yellow: 12, marker.Red: 14}[arrival] << 2
	ip := length - vectorOverhead
	if ip <= 0xffff {
		binary.BigEndian.PutUint16(data[16:], uint16(ip))
	}
	return marker.Frame{Data: data[:], Length: uint32(ip) + ethernet}
}

// vectorOverhead makes a packet of no bytes out of the smallest there is.
const vectorOverhead = ^uint64(0) - 19 // -20

// Every row of the vectors holds in the kernel program: colour and token counts.
func TestVectorsInTheKernel(t *testing.T) {
	testutils.RequireKernel(t)
	rows := 0
	for _, file := range vectors.Load(t) {
		t.Run(file.Name, func(t *testing.T) {
			for _, c := range file.Cases {
				rows += vectorCase(t, c)
			}
		})
	}
	total, left := 0, 2 // trtcm-years-idle ends at its row over the packet path's clamp
	for _, file := range vectors.Load(t) {
		total += file.Rows()
	}
	if rows != total-left {
		t.Errorf("%d rows checked of %d; only %d may be left out", rows, total, left)
	}
	t.Logf("%d rows", rows)
}

func vectorCase(t *testing.T, c vectors.Case) (rows int) {
	t.Helper()
	meter, err := marker.ParseMeterType(c.Meter.Type)
	if err != nil {
		t.Fatalf("%s: %v", c.Name, err)
	}
	plan := planOf(t, marker.Params{
		Meter: meter, Aware: c.Meter.Mode == "aware", Coupling: c.Meter.Coupling,
		CIR: c.Meter.CIR, CBS: c.Meter.CBS, EBS: c.Meter.EBS, PIR: c.Meter.PIR, PBS: c.Meter.PBS, EIR: c.Meter.EIR,
	}, marker.PerFlow, 64)
	plan.Classes[0].Overhead = -20
	k, err := NewKernel(plan, marker.SeedsFrom(1))
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	var data [34]byte
	for i, row := range c.Packets {
		if row.Len > marker.CostMax {
			if c.Name != "trtcm-years-idle" {
				t.Errorf("%s: row %d: %d bytes are over the packet path's %d", c.Name, i, row.Len, marker.CostMax)
			}
			return rows
		}
		in, err := marker.ParseColor(row.In)
		if err != nil {
			t.Fatalf("%s: row %d: %v", c.Name, i, err)
		}
		// The flow is told apart by its addresses, the arrival colour by its DSCP.
		f := vectorFrame(&data, row.Len, in)
		out, err := k.Packet(&f, row.T)
		if err != nil {
			t.Fatalf("%s: row %d: %v", c.Name, i, err)
		}
		var set marker.Set
		if out.Slots[0] == marker.NoSet {
			t.Fatalf("%s: row %d: not metered: %v", c.Name, i, out.Kind)
		}
		if err := k.Set(out.Slots[0]/marker.SetSlots, &set); err != nil {
			t.Fatal(err)
		}
		b := set[out.Slots[0]%marker.SetSlots].Bucket
		tc, tx := row.Tokens()
		if out.Cost != row.Len || out.Color.String() != row.Out || b.Tc != tc || b.Tx != tx {
			t.Errorf("%s: row %d: %d bytes at %d ns: %v, tc %d, te|tp %d; right is %s, %d, %d (cost %d)",
				c.Name, i, row.Len, row.T, out.Color, b.Tc, b.Tx, row.Out, tc, tx, out.Cost)
			return rows
		}
		rows++
	}
	return rows
}
