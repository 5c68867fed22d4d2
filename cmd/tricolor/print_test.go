package main

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/tricolor-policer/tricolor/loader"
	"github.com/tricolor-policer/tricolor/policy"
)

func TestExitCode(t *testing.T) {
	for _, test := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("anything"), 1},
		{errReported, 1},
		{loader.ErrAttached, 1},
		{loader.ErrDeviceType, 1},
		{usage("wrong"), 2},
		{policy.ErrPolicy, 2},
		{loader.ErrPrivilege, 3},
		{loader.ErrKernel, 3},
		{loader.ErrBPFFS, 3},
		{loader.ErrNoDevice, 4},
		{loader.ErrNotAttached, 4},
	} {
		if got := exitCode(test.err); got != test.want {
			t.Errorf("exitCode(%v) = %d, want %d", test.err, got, test.want)
		}
		if test.err == nil {
			continue
		}
		wrapped := errors.Join(fmt.Errorf("on d0: %w", test.err))
		if got := exitCode(wrapped); got != test.want {
			t.Errorf("exitCode(%v), wrapped, = %d, want %d", test.err, got, test.want)
		}
	}
}

func TestPrintable(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"video.pcap", "video.pcap"},
		{"Überwachung 監視.pcap", "Überwachung 監視.pcap"},
		{"\x1b[2J.pcap", `\x1b[2J.pcap`},
		{"a\nb\tc", `a\nb\tc`},
		{"\u202egnp.exe", `\u202egnp.exe`}, // right to left
		{"\xff\xfe", `\xff\xfe`},
		{"\ufffd", "\ufffd"},
		{`it's "q" \n`, `it's "q" \n`},
	} {
		got := printable(test.in)
		if got != test.want {
			t.Errorf("printable(%q) = %s, want %s", test.in, got, test.want)
		}
		if twice := printable(got); twice != got {
			t.Errorf("printable(%q) twice = %s", test.in, twice)
		}
	}
}

// TestErrorsMoveNoCursor: a file's name comes back from the libraries within their errors.
func TestErrorsMoveNoCursor(t *testing.T) {
	for _, command := range []string{"replay", "verify"} {
		var stdout, stderr bytes.Buffer
		run([]string{command, "\x1b[2Jx", "\x1b[3Jy", "--meter", "token", "--cir", "1mbit", "--cbs", "1kB"}, &stdout, &stderr)
		if out := stdout.String() + stderr.String(); strings.Contains(out, "\x1b") {
			t.Errorf("%s prints an escape: %q", command, out)
		}
	}
}

func TestShare(t *testing.T) {
	for _, test := range []struct {
		part, whole uint64
		want        string
	}{
		{0, 0, "0.0 %"},
		{0, 10, "0.0 %"},
		{10, 10, "100.0 %"},
		{1, 3, "33.3 %"},
		{2, 3, "66.7 %"},
		{1, 1_000_000, "< 0.1 %"},
		{999_999, 1_000_000, "> 99.9 %"},
		{math.MaxUint64 / 2, math.MaxUint64, "50.0 %"},
		{math.MaxUint64, math.MaxUint64, "100.0 %"},
	} {
		if got := share(test.part, test.whole); got != test.want {
			t.Errorf("share(%d, %d) = %s, want %s", test.part, test.whole, got, test.want)
		}
	}
}

func TestDuration(t *testing.T) {
	for _, test := range []struct {
		ns   uint64
		want string
	}{
		{0, "0 ns"},
		{999, "999 ns"},
		{1_050, "1.050 us"},
		{804_603, "804.603 us"},
		{1_000_000, "1.000 ms"},
		{26_342_925_000, "26.342 s"},
		{69_050_775_000, "1 min 9.050 s"},
		{3_600_000_000_000, "1 h 0 min"},
		{86_400_000_000_000, "1 day 0 h"},
		{math.MaxUint64, "213,503 days 23 h"},
	} {
		if got := duration(test.ns); got != test.want {
			t.Errorf("duration(%d) = %s, want %s", test.ns, got, test.want)
		}
	}
}

func TestPlain(t *testing.T) {
	for _, test := range []struct {
		word string
		want plain
		ok   bool
	}{
		{"0", 0, true}, {"10", 10, true}, {"18446744073709551615", math.MaxUint64, true},
		{"18446744073709551616", 0, false}, {"010", 0, false}, {"00", 0, false}, {"0x10", 0, false},
		{"1k", 0, false}, {"-1", 0, false}, {"", 0, false}, {" 1", 0, false}, {"1_000", 0, false},
	} {
		var n plain
		if err := n.Set(test.word); (err == nil) != test.ok || n != test.want {
			t.Errorf("%q gives %d, %v; want %d, accepted %t", test.word, n, err, test.want, test.ok)
		}
	}
}
