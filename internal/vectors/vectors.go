// Package vectors reads and writes testdata/vectors: what a right meter answers, packet by packet.
// It knows no meter, so that the tests of the mirror and of the kernel can both use it.
package vectors

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tricolor-policer/tricolor/internal/testutils"
)

// Case is one meter and the packets it judges, in order. Its buckets are full at the first packet's
// time.
type Case struct {
	Name    string `json:"name"`
	Why     string `json:"why"`
	Meter   Meter  `json:"meter"`
	Packets []Row  `json:"packets"`
}

// Meter is a meter's parameters: rates in bytes per second, bursts in bytes. One left out is 0.
type Meter struct {
	Type     string `json:"type"` // token, srtcm, trtcm or rfc4115
	Mode     string `json:"mode"` // blind or aware
	CIR      uint64 `json:"cir"`
	CBS      uint64 `json:"cbs"`
	PIR      uint64 `json:"pir,omitempty"`
	PBS      uint64 `json:"pbs,omitempty"`
	EIR      uint64 `json:"eir,omitempty"`
	EBS      uint64 `json:"ebs,omitempty"`
	Coupling bool   `json:"coupling,omitempty"`
}

// Row is one packet, its colour and the tokens left after it.
type Row struct {
	T   uint64  `json:"t"`            // ns
	Len uint64  `json:"len"`          // bytes: the packet's whole cost
	In  string  `json:"in"`           // colour on arrival: green, yellow or red
	Out string  `json:"out"`          // colour after metering
	Tc  *uint64 `json:"tc"`           // nanobytes; never nil once read
	Te  *uint64 `json:"te,omitempty"` // nanobytes; srtcm and rfc4115 alone
	Tp  *uint64 `json:"tp,omitempty"` // nanobytes; trtcm alone
}

// Tokens returns what is left in the first bucket (C) and in the second (E or P; 0 where there is
// none), in nanobytes.
func (r Row) Tokens() (tc, tx uint64) {
	switch {
	case r.Te != nil:
		tx = *r.Te
	case r.Tp != nil:
		tx = *r.Tp
	}
	return *r.Tc, tx
}

// File is the cases of one file.
type File struct {
	Name  string // without folder and .json
	Cases []Case
}

// Rows is how many packets the file's cases hold.
func (f File) Rows() int {
	n := 0
	for _, c := range f.Cases {
		n += len(c.Packets)
	}
	return n
}

// Dir returns the absolute path of testdata/vectors.
func Dir(t testing.TB) string {
	t.Helper()
	return filepath.Join(testutils.ModuleRoot(t), "testdata", "vectors")
}

// Load reads every file of testdata/vectors, sorted by name. It fails t where there is none, or one
// cannot be read.
func Load(t testing.TB) []File {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(Dir(t), "*.json"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no vectors in %s (%v)", Dir(t), err)
	}
	files := make([]File, 0, len(paths))
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatalf("reading vectors: %v", err)
		}
		cases, err := Decode(bytes.NewReader(data))
		if err != nil {
			t.Fatalf("reading vectors: %s: %v", filepath.Base(path), err)
		}
		files = append(files, File{strings.TrimSuffix(filepath.Base(path), ".json"), cases})
	}
	return files
}

// Decode reads one file's cases. A field it does not know, anything after the array, two cases of
// one name, and what is no case (no packets, no such meter or colour, a token count missing or not
// the meter's) is an error, which names the case and the packet, counted from 1.
func Decode(r io.Reader) ([]Case, error) {
	dec := json.NewDecoder(r)
	dec.DisallowUnknownFields()
	var cases []Case
	if err := dec.Decode(&cases); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more after the array of cases")
	}
	seen := make(map[string]bool, len(cases))
	for _, c := range cases {
		if seen[c.Name] {
			return nil, fmt.Errorf("two cases are named %q", c.Name)
		}
		seen[c.Name] = true
		if err := c.check(); err != nil {
			return nil, fmt.Errorf("case %q: %w", c.Name, err)
		}
	}
	return cases, nil
}

// Encode writes cases as Decode reads them, one a line.
func Encode(w io.Writer, cases []Case) error {
	var out bytes.Buffer
	out.WriteString("[")
	for i, c := range cases {
		if i > 0 {
			out.WriteString(",")
		}
		line, err := json.Marshal(c)
		if err != nil {
			return fmt.Errorf("case %q: %w", c.Name, err)
		}
		out.WriteString("\n")
		out.Write(line)
	}
	out.WriteString("\n]\n")
	_, err := w.Write(out.Bytes())
	return err
}

func (c Case) check() error {
	if c.Name == "" {
		return errors.New("it has no name")
	}
	if len(c.Packets) == 0 {
		return errors.New("it has no packets")
	}
	if c.Meter.Mode != "blind" && c.Meter.Mode != "aware" {
		return fmt.Errorf("mode %q: say blind or aware", c.Meter.Mode)
	}
	second, known := map[string]string{"token": "", "srtcm": "te", "rfc4115": "te", "trtcm": "tp"}[c.Meter.Type]
	if !known {
		return fmt.Errorf("type %q: say token, srtcm, trtcm or rfc4115", c.Meter.Type)
	}
	for i, r := range c.Packets {
		switch {
		case !isColor(r.In) || !isColor(r.Out):
			return fmt.Errorf("packet %d: in %q, out %q: say green, yellow or red", i+1, r.In, r.Out)
		case r.Tc == nil:
			return fmt.Errorf("packet %d: tc is missing", i+1)
		case (r.Te != nil) != (second == "te") || (r.Tp != nil) != (second == "tp"):
			return fmt.Errorf("packet %d: beside tc, %s has %s", i+1, c.Meter.Type, cmp.Or(second, "nothing"))
		}
	}
	return nil
}

func isColor(s string) bool { return s == "green" || s == "yellow" || s == "red" }
