package loader

import (
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/tricolor-policer/tricolor/bpf"
	"github.com/tricolor-policer/tricolor/internal/netlab"
	"github.com/tricolor-policer/tricolor/maps"
	"github.com/tricolor-policer/tricolor/marker"
)

func upgrade(tb testing.TB, h *netlab.Host, a *Attachment, version string) (changed bool) {
	tb.Helper()
	err := h.Do(func() (err error) {
		changed, err = a.Upgrade(version)
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	return changed
}

// The program of another build takes over under traffic: no packet goes unpoliced, and policy, buckets and
// counters go on.
func TestUpgrade(t *testing.T) {
	for _, m := range mechanisms {
		t.Run(m.String(), func(t *testing.T) {
			needs(t, m)
			lab := newLab(t, netlab.Options{})
			a := attachPolicy(t, lab, m, policyA)
			if changed := upgrade(t, lab.Right, a, "the same"); changed || !a.SameBuild() {
				t.Error("the same build replaced itself")
			}
			const burst = 100 // packets that fit in it
			wantArrived(t, "the burst", lab, greenA, burst)
			f := startFlood(t, lab, 3, 100*time.Microsecond)
			for i := range 20 {
				was, hook := a.ProgramID, hooks(t, lab.Right)
				if beAgain(); i%2 == 0 {
					beAnother()
				}
				if a.SameBuild() {
					t.Fatal("another build reads as the same")
				}
				if !upgrade(t, lab.Right, a, "the next") || a.ProgramID == was || !a.SameBuild() {
					t.Fatalf("program %d was not replaced", was)
				}
				if again := find(t, lab.Right, "right0", Ingress); again.ProgramID != a.ProgramID || again.About.Version != "the next" || again.State != Attached {
					t.Errorf("found %v: program %d by %s, want %d", again.State, again.ProgramID, again.About.Version, a.ProgramID)
				}
				if got := hooks(t, lab.Right); got != hook {
					t.Errorf("on the hook: %q, before %q", got, hook)
				}
			}
			beAgain()
			sent, marks := f.end(t, greenA, redA)
			plan, _ := inForce(t, a)
			s, err := a.Maps.Stats(plan)
			if err != nil {
				t.Fatal(err)
			}
			want := [marker.Colors]uint64{marker.Green: burst + marks[greenA], marker.Red: marks[redA]}
			if got := s.Classes[0].Packets; got != want || sent == 0 {
				t.Errorf("counted %v of %d and the first %d, arrived %v", got, sent, burst, want)
			}
			change(t, a, 0, policyB) // and the policy can be changed as ever
		})
	}
}

// Where the new program cannot be had, the old one polices on.
func TestUpgradeFails(t *testing.T) {
	for _, m := range mechanisms {
		t.Run(m.String(), func(t *testing.T) {
			needs(t, m)
			lab := newLab(t, netlab.Options{})
			a := attachPolicy(t, lab, m, policyA)
			id, pins := a.ProgramID, pinned(t)
			defer beAgain()
			beAnother()
			newSpec = func() (*ebpf.CollectionSpec, error) {
				spec, err := otherBuild()
				if err == nil {
					p := spec.Programs[bpf.PolicerProgPolicer]
					p.Instructions = p.Instructions[:1] // which the verifier refuses
				}
				return spec, err
			}
			err := lab.Right.Do(func() error { _, err := a.Upgrade("bad"); return err })
			if err == nil {
				t.Error("a program that the kernel refuses took over")
			}
			if again := find(t, lab.Right, "right0", Ingress); again.ProgramID != id || again.State != Attached || again.About.Version == "bad" {
				t.Errorf("%v, program %d by %s; before it was %d", again.State, again.ProgramID, again.About.Version, id)
			}
			wantSame(t, "pins", pins, pinned(t))
			wantArrived(t, "after it", lab, greenA, 1)
		})
	}
}

// What a version of another layout attached is left alone, and polices on.
func TestUpgradeOtherLayout(t *testing.T) {
	for _, m := range mechanisms {
		t.Run(m.String(), func(t *testing.T) {
			needs(t, m)
			lab := newLab(t, netlab.Options{})
			defer beAgain()
			beAnother()
			newSpec = func() (*ebpf.CollectionSpec, error) {
				spec, err := bpf.LoadPolicer()
				if err == nil {
					spec.Maps["class_stats_map"].ValueSize += 8
				}
				return spec, err
			}
			a := attachPolicy(t, lab, m, policyA)
			beAgain()
			pins, hook := pinned(t), hooks(t, lab.Right)
			err := lab.Right.Do(func() error { _, err := Find("right0", Ingress); return err })
			wantError(t, "find", err, maps.ErrLayout, "another version", "polices on", a.ident.dir())
			err = lab.Right.Do(func() error {
				_, err := Attach("right0", planAfter(t, policyB, nil), AttachOptions{Mechanism: m})
				return err
			})
			wantError(t, "attach", err, maps.ErrLayout, "another version")
			wantSame(t, "pins", pins, pinned(t))
			if got := hooks(t, lab.Right); got != hook {
				t.Errorf("on the hook: %q, before %q", got, hook)
			}
			wantArrived(t, "policed on", lab, greenA, 1)
		})
	}
}
