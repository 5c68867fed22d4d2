package vectors

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const good = `[{"name":"a","why":"w","meter":{"type":"srtcm","mode":"blind","cir":1,"cbs":2,"ebs":3},
	"packets":[{"t":7,"len":2,"in":"green","out":"green","tc":0,"te":3000000000}]}]`

func TestDecode(t *testing.T) {
	cases, err := Decode(strings.NewReader(good))
	if err != nil {
		t.Fatal(err)
	}
	tc, te := uint64(0), uint64(3_000_000_000)
	want := []Case{{
		Name: "a", Why: "w", Meter: Meter{Type: "srtcm", Mode: "blind", CIR: 1, CBS: 2, EBS: 3},
		Packets: []Row{{T: 7, Len: 2, In: "green", Out: "green", Tc: &tc, Te: &te}},
	}}
	if diff := cmp.Diff(want, cases); diff != "" {
		t.Error(diff)
	}
	if c, x := cases[0].Packets[0].Tokens(); c != tc || x != te {
		t.Errorf("tokens: %d and %d, want %d and %d", c, x, tc, te)
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, c := range []struct{ name, old, new, want string }{
		{"unknown field of a case", `"why"`, `"wy"`, "unknown field"},
		{"unknown field of a meter", `"ebs"`, `"esb"`, "unknown field"},
		{"unknown field of a packet", `"len"`, `"length"`, "unknown field"},
		{"a fraction", `"t":7`, `"t":7.5`, "7.5"},
		{"a negative length", `"len":2`, `"len":-2`, "-2"},
		{"no name", `"name":"a"`, `"name":""`, "no name"},
		{"no packets", `"packets":[{"t":7,"len":2,"in":"green","out":"green","tc":0,"te":3000000000}]`, `"packets":[]`, "no packets"},
		{"no such mode", "blind", "blnd", `mode "blnd"`},
		{"no such meter", `"srtcm"`, `"srtm"`, `type "srtm"`},
		{"no such colour", `"out":"green"`, `"out":"gren"`, `out "gren"`},
		{"no tc", `"tc":0,`, ``, "packet 1: tc is missing"},
		{"no te", `,"te":3000000000`, ``, "srtcm has te"},
		{"the other meter's bucket", `"te"`, `"tp"`, "srtcm has te"},
		{"a bucket too many", `"srtcm"`, `"token"`, "token has nothing"},
		{"more than an array", `}]}]`, `}]}] []`, "more after"},
		{"one name twice", good, good[:len(good)-1] + "," + good[1:], `two cases are named "a"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			bad := strings.Replace(good, c.old, c.new, 1)
			if bad == good {
				t.Fatal("nothing replaced")
			}
			cases, err := Decode(strings.NewReader(bad))
			if err == nil {
				t.Fatalf("taken: %+v", cases)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%q does not say %q", err, c.want)
			}
		})
	}
}

func TestEncodeIsReadBack(t *testing.T) {
	for _, f := range Load(t) {
		var out bytes.Buffer
		if err := Encode(&out, f.Cases); err != nil {
			t.Fatal(err)
		}
		back, err := Decode(&out)
		if err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		if diff := cmp.Diff(f.Cases, back); diff != "" {
			t.Errorf("%s: %s", f.Name, diff)
		}
	}
}
