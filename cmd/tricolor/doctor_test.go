package main

import (
	"encoding/json"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tricolor-policer/tricolor/internal/testutils"
)

var attachLoopback = []string{"attach", "lo", "--meter", "token", "--cir", "1mbit", "--cbs", "2kB", "--flows", "64"}

// Each thing that policing takes is taken away. Doctor says so, and so does attach, in words of their own
// for each; and neither leaves anything.
func TestLacks(t *testing.T) {
	testutils.RequireRoot(t)
	saidBefore := map[string]string{}
	for _, test := range []struct {
		lacks  string
		fails  []string // checks
		warns  string
		doctor string // what is to be done
		attach string // what it says; empty: it attaches
	}{
		{lacks: "cap_bpf", fails: []string{"CAP_BPF", "program"}, doctor: "give it CAP_BPF", attach: "CAP_BPF is missing: run it as root"},
		{lacks: "cap_net_admin", fails: []string{"CAP_NET_ADMIN", "program"}, doctor: "give it CAP_NET_ADMIN", attach: "CAP_NET_ADMIN is missing: run it as root"},
		{lacks: "cap_perfmon", fails: []string{"CAP_PERFMON", "program"}, doctor: "give it CAP_PERFMON", attach: "CAP_PERFMON is missing: run it as root"},
		{lacks: "bpffs", fails: []string{"bpffs"}, doctor: "nsenter --net=/run/netns/NAME", attach: "policing would end with it"},
		{lacks: "bpffs_write", fails: []string{"bpffs"}, doctor: "mount -o remount,rw /sys/fs/bpf", attach: "it is read-only: mount -o remount,rw /sys/fs/bpf"},
		{lacks: "sysfs", fails: []string{"bpffs", "program"}, doctor: "mount -t sysfs none /sys", attach: "no such file"},
		{lacks: "cap_net_admin_alone", warns: "CAP_NET_ADMIN", doctor: "for attach --hook clsact"}, // CAP_SYS_ADMIN stands in
		{lacks: "jit", warns: "JIT", doctor: "sysctl net.core.bpf_jit_enable=1"},
		{lacks: "btf", doctor: "nor needed"},
		{lacks: "memlock", doctor: "count against no bound"},
	} {
		t.Run(test.lacks, func(t *testing.T) {
			if test.lacks == "cap_net_admin_alone" {
				testutils.RequireTCX(t)
			}
			before := ourObjects(t)
			code := exitDone
			if len(test.fails) > 0 {
				code = exitLacking
			}
			said := command(t, test.lacks, "doctor")
			if said.code != code || !strings.Contains(said.stdout, test.doctor) {
				t.Errorf("doctor exits with %d, want %d; and says, without %q:\n%s%s", said.code, code, test.doctor, said.stdout, said.stderr)
			}
			wantStatuses(t, command(t, test.lacks, "doctor", "-o", "json"), test.fails, test.warns)
			wantNothingLeft(t, before)

			tried := command(t, test.lacks, attachLoopback...)
			if tried.code != code || !strings.Contains(tried.stderr, test.attach) {
				t.Errorf("attach exits with %d, want %d; and says, without %q:\n%s", tried.code, code, test.attach, tried.stderr)
			}
			if test.attach == "" {
				if left := left(t, before, 0); len(left) == 0 {
					t.Error("a policer is attached, and no object of it is seen: this test sees nothing")
				}
				if taken := command(t, test.lacks, "detach", "lo", "--direction", "ingress"); taken.code != exitDone {
					t.Errorf("detach: %s", taken.stderr)
				}
			} else if other := saidBefore[tried.stderr]; other != "" {
				t.Errorf("attach says of %s what it says of %s: %s", test.lacks, other, tried.stderr)
			}
			saidBefore[tried.stderr] = test.lacks
			wantNothingLeft(t, before)
		})
	}
}

// The older hook takes CAP_NET_ADMIN itself: what was made before that was found out is taken back.
func TestClsactLacks(t *testing.T) {
	testutils.RequireRoot(t)
	before := ourObjects(t)
	out := command(t, "cap_net_admin_alone", append(attachLoopback, "--hook", "clsact")...)
	if out.code != exitLacking || !strings.Contains(out.stderr, "CAP_NET_ADMIN is missing") {
		t.Errorf("attach: %d %s", out.code, out.stderr)
	}
	wantNothingLeft(t, before)
}

// wantStatuses checks which checks of doctor -o json fail or warn. Of those that were not tried, since
// another fails, it asks nothing.
func wantStatuses(t *testing.T, said outcome, fails []string, warns string) {
	t.Helper()
	var got struct {
		Ready  bool
		Checks []checkJSON
	}
	if err := json.Unmarshal([]byte(said.stdout), &got); err != nil {
		t.Fatalf("%v: %s%s", err, said.stdout, said.stderr)
	}
	if got.Ready != (len(fails) == 0) {
		t.Errorf("ready is %t", got.Ready)
	}
	var failed, warned []string
	for _, c := range got.Checks {
		switch {
		case c.Status == "fail":
			failed = append(failed, c.Name)
		case c.Status == "warn" && !strings.Contains(c.Do, "above first"):
			warned = append(warned, c.Name)
		}
		if (c.Do != "") == (c.Status == "ok") {
			t.Errorf("%s is %s, and to do is %q", c.Name, c.Status, c.Do)
		}
	}
	if strings.Join(failed, " ") != strings.Join(fails, " ") || strings.Join(warned, " ") != warns {
		t.Errorf("%v fail and %v warn, want %v and %v", failed, warned, fails, warns)
	}
}

// Who is not root is refused in clear words, or served as far as its capabilities go.
func TestNobody(t *testing.T) {
	testutils.RequireRoot(t)
	before := ourObjects(t)
	police := []uintptr{unix.CAP_BPF, unix.CAP_NET_ADMIN, unix.CAP_PERFMON}
	if out := asNobody(t, police, attachLoopback...); out.code != exitLacking || !strings.Contains(out.stderr, "CAP_DAC_OVERRIDE") {
		t.Errorf("attach, with nothing to make pins by: %d %s", out.code, out.stderr)
	}
	wantNothingLeft(t, before)

	looks := [][]string{{"show"}, {"show", "lo"}, {"show", "-o", "json"}, {"dump", "flows", "lo"}, {"dump", "maps", "lo"}}
	for _, hook := range []string{"auto", "clsact"} {
		if out := command(t, "", append(attachLoopback, "--hook", hook)...); out.code != exitDone {
			t.Fatal(out.stderr)
		}
		for _, args := range looks {
			// To read is not enough: of a map that is open to be read only the kernel shares no memory.
			for _, caps := range [][]uintptr{nil, {unix.CAP_BPF}, {unix.CAP_BPF, unix.CAP_DAC_READ_SEARCH}} {
				out := asNobody(t, caps, args...)
				if out.code != exitLacking || !strings.Contains(out.stderr, "run it as root") || strings.Contains(out.stderr, "rm -r") || out.stdout != "" {
					t.Errorf("%v as nobody with %v: %d %s%s", args, caps, out.code, out.stdout, out.stderr)
				}
			}
			if out := asNobody(t, []uintptr{unix.CAP_BPF, unix.CAP_DAC_OVERRIDE}, args...); out.code != exitDone || out.stderr != "" || out.stdout == "" {
				t.Errorf("%v as nobody who may open pins: %d %s%s", args, out.code, out.stdout, out.stderr)
			}
		}
		detach := []string{"detach", "lo", "--direction", "ingress"}
		if out := asNobody(t, police, detach...); out.code != exitLacking {
			t.Errorf("%v as nobody who may not open pins: %d %s%s", detach, out.code, out.stdout, out.stderr)
		}
		if out := command(t, "", detach...); out.code != exitDone {
			t.Error(out.stderr)
		}
		wantNothingLeft(t, before)
	}

	// Who has all of it polices, and takes it off again.
	all := append(police, unix.CAP_DAC_OVERRIDE)
	if out := asNobody(t, all, "doctor"); out.code != exitDone {
		t.Errorf("doctor: %s%s", out.stdout, out.stderr)
	}
	for _, args := range [][]string{attachLoopback, {"detach", "lo", "--direction", "ingress"}} {
		if out := asNobody(t, all, args...); out.code != exitDone {
			t.Errorf("%v: %s", args, out.stderr)
		}
	}
	wantNothingLeft(t, before)
}
