package marker_test

import (
	"fmt"
	"testing"

	"github.com/tricolor-policer/tricolor/internal/vectors"
	"github.com/tricolor-policer/tricolor/marker"
)

// vectorRows is how many rows each file holds, so that none can go unread.
var vectorRows = map[string]int{"named": 5555, "random": 8000, "peers": 60, "oracle": 5033}

func TestVectors(t *testing.T) {
	checked := map[string]int{}
	for _, f := range vectors.Load(t) {
		for _, c := range f.Cases {
			t.Run(f.Name+"/"+c.Name, func(t *testing.T) {
				rows, err := holdsVector(shipped, c)
				if err != nil {
					t.Errorf("%v\nwhy: %s", err, c.Why)
				}
				checked[f.Name] += rows
			})
		}
	}
	for name, want := range vectorRows {
		if checked[name] != want {
			t.Errorf("%s.json: %d rows checked, want %d", name, checked[name], want)
		}
		delete(checked, name)
	}
	if len(checked) > 0 {
		t.Errorf("files nobody counted: %v", checked)
	}
}

// holdsVector compares colour and tokens of every row, and returns how many held.
func holdsVector(m machine, c vectors.Case) (rows int, err error) {
	tr, err := traceOf(c)
	if err != nil {
		return 0, err
	}
	err = m.run(tr, func(s step) error {
		row := c.Packets[rows]
		tc, tx := row.Tokens()
		if s.color.String() != row.Out || s.after.Tc != tc || s.after.Tx != tx {
			return fmt.Errorf("%v, tokens %d and %d; want %s, %d and %d",
				s.color, s.after.Tc, s.after.Tx, row.Out, tc, tx)
		}
		rows++
		return nil
	})
	return rows, err
}

func traceOf(c vectors.Case) (trace, error) {
	meter, err := marker.ParseMeterType(c.Meter.Type)
	if err != nil {
		return trace{}, err
	}
	tr := trace{params: marker.Params{
		Meter: meter, Aware: c.Meter.Mode == "aware", Coupling: c.Meter.Coupling,
		CIR: c.Meter.CIR, CBS: c.Meter.CBS, PIR: c.Meter.PIR, PBS: c.Meter.PBS,
		EIR: c.Meter.EIR, EBS: c.Meter.EBS,
	}}
	for _, row := range c.Packets {
		in, err := marker.ParseColor(row.In)
		if err != nil {
			return trace{}, err
		}
		tr.packets = append(tr.packets, arrival{row.T, row.Len, in})
	}
	return tr, nil
}
