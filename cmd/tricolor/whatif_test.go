package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/tricolor-policer/tricolor/internal/browsertest"
	"github.com/tricolor-policer/tricolor/internal/testutils"
)

func policyFile(t *testing.T, name string) string {
	return filepath.Join(testutils.ModuleRoot(t), "testdata", "policies", name)
}

// policyOf writes a policy of one class per source, with a meter.
func policyOf(t *testing.T, meter string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policy.yaml")
	text := "version: 1\nflows: 1k\nprofiles: { p: { meter: " + meter + " } }\nclasses: [ { name: all, meters: [ { profile: p, per: src } ] } ]\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func whatIfReport(t *testing.T, args ...string) (report whatReport) {
	t.Helper()
	if err := json.Unmarshal(runs(t, append([]string{"whatif", "-o", "json", "--top", "1000000"}, args...)...), &report); err != nil {
		t.Fatal(err)
	}
	return report
}

// red is what is as bad as red.
func (s *whatSideJSON) red() uint64 { return s.Red.Packets + s.Malformed.Packets }

func (s *whatSideJSON) total() countJSON {
	var sum countJSON
	for _, c := range []countJSON{s.Green, s.Yellow, s.Red, s.NotPoliced, s.Malformed} {
		sum.Packets += c.Packets
		sum.Bytes += c.Bytes
	}
	return sum
}

// The columns are what replay counts under each policy; each packet is counted once; and what is newly red and red no
// more is the difference of what is red.
func TestWhatIfAgreesWithReplay(t *testing.T) {
	dir := filepath.Join(testutils.ModuleRoot(t), "testdata", "captures")
	for _, name := range []string{ntpCapture, "11-zeek-ipv6-http-atomic-frag.pcap", "10-pcapng-suite-be-test102.pcapng", "zeek__linux_dlt_sll2.pcap"} {
		file := filepath.Join(dir, name)
		report := whatIfReport(t, policyFile(t, "chains.yaml"), policyFile(t, "aware.yaml"), file)
		for side, p := range []string{"chains.yaml", "aware.yaml"} {
			var replayed struct {
				Files []struct{ Classes []classJSON }
			}
			if err := json.Unmarshal(runs(t, "replay", file, "-f", policyFile(t, p), "-o", "json"), &replayed); err != nil {
				t.Fatal(err)
			}
			counts := map[string]colorsJSON{}
			for _, c := range replayed.Files[0].Classes {
				counts[c.Name] = c.Colors
			}
			for _, row := range report.Classes {
				got := []whatSideJSON{row.Before, row.After}[side]
				want := counts[row.Class]
				if got.Green.Packets != want.Green.Packets || got.Yellow.Packets != want.Yellow.Packets ||
					row.Class[0] != '(' && got.Red.Packets != want.Red.Packets {
					t.Errorf("%s by %s, class %s: %+v, replay has %+v", name, p, row.Class, got, want)
				}
			}
		}
		var sum whatRowJSON
		for _, row := range report.Classes {
			for _, pair := range [][2]*countJSON{{&sum.NewlyRed, &row.NewlyRed}, {&sum.RedNoMore, &row.RedNoMore}, {&sum.Worse, &row.Worse}, {&sum.Better, &row.Better}} {
				pair[0].Packets += pair[1].Packets
				pair[0].Bytes += pair[1].Bytes
			}
		}
		all := &report.Total
		if sum.NewlyRed != all.NewlyRed || sum.RedNoMore != all.RedNoMore || sum.Worse != all.Worse || sum.Better != all.Better {
			t.Errorf("%s: the classes' shifts add up to %+v, in all %+v", name, sum, all)
		}
		if all.Before.total() != all.After.total() || all.Before.total().Packets != report.Records {
			t.Errorf("%s: %+v before, %+v after, of %d", name, all.Before.total(), all.After.total(), report.Records)
		}
		if all.Before.red()+all.NewlyRed.Packets != all.After.red()+all.RedNoMore.Packets {
			t.Errorf("%s: %d red, and %d newly, and %d no more, are not %d", name, all.Before.red(), all.NewlyRed.Packets, all.RedNoMore.Packets, all.After.red())
		}
	}
}

// The same policy twice changes nothing; two policies the other way round gain what was lost.
func TestWhatIfTheOtherWayRound(t *testing.T) {
	file := committed(t, ntpCapture)
	a, b := policyOf(t, "srtcm, cir: 400bit, cbs: 200B, ebs: 200B"), policyOf(t, "srtcm, cir: 200bit, cbs: 300B, ebs: 200B")
	same := whatIfReport(t, a, a, file)
	if same.Shifted != 0 || len(same.Keys) != 0 || same.Total.NewlyRed.Packets+same.Total.RedNoMore.Packets != 0 {
		t.Errorf("a policy and itself: %+v", same)
	}
	there, back := whatIfReport(t, a, b, file), whatIfReport(t, b, a, file)
	if there.Total.NewlyRed != back.Total.RedNoMore || there.Total.RedNoMore != back.Total.NewlyRed || there.Total.Worse != back.Total.Better {
		t.Errorf("there %+v, back %+v", there.Total, back.Total)
	}
	if there.Total.NewlyRed.Packets+there.Total.RedNoMore.Packets == 0 {
		t.Error("the two policies judge alike: this tests nothing")
	}
}

// Those that lose most come first.
func TestWhatIfIsSortedByHarm(t *testing.T) {
	report := whatIfReport(t, policyFile(t, "chains.yaml"), policyFile(t, "aware.yaml"), committed(t, ntpCapture), committed(t, "11-zeek-ipv6-http-atomic-frag.pcap"))
	for _, rows := range [][]whatRowJSON{report.Classes, report.Keys} {
		for i := 1; i < len(rows); i++ {
			a, b := &rows[i-1], &rows[i]
			if a.NewlyRed.Bytes+b.RedNoMore.Bytes < b.NewlyRed.Bytes+a.RedNoMore.Bytes {
				t.Errorf("%s %s comes before %s %s", a.Class, a.Key, b.Class, b.Key)
			}
		}
	}
}

func TestWhatIfPageDraws(t *testing.T) {
	page := browsertest.Open(t, plotted(t, ".html", "whatif", policyOf(t, "token, cir: 80bit, cbs: 2kB"), policyOf(t, "token, cir: 400bit, cbs: 200B"), committed(t, ntpCapture)))
	page.Drew(t, 3)
	if shot := os.Getenv("TRICOLOR_SHOTS"); shot != "" {
		if err := os.WriteFile(filepath.Join(shot, "whatif.png"), page.Shot(t), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
