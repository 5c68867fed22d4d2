package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/tricolor-policer/tricolor/marker"
	"github.com/tricolor-policer/tricolor/pcaptest"
)

const ntp = "../../testdata/captures/07-cesnet-ntp-af11-ef-cs6.pcap"

// verifyAgainst runs verify with another mirror in the kernel's place.
func verifyAgainst(t *testing.T, output string, alter func(*marker.Plan)) (stdout, stderr string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	v := verifier{
		flags: &policyFlags{seed: new(plain)}, output: newChoice(output), stdout: &out, stderr: &errs,
		kernel: func(plan *marker.Plan, seeds marker.Seeds) (pcaptest.Side, error) {
			other := *plan
			other.Profiles = append([]marker.Profile{}, plan.Profiles...)
			alter(&other)
			return pcaptest.NewMirror(&other, seeds)
		},
	}
	w := &v.flags.words
	w.Meter, w.CIR, w.CBS, w.Flows = "token", "8bit", "200B", "64"
	err = v.run(context.Background(), []string{ntp})
	return out.String(), errs.String(), err
}

// The sides' bursts differ, so that the first packet already leaves different tokens behind.
func TestVerifyShowsADifference(t *testing.T) {
	smaller := func(p *marker.Plan) { p.Profiles[0].CBS = 100 * marker.Nano }

	stdout, stderr, err := verifyAgainst(t, "table", smaller)
	if !errors.Is(err, errReported) || exitCode(err) != exitFailed {
		t.Errorf("error %v with exit code %d, want %v with %d", err, exitCode(err), errReported, exitFailed)
	}
	if !strings.HasSuffix(stdout, "1 packet compared, 0 skipped, 1 difference\n") {
		t.Errorf("stdout does not end with the difference's count:\n%s", stdout)
	}
	for _, want := range []string{"tricolor: " + ntp + ": packet 1 at ", "tc: mirror 124000000000, kernel 24000000000", "bucket before"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("stderr lacks %q:\n%s", want, stderr)
		}
	}

	stdout, _, err = verifyAgainst(t, "json", smaller)
	if !errors.Is(err, errReported) {
		t.Errorf("with -o json the error is %v, want %v", err, errReported)
	}
	var report verifyReport
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		t.Fatal(err)
	}
	if d := report.Files[0].First; d == nil || d.Packet != 1 || len(d.Fields) == 0 || report.Differences != 1 {
		t.Errorf("JSON tells of no difference at packet 1:\n%s", stdout)
	}

	stdout, stderr, err = verifyAgainst(t, "table", func(*marker.Plan) {})
	if err != nil || stderr != "" || !strings.HasSuffix(stdout, "56 packets compared, 0 skipped, 0 differences\n") {
		t.Errorf("two equal sides: %v\n%s%s", err, stdout, stderr)
	}
}
