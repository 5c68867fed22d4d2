package capture

import (
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func readTrace(t *testing.T, content []byte) ([]TraceRow, error) {
	t.Helper()
	trace, err := OpenTrace(writeFile(t, "t.csv", content))
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	var rows []TraceRow
	for {
		var row TraceRow
		if err := trace.Next(&row); err != nil {
			if again := trace.Next(&row); again != err {
				t.Errorf("the error %v is followed by %v", err, again)
			}
			return rows, err
		}
		rows = append(rows, row)
	}
}

func TestTrace(t *testing.T) {
	text := "\ufeff# made by hand\r\n\n time_ns, bytes, color\n" +
		"0,1500\n1000 , 64 , yellow\r\n\n# pause\n18446744073709551615,18446744073,red\n7,0,green"
	want := []TraceRow{
		{4, 0, 1500, Green}, {5, 1000, 64, Yellow}, {8, math.MaxUint64, 18_446_744_073, Red}, {9, 7, 0, Green},
	}
	for name, content := range map[string][]byte{"plain": []byte(text), "gzipped": zip(t, []byte(text))} {
		rows, err := readTrace(t, content)
		if err != io.EOF {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, rows); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	// More than a window, so that lines lie across its edge.
	long := strings.Repeat("123456789,1234567\n", 100_000)
	if rows, err := readTrace(t, []byte(long)); err != io.EOF || len(rows) != 100_000 || rows[99_999] != (TraceRow{100_000, 123456789, 1234567, Green}) {
		t.Errorf("%d rows of 100000, %v", len(rows), err)
	}
	comment := "#" + strings.Repeat("x", maxLine-2) + "\n"
	if rows, err := readTrace(t, []byte(comment+"1,2\n")); err != io.EOF || len(rows) != 1 {
		t.Errorf("behind a line of %d bytes: %d rows, %v", maxLine, len(rows), err)
	}
}

func TestTraceRefuses(t *testing.T) {
	for text, words := range map[string]string{
		"1,2\nx,2\n":                            `t.csv:2: |"x"`,
		"1\n":                                   `t.csv:1: |"1"`,
		"1,\n":                                  "not a whole number of bytes",
		"-1,2\n":                                `"-1"`,
		"1,2.5\n":                               `"2.5"`,
		"18446744073709551616,1\n":              "t.csv:1: |2^64",
		"1,18446744074\n":                       "t.csv:1: |18446744073",
		"1,2,blue\n":                            `"blue"`,
		"1,2,red,4\n":                           `"red,4"`,
		"1,2\ntime_ns,bytes\n":                  "t.csv:2: ",
		"time_ns,bytes\ntime_ns,bytes\n":        "t.csv:2: ",
		"1,2\n" + strings.Repeat("1", 1<<20):    "t.csv:2: |65536",
		"1,2\n#" + strings.Repeat("1", maxLine): "t.csv:2: |65536",
	} {
		_, err := readTrace(t, []byte(text))
		if !errors.Is(err, ErrDamaged) {
			t.Errorf("%.30q: %v", text, err)
			continue
		}
		for _, word := range strings.Split(words, "|") {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%.30q: error %q does not say %q", text, err, word)
			}
		}
	}
	zipped := zip(t, []byte(strings.Repeat("1,2\n", 1000)))
	_, err := readTrace(t, zipped[:len(zipped)-9])
	var cut *CutError
	if !errors.As(err, &cut) {
		t.Errorf("cut gzip: %v", err)
	}
}
