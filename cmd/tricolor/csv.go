package main

import (
	"bufio"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"

	"github.com/tricolor-policer/tricolor/marker"
	"github.com/tricolor-policer/tricolor/pcaptest"
)

// packetsHeader names the columns of --packets. bytes is the packet's cost in the unit that is counted;
// tokens are nanobytes after the packet, and te_nb holds trtcm's Tp. A packet that was not metered costs 0.
// Where a policy has chains, tc_nb_2, te_nb_2 and so on are of the later meters.
var packetsHeader = []string{
	"packet", "time_ns", "class", "flow", "bytes", "in_color", "color", "verdict", "dscp_in", "dscp_out", "tc_nb", "te_nb",
}

// packetRows writes one CSV row a packet.
type packetRows struct {
	buffer *bufio.Writer
	csv    *csv.Writer
	row    []string
}

// newPacketRows begins the file; chain is the longest chain of the policies.
func newPacketRows(w io.Writer, chain int) (*packetRows, error) {
	header := packetsHeader
	for meter := 2; meter <= chain; meter++ {
		header = append(header, fmt.Sprintf("tc_nb_%d", meter), fmt.Sprintf("te_nb_%d", meter))
	}
	buffer := bufio.NewWriterSize(w, 1<<16)
	r := &packetRows{buffer: buffer, csv: csv.NewWriter(buffer), row: make([]string, len(header))}
	return r, r.csv.Write(header)
}

// longestChain is how many meters the plans' longest chain has.
func longestChain(plans []*marker.Plan) (n int) {
	for _, plan := range plans {
		for i := range plan.Classes {
			n = max(n, len(plan.Classes[i].Meters))
		}
	}
	return n
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
		row[2] = className(s.Plan, out.Class)
		row[4] = strconv.FormatUint(out.Cost, 10)
		row[5], row[6] = out.Arrival.String(), out.Color.String()
	}
	for i, slot := range s.Buckets {
		if slot != nil {
			row[10+2*i] = strconv.FormatUint(slot.Bucket.Tc, 10)
			row[11+2*i] = strconv.FormatUint(slot.Bucket.Tx, 10)
		}
	}
	switch {
	case s.Frame == nil: // a trace's row
		row[2] = s.Plan.Classes[0].Name
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

func className(plan *marker.Plan, class uint16) string {
	if int(class) < len(plan.Classes) {
		return plan.Classes[class].Name
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
