package main

import (
	"bufio"
	"encoding/csv"
	"io"
	"strconv"

	"github.com/tricolor-policer/tricolor/marker"
	"github.com/tricolor-policer/tricolor/pcaptest"
)

// packetsHeader names the columns of --packets. bytes is the packet's cost in the unit that is counted;
// tokens are nanobytes after the packet, and te_nb holds trtcm's Tp. A packet that was not metered costs 0.
var packetsHeader = []string{
	"packet", "time_ns", "class", "flow", "bytes", "in_color", "color", "verdict", "dscp_in", "dscp_out", "tc_nb", "te_nb",
}

// packetRows writes one CSV row a packet.
type packetRows struct {
	buffer *bufio.Writer
	csv    *csv.Writer
	plan   *marker.Plan
	row    []string
}

func newPacketRows(w io.Writer, plan *marker.Plan) (*packetRows, error) {
	buffer := bufio.NewWriterSize(w, 1<<16)
	r := &packetRows{buffer: buffer, csv: csv.NewWriter(buffer), plan: plan, row: make([]string, len(packetsHeader))}
	return r, r.csv.Write(packetsHeader)
}

// write appends a packet's row. What is not known of it stays empty.
func (r *packetRows) write(s *pcaptest.Step) error {
	row := r.row
	clear(row)
	out := &s.Outcome
	row[0] = strconv.FormatInt(s.Packet.Number, 10)
	row[1] = strconv.FormatUint(s.Packet.Time, 10)
	row[2], row[3], row[4] = "-", "-", "0"
	row[7] = verdictName(out.Dropped)
	if out.Kind == marker.Metered {
		row[2] = r.className(out.Class)
		row[4] = strconv.FormatUint(out.Cost, 10)
		row[5], row[6] = out.Arrival.String(), out.Color.String()
	}
	if s.Bucket != nil {
		row[10] = strconv.FormatUint(s.Bucket.Bucket.Tc, 10)
		row[11] = strconv.FormatUint(s.Bucket.Bucket.Tx, 10)
	}
	switch {
	case s.Frame == nil: // a trace's row
		row[2] = r.plan.Classes[0].Name
	case s.Seen.IP:
		row[3] = s.Seen.Flow.String()
		row[8] = strconv.Itoa(int(s.Seen.DSCP))
		row[9] = row[8]
		if !out.Dropped {
			row[9] = strconv.Itoa(int(marker.See(s.Frame).DSCP))
		}
	}
	return r.csv.Write(row)
}

func (r *packetRows) className(class uint16) string {
	if int(class) < len(r.plan.Classes) {
		return r.plan.Classes[class].Name
	}
	return "-"
}

func (r *packetRows) flush() error {
	r.csv.Flush()
	if err := r.csv.Error(); err != nil {
		return err
	}
	return r.buffer.Flush()
}

func verdictName(dropped bool) string {
	if dropped {
		return "drop"
	}
	return "pass"
}
