package record

import (
	"bytes"
	"errors"
	"io"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var testPolicy = Policy{
	Generation: 7, Since: 5,
	Classes:  []Class{{Name: "gold", Count: "l3", Meters: []string{"flow", "class"}}},
	Profiles: []Profile{{Name: "a", Meter: "srtcm", CIR: 1, CBS: math.MaxUint64}, {Name: "b", Meter: "trtcm", CIR: 1, XIR: 2}},
}

// failer is a test, rapid's too.
type failer interface {
	Helper()
	Fatal(args ...any)
}

// file writes records, all of one policy and of three keys, whole.
func file(tb failer, records []Record) []byte {
	tb.Helper()
	var b bytes.Buffer
	w, err := NewWriter(&b, &Header{Device: "eth0", Sample: 1})
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := w.Policy(&testPolicy); err != nil {
		tb.Fatal(err)
	}
	for _, name := range []string{"x", "y", "overflow"} {
		if _, err := w.Key(name); err != nil {
			tb.Fatal(err)
		}
	}
	for i := range records {
		if err := w.Record(&records[i]); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Lost(9, 4); err != nil {
		tb.Fatal(err)
	}
	if _, err := w.End(End{Time: 10, Reason: "asked", Lost: 5}); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// read reads a file to its end.
func read(data []byte) (*Reader, []Record, error) {
	r, err := NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, nil, err
	}
	var all []Record
	for {
		var one Record
		if err := r.Next(&one); err != nil {
			return r, all, err
		}
		all = append(all, one)
	}
}

func drawRecord(t *rapid.T) Record {
	r := Record{
		Time: rapid.Uint64Max(1<<62).Draw(t, "time"), Cost: rapid.Uint64Max(math.MaxUint64/1_000_000_000).Draw(t, "cost"),
		Packets: rapid.Uint32().Draw(t, "packets"),
		Arrival: Color(rapid.IntRange(0, 2).Draw(t, "arrival")), Color: Color(rapid.IntRange(0, 2).Draw(t, "color")),
		Chain: rapid.IntRange(0, MaxChain).Draw(t, "chain"),
	}
	for i := range r.Chain {
		m := &r.Meters[i]
		m.Key, m.Color = rapid.Uint32Max(1).Draw(t, "key"), Color(rapid.IntRange(0, 2).Draw(t, "by it"))
		m.Time = r.Time + rapid.Uint64Max(1<<40).Draw(t, "later")
		m.Profile, m.C, m.X = rapid.Uint32Max(1).Draw(t, "profile"), rapid.Uint64().Draw(t, "C"), rapid.Uint64().Draw(t, "X")
		if m.Overflow = rapid.Bool().Draw(t, "overflow"); m.Overflow {
			m.Shared = 2
		}
	}
	return r
}

// What was written is read again; one out of order is marked.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		records := rapid.SliceOfN(rapid.Custom(drawRecord), 0, 20).Draw(t, "records")
		r, got, err := read(file(t, records))
		if err != io.EOF {
			t.Fatal(err)
		}
		late, last := uint64(0), uint64(0)
		for i := range records { // Record has marked them
			if records[i].Late != (records[i].Time < last) {
				t.Fatalf("record %d late: %t", i, records[i].Late)
			}
			if last = records[i].Time; records[i].Late {
				late++
			}
		}
		if diff := cmp.Diff(records, got); diff != "" && len(records) > 0 {
			t.Errorf("records (-written +read):\n%s", diff)
		}
		if diff := cmp.Diff([]Policy{testPolicy}, r.Policies); diff != "" {
			t.Errorf("policies (-written +read):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"x", "y", "overflow"}, r.Keys); diff != "" {
			t.Errorf("keys (-written +read):\n%s", diff)
		}
		if r.Lost != 5 || r.End == nil || r.End.Records != uint64(len(records)) || r.End.Late != late || r.Header.Device != "eth0" {
			t.Errorf("lost %d, end %+v, header %+v", r.Lost, r.End, r.Header)
		}
	})
}

// Every byte counts: cut anywhere, a file is cut short; with a byte changed, it is refused.
func TestDamage(t *testing.T) {
	data := file(t, []Record{
		{Time: 100, Cost: 3, Packets: 1, Chain: 1, Meters: [MaxChain]Meter{{Key: 1, Time: 100, C: 1 << 40}}},
		{Time: 200, Cost: 3, Packets: 1, Color: Red},
	})
	for n := len(magic); n < len(data); n++ {
		if _, _, err := read(data[:n]); !errors.Is(err, ErrCut) {
			t.Errorf("cut at %d of %d: %v", n, len(data), err)
		}
	}
	for n := range data {
		wrong := bytes.Clone(data)
		wrong[n] ^= 1
		_, _, err := read(wrong)
		if errors.Is(err, io.EOF) && !bytes.Contains(wrong[max(n-200, 0):], []byte(`"crc32c"`)) {
			t.Errorf("byte %d changed, and read to the end", n)
		}
	}
	if _, _, err := read(append(bytes.Clone(data), 'x')); !errors.Is(err, ErrFile) {
		t.Errorf("a byte behind the end: %v", err)
	}
}

// A key of the file is bounded, and so is what a length claims.
func TestBounds(t *testing.T) {
	for _, c := range []struct {
		what string
		item []byte
	}{
		{"a record of 300 bytes", append([]byte{itemRecord, 0xac, 2}, make([]byte, 300)...)},
		{"a policy of 2^40 bytes", []byte{itemPolicy, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20}},
		{"a length without end", append([]byte{itemKey}, bytes.Repeat([]byte{0xff}, 12)...)},
		{"an unknown item", []byte{'Z', 0}},
		{"a record of no policy", []byte{itemRecord, 6, 0, 0, 0, 0, 0, 2}},
	} {
		var b bytes.Buffer
		w, err := NewWriter(&b, &Header{})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		if _, _, err := read(append(b.Bytes(), c.item...)); !errors.Is(err, ErrFile) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

// Whatever the bytes, reading ends, with an error that says so; what was read keeps its bounds.
func FuzzRecord(f *testing.F) {
	f.Add(file(f, []Record{
		{Time: 100, Cost: 3, Packets: 1, Chain: 2, Color: Yellow, Meters: [MaxChain]Meter{{Key: 1, Time: 100, C: 1}, {Color: Yellow, Time: 130, Overflow: true, Shared: 2, X: 5}}},
		{Time: 200, Cost: 3, Packets: 1, Color: Red},
		{Time: 150, Cost: 3, Packets: 1, Color: Red},
	}))
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, all, err := read(data)
		if !errors.Is(err, io.EOF) && !errors.Is(err, ErrFile) && !errors.Is(err, ErrCut) {
			t.Fatal(err)
		}
		for _, one := range all {
			if int(one.Policy) >= len(r.Policies) || int(one.Class) >= len(r.Policies[one.Policy].Classes) || one.Color > Red || one.Chain > MaxChain {
				t.Fatalf("read %+v", one)
			}
			for _, m := range one.Meters[:one.Chain] {
				if int(m.Key) >= len(r.Keys) || int(m.Policy) >= len(r.Policies) || int(m.Profile) >= len(r.Policies[m.Policy].Profiles) || m.Color > Red {
					t.Fatalf("read %+v", one)
				}
			}
		}
	})
}
