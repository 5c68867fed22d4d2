package loader

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cilium/ebpf/link"
	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/tricolor-policer/tricolor/internal/netlab"
	"github.com/tricolor-policer/tricolor/maps"
	"github.com/tricolor-policer/tricolor/marker"
)

// Of what comes from the left host, ten packets of packetLen are green, the next ten yellow.
const policySaved = `
version: 1
flows: 64
profiles: { p: { meter: srtcm, cir: 1B/s, cbs: 1280B, ebs: 1280B } }
classes: [ { name: test, meters: [ { profile: p, per: src } ], green: { dscp: af11 }, yellow: { dscp: af12 } } ]
`

// reboot has this be another boot until the test ends.
func reboot(tb testing.TB) {
	tb.Helper()
	was := bootID
	tb.Cleanup(func() { bootID = was })
	bootID = func() (string, error) { return "another", nil }
}

func save(tb testing.TB, h *netlab.Host, a *Attachment) (file string) {
	tb.Helper()
	file = filepath.Join(tb.TempDir(), "save")
	if err := h.Do(func() error { return a.Save(file, "0.0.1") }); err != nil {
		tb.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode() != 0o600 {
		tb.Errorf("%v, %v", info, err)
	}
	return file
}

func tryRestore(h *netlab.Host, file string, m Mechanism) (a *Attachment, err error) {
	err = h.Do(func() (err error) {
		a, _, err = Restore("right0", file, AttachOptions{Mechanism: m})
		return err
	})
	return a, err
}

// restore has the right host's device policed by what a file holds, until the test ends.
func restore(tb testing.TB, h *netlab.Host, file string, m Mechanism) *Attachment {
	tb.Helper()
	a, err := tryRestore(h, file, m)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := detach(h, a); err != nil && !errors.Is(err, ErrNotAttached) && !errors.Is(err, netlab.ErrClosed) {
			tb.Error(err)
		}
		a.Close()
	})
	return a
}

// A flow of which ten packets are green and ten yellow, ever, has no more through saving and restoring, in the
// same boot and in another; counters and policy go on; a file is used once.
func TestSaveRestore(t *testing.T) {
	for _, m := range mechanisms {
		for _, rebooted := range []bool{false, true} {
			name := m.String()
			if rebooted {
				name += " rebooted"
			}
			t.Run(name, func(t *testing.T) {
				needs(t, m)
				if rebooted {
					reboot(t)
				}
				lab := newLab(t, netlab.Options{})
				a := attachPolicy(t, lab, m, policySaved)
				before := bootID
				for i, want := range []marker.ClassStats{
					{Packets: [marker.Colors]uint64{8, 0, 0}, Bytes: [marker.Colors]uint64{8 * packetLen, 0, 0}},
					{Packets: [marker.Colors]uint64{10, 6, 0}, Bytes: [marker.Colors]uint64{10 * packetLen, 6 * packetLen, 0}},
					{Packets: [marker.Colors]uint64{10, 10, 4}, Bytes: [marker.Colors]uint64{10 * packetLen, 10 * packetLen, 4 * packetLen}},
				} {
					sendTo(t, lab, port, 8)
					if got := stats(t, a).Classes[0]; got != want {
						t.Errorf("after %d saves: counted %+v, want %+v", i, got, want)
					}
					plan, _ := inForce(t, a)
					file := save(t, lab.Right, a)
					if got := hooks(t, lab.Right); got != "" {
						t.Errorf("saved, on the hook: %s", got)
					}
					wantNothing(t)
					if rebooted {
						bootID = func() (string, error) { return t.Name() + file, nil }
					}
					a = restore(t, lab.Right, file, m)
					bootID = before
					again, _ := inForce(t, a)
					plan.Since, again.Since = 0, 0
					if diff := cmp.Diff(plan, again); diff != "" {
						t.Errorf("the plan (-saved +restored):\n%s", diff)
					}
					if left, _ := filepath.Glob(filepath.Join(filepath.Dir(file), "*")); len(left) != 0 {
						t.Errorf("left of what is restored: %v", left)
					}
					_, err := tryRestore(lab.Right, file, m)
					wantError(t, "restored twice", err, fs.ErrNotExist)
				}
				change(t, a, 0, policyA) // and the policy can be changed as ever
			})
		}
	}
}

// Where it cannot be restored the file stays, and the device is as it was.
func TestRestoreRefused(t *testing.T) {
	lab := newLab(t, netlab.Options{})
	a := attachPolicy(t, lab, Auto, policySaved)
	sendTo(t, lab, port, 15)
	file := save(t, lab.Right, a)
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	bad := append([]byte(nil), good...)
	bad[len(bad)-100]++
	damaged := filepath.Join(filepath.Dir(file), "damaged")
	if err := os.WriteFile(damaged, bad, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = tryRestore(lab.Right, damaged, Auto)
	wantError(t, "damaged", err, maps.ErrImage, "checksum")
	wantNothing(t)
	err = lab.Right.Do(func() error { _, _, err := Restore("none", file, AttachOptions{}); return err })
	wantError(t, "no device", err, ErrNoDevice)
	was := attachTCX
	attachTCX = func(link.TCXOptions) (link.Link, error) { return nil, errors.New("no such hook") }
	_, err = tryRestore(lab.Right, file, Auto)
	attachTCX = was
	if err == nil {
		t.Error("attached to no hook")
	}
	wantNothing(t)
	again := attach(t, lab.Right, AttachOptions{})
	_, err = tryRestore(lab.Right, file, Auto)
	wantError(t, "policed", err, ErrAttached)
	if err := detach(lab.Right, again); err != nil {
		t.Fatal(err)
	}
	a = restore(t, lab.Right, file, Auto)
	if got := stats(t, a).Classes[0].Packets; got != [marker.Colors]uint64{10, 5, 0} {
		t.Errorf("counted %v", got)
	}
}

// A policy that nobody confirmed is not saved; the one before is, with the buckets brought back.
func TestSaveUnconfirmed(t *testing.T) {
	lab := newLab(t, netlab.Options{})
	a := attachPolicy(t, lab, Auto, policyA)
	wantArrived(t, "at first", lab, greenA, 10)
	before, _ := inForce(t, a)
	change(t, a, time.Hour, policyB)
	wantArrived(t, "meanwhile", lab, greenB, 10)
	a = restore(t, lab.Right, save(t, lab.Right, a), Auto)
	now, pending := inForce(t, a)
	if rate(now) != 1000 || pending != 0 || now.Generation != before.Generation+2 {
		t.Errorf("in force is rate %d, generation %d after %d, pending %v", rate(now), now.Generation, before.Generation, pending)
	}
	wantArrived(t, "at last", lab, greenA, 10)
}

// What is stale since its device is gone is saved, and goes on at the device's return.
func TestSaveStale(t *testing.T) {
	lab := newLab(t, netlab.Options{})
	device := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "came0"}, PeerName: "peer0"}
	add := func() {
		t.Helper()
		if err := lab.Right.Do(func() error { return netlink.LinkAdd(device) }); err != nil {
			t.Fatal(err)
		}
	}
	add()
	var a *Attachment
	err := lab.Right.Do(func() (err error) {
		a, err = Attach("came0", testPlan(t), AttachOptions{Direction: Egress})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	a.Close()
	if err := lab.Right.Do(func() error { return netlink.LinkDel(device) }); err != nil {
		t.Fatal(err)
	}
	stale := find(t, lab.Right, "came0", Egress)
	if stale.State != Stale {
		t.Fatalf("it is %v", stale.State)
	}
	file := save(t, lab.Right, stale)
	wantNothing(t)
	device = &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "came0"}, PeerName: "peer0"} // of another number
	add()
	err = lab.Right.Do(func() error {
		a, image, err := Restore("came0", file, AttachOptions{})
		if err != nil {
			return err
		}
		if a.Direction() != Egress || image.Device != "came0" {
			t.Errorf("%v of %s", a.Direction(), image.Device)
		}
		return errors.Join(a.Detach(), a.Close())
	})
	if err != nil {
		t.Error(err)
	}
}

// Drained buckets hold what was earned since the machine booted, and new keys start so.
func TestAttachDrained(t *testing.T) {
	lab := newLab(t, netlab.Options{})
	const text = `{version: 1, flows: 64, profiles: {p: {meter: token, cir: 1000B/s, cbs: 4GB}, q: {meter: srtcm, cir: 2000B/s, cbs: 1GB, ebs: 1GB}},
  classes: [{name: all, meters: [{profile: p, per: flow}, {profile: p, per: src}, {profile: q, per: class}]}]}`
	var a *Attachment
	err := lab.Right.Do(func() (err error) {
		a, err = Attach("right0", policyPlan(t, text), AttachOptions{Drained: true})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	p := &policed{Attachment: a, plan: policyPlan(t, text)}
	defer func() {
		if err := errors.Join(detach(lab.Right, a), a.Close()); err != nil {
			t.Error(err)
		}
	}()
	sendTo(t, lab, port, 1)
	spent := 0
	for _, b := range p.buckets(t) {
		rate := uint64(1000)
		if key := b.Key.Fields(); key.Per() == marker.PerClass {
			rate = 2000
		}
		var packets uint64
		for _, n := range b.Packets {
			packets += n
		}
		if b.Bucket.Tx != 0 {
			t.Skip("the machine runs since longer than the test's burst takes")
		}
		if want := b.Bucket.Last*rate - packets*packetLen*marker.Nano; b.Bucket.Tc != want {
			t.Errorf("%v: %d nanobytes at %d ns, want %d", b.Key.Fields(), b.Bucket.Tc, b.Bucket.Last, want)
		}
		spent += int(packets)
	}
	if spent != 3 {
		t.Errorf("%d buckets were spent from, want 3", spent)
	}
}
