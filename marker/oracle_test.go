package marker_test

import (
	"bytes"
	"flag"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"testing"

	"github.com/tricolor-policer/tricolor/internal/vectors"
	"github.com/tricolor-policer/tricolor/marker"
	"pgregory.net/rapid"
)

// oracle is a meter in unbounded fractions of bytes and seconds, written from the RFCs: no
// nanobytes, no time to fill, no product that must fit. It is slow and cannot overflow.
type oracle struct {
	params marker.Params
	c, x   *big.Rat // bytes in C, and in E or P
	time   uint64   // ns: the latest so far
	used   bool
}

// judge gives the packet's colour and spends what it spends.
func (o *oracle) judge(a arrival) marker.Color {
	o.refill(a.now)
	in, bytes := a.in, whole(a.bytes)
	if !o.params.Aware {
		in = marker.Green
	}
	inC, inX := o.c.Cmp(bytes) >= 0, o.x.Cmp(bytes) >= 0
	switch o.params.Meter {
	case marker.Token:
		if in == marker.Green && inC {
			o.c.Sub(o.c, bytes)
			return marker.Green
		}
	case marker.TRTCM: // RFC 2698 section 3: red first
		switch {
		case in == marker.Red || !inX:
		case in == marker.Yellow || !inC:
			o.x.Sub(o.x, bytes)
			return marker.Yellow
		default:
			o.x.Sub(o.x, bytes)
			o.c.Sub(o.c, bytes)
			return marker.Green
		}
	default: // RFC 2697 section 3, RFC 4115 section 3: green first
		switch {
		case in == marker.Green && inC:
			o.c.Sub(o.c, bytes)
			return marker.Green
		case in != marker.Red && inX:
			o.x.Sub(o.x, bytes)
			return marker.Yellow
		}
	}
	return marker.Red
}

func (o *oracle) refill(now uint64) {
	p := o.params
	cbs, xbs := whole(p.CBS), whole(p.EBS+p.PBS)
	if !o.used {
		o.used, o.time, o.c, o.x = true, now, cbs, xbs
		return
	}
	if now <= o.time {
		return
	}
	seconds := new(big.Rat).SetFrac(new(big.Int).SetUint64(now-o.time), big.NewInt(1e9))
	o.time = now
	spill := pour(o.c, cbs, seconds, p.CIR)
	switch p.Meter {
	case marker.Token:
	case marker.SRTCM:
		pourBytes(o.x, xbs, spill)
	case marker.TRTCM:
		pour(o.x, xbs, seconds, p.PIR)
	case marker.RFC4115:
		pour(o.x, xbs, seconds, p.EIR)
		if p.Coupling {
			pourBytes(o.x, xbs, spill)
		}
	}
}

// nanobytes returns the tokens, and whether they are whole numbers, as they always should be.
func (o *oracle) nanobytes() (tc, tx uint64, whole bool) {
	c := new(big.Rat).Mul(o.c, big.NewRat(1e9, 1))
	x := new(big.Rat).Mul(o.x, big.NewRat(1e9, 1))
	return c.Num().Uint64(), x.Num().Uint64(), c.IsInt() && x.IsInt() && c.Num().IsUint64() && x.Num().IsUint64()
}

func whole(n uint64) *big.Rat { return new(big.Rat).SetInt(new(big.Int).SetUint64(n)) }

// pour adds what rate earns in that time to a bucket, and returns what it could not hold.
func pour(bucket, burst, seconds *big.Rat, rate uint64) (spill *big.Rat) {
	return pourBytes(bucket, burst, new(big.Rat).Mul(seconds, whole(rate)))
}

func pourBytes(bucket, burst, amount *big.Rat) (spill *big.Rat) {
	bucket.Add(bucket, amount)
	spill = new(big.Rat).Sub(bucket, burst)
	if spill.Sign() <= 0 {
		return new(big.Rat)
	}
	bucket.Set(burst)
	return spill
}

// agreesWithOracle runs the trace through both: every colour and every token count.
func agreesWithOracle(m machine, tr trace) error {
	o := oracle{params: tr.params}
	return m.run(tr, func(s step) error {
		want := o.judge(s.arrival)
		tc, tx, exact := o.nanobytes()
		if !exact {
			return fmt.Errorf("the oracle holds %v and %v bytes: no whole nanobytes", o.c, o.x)
		}
		if s.color != want || s.after.Tc != tc || s.after.Tx != tx || s.after.Last != o.time {
			return fmt.Errorf("%v, tokens %d and %d at %d; the oracle says %v, %d and %d at %d",
				s.color, s.after.Tc, s.after.Tx, s.after.Last, want, tc, tx, o.time)
		}
		return nil
	})
}

func TestMeterAgreesWithOracle(t *testing.T) {
	for _, meter := range meterTypes {
		t.Run(meter.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				tr := genTrace(fromRapid(t), meter, widest)
				if err := agreesWithOracle(shipped, tr); err != nil {
					t.Fatalf("%v\n%v", err, tr)
				}
			})
		})
	}
}

var update = flag.Bool("update", false, "write testdata/vectors/oracle.json anew")

// TestOracleVectors holds oracle.json to what the oracle says; with -update it writes it.
func TestOracleVectors(t *testing.T) {
	var want bytes.Buffer
	if err := vectors.Encode(&want, oracleCases(t)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(vectors.Dir(t), "oracle.json")
	if *update {
		if err := os.WriteFile(path, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want.Bytes()) {
		t.Errorf("%s is not what the oracle says: run go test ./marker -run %s -update and look at what changed",
			filepath.Base(path), t.Name())
	}
}

// oracleCases makes cases of packets that fit the kernel's path too: up to 65,535 bytes, and time
// stamps that a signed 64-bit number holds. Most are rfc4115, of which the other files hold few.
func oracleCases(t *testing.T) []vectors.Case {
	t.Helper()
	kernel := shape{packets: 30, bytes: 65535, gap: 1 << 56}
	var out []vectors.Case
	for _, set := range []struct {
		meter marker.MeterType
		cases uint64
	}{{marker.Token, 24}, {marker.SRTCM, 24}, {marker.TRTCM, 24}, {marker.RFC4115, 208}} {
		for i := range set.cases {
			tr := genTrace(fromSeed(4115+uint64(set.meter), i), set.meter, kernel)
			out = append(out, oracleCase(t, fmt.Sprintf("oracle-%v-%03d", set.meter, i), tr))
		}
	}
	return out
}

func oracleCase(t *testing.T, name string, tr trace) vectors.Case {
	t.Helper()
	p := tr.params
	c := vectors.Case{Name: name, Why: "seeded, from the exact model", Meter: vectors.Meter{
		Type: p.Meter.String(), Mode: map[bool]string{false: "blind", true: "aware"}[p.Aware],
		CIR: p.CIR, CBS: p.CBS, PIR: p.PIR, PBS: p.PBS, EIR: p.EIR, EBS: p.EBS, Coupling: p.Coupling,
	}}
	o := oracle{params: p}
	for _, a := range tr.packets {
		color := o.judge(a)
		tc, tx, exact := o.nanobytes()
		if !exact {
			t.Fatalf("%s: the oracle holds %v and %v bytes: no whole nanobytes", name, o.c, o.x)
		}
		row := vectors.Row{T: a.now, Len: a.bytes, In: a.in.String(), Out: color.String(), Tc: &tc}
		switch p.Meter {
		case marker.Token:
		case marker.TRTCM:
			row.Tp = &tx
		default:
			row.Te = &tx
		}
		c.Packets = append(c.Packets, row)
	}
	return c
}
