package maps

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/marker"
	"github.com/tricolor-policer/tricolor/policy"
)

// A policy of chains whose table soon is full.
const tight = `
version: 1
flows: 64
profiles:
  bronze: { meter: srtcm, cir: 1kB/s, cbs: 3000B, ebs: 3000B }
  tenant: { meter: rfc4115, cir: 1MB/s, cbs: 30kB, eir: 1MB/s, ebs: 10kB, coupling: true }
  link:   { meter: trtcm, cir: 20MB/s, cbs: 100kB, pir: 30MB/s, pbs: 100kB }
classes:
  - name: customers
    match:  { proto: udp }
    meters: [ { profile: bronze, per: flow }, { profile: tenant, per: "src/24,56" }, { profile: link, per: interface } ]
  - { name: others, meters: [ { profile: bronze, per: flow } ] }
`

// tightened is another policy for the same table.
var tightened = strings.NewReplacer("1kB/s", "2kB/s", "30kB", "20kB").Replace(tight)

// udp is a packet of a flow, by its source port, from 10.1.2.1, of so many bytes of IP.
func udp(flow uint16, size int) *marker.Frame {
	data := make([]byte, 14+size)
	copy(data[12:], []byte{8, 0, 0x45, 0})
	binary.BigEndian.PutUint16(data[16:], uint16(size))
	copy(data[22:], []byte{64, 17, 0, 0, 10, 1, 2, 1, 192, 0, 2, 2})
	binary.BigEndian.PutUint16(data[34:], flow)
	data[36], data[37] = 0x1f, 0x40
	return &marker.Frame{Data: data, Length: uint32(len(data))}
}

// police has a mirror police packets of a few hundred flows at random.
func police(m *marker.Mirror, r *rand.Rand, now *uint64, packets int) (outcomes []marker.Outcome) {
	for range packets {
		*now += r.Uint64N(200_000)
		f := udp(uint16(r.IntN(600)), 64+r.IntN(1200))
		if r.IntN(2) == 0 { // to class customers
			f.VLAN = 1<<16 | 100
			f.Data[23], f.Data[36], f.Data[37] = 6, 1, 0xbb
		}
		outcomes = append(outcomes, m.Packet(f, *now))
	}
	return outcomes
}

func newMirror(tb testing.TB, plan *marker.Plan, seeds marker.Seeds) *marker.Mirror {
	tb.Helper()
	m, err := marker.NewMirror(plan, seeds)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// saved is a file of a mirror.
func saved(tb testing.TB, m *marker.Mirror, seeds marker.Seeds, now uint64) []byte {
	tb.Helper()
	var file bytes.Buffer
	image := Image{Boot: "this", Now: now, Device: "d0", Seeds: seeds, Plan: m.Plan()}
	if err := image.Write(&file, m.Sets()); err != nil {
		tb.Fatal(err)
	}
	return file.Bytes()
}

// restored is a mirror of a file.
func restored(file []byte, rebase bool, now uint64) (*marker.Mirror, error) {
	r, err := NewImageReader(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}
	m, err := marker.NewMirror(r.Plan, r.Seeds)
	if err != nil {
		return nil, err
	}
	return m, r.Sets(m.Sets(), rebase, now)
}

// Within one boot the restored policer goes on as if it had never stopped, bit by bit; after changes of policy
// too, and then changes as ever.
func TestImageGoesOn(t *testing.T) {
	random := rand.New(rand.NewPCG(testutils.Seed(t), 0))
	seeds := marker.SeedsFrom(random.Uint64())
	first := planOf(t, tight, nil)
	stopped := newMirror(t, first, seeds)
	now := uint64(1e9)
	police(stopped, random, &now, 2000)
	if err := stopped.Apply(planOf(t, tightened, first), now, 0); err != nil {
		t.Fatal(err)
	}
	police(stopped, random, &now, 500)
	if err := stopped.Apply(planOf(t, tight, stopped.Plan()), now, 0); err != nil {
		t.Fatal(err)
	}
	police(stopped, random, &now, 2000)

	again, err := restored(saved(t, stopped, seeds, now), false, now)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(stopped.Plan(), again.Plan(), cmpopts.EquateComparable(marker.PrefixEntry{}), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the plan (-saved +restored):\n%s", diff)
	}
	overflow := 0
	for range 3 {
		later := now
		source := rand.NewPCG(random.Uint64(), 0)
		twin := *source
		want, got := police(stopped, rand.New(source), &now, 1000), police(again, rand.New(&twin), &later, 1000)
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Fatalf("packets (-never stopped +restored):\n%s", diff)
		}
		if diff := gocmp.Diff(stopped.Sets(), again.Sets()); diff != "" {
			t.Fatalf("buckets (-never stopped +restored):\n%s", diff)
		}
		for _, m := range []*marker.Mirror{stopped, again} {
			if err := m.Apply(planOf(t, tight, m.Plan()), now, 0); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range stopped.Stats().Classes {
			overflow += int(c.Overflow)
		}
	}
	if overflow == 0 {
		t.Error("the table never was full: the test shows little")
	}
}

// Every example's plan can be saved: what CheckSaved refuses, no policy compiles to.
func TestExamplesCanBeSaved(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join(testutils.ModuleRoot(t), "examples", "*.yaml"))
	if len(files) == 0 {
		t.Fatal("no examples")
	}
	for _, file := range files {
		p, err := policy.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := p.Compile()
		if err != nil {
			t.Fatal(err)
		}
		if err := plan.CheckSaved(); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// Saved at any time, and restored at any later time, in the same boot or in one whose clock begins anew, the two
// policers together let at most B + rT through, in every interval: a key that is known, a new one, and one whose table is full.
func TestImageEnvelope(t *testing.T) {
	const rate, burst = 1000, 3000
	text := `{version: 1, flows: 64, profiles: {p: {meter: token, cir: 1000B/s, cbs: 3000B}},
  classes: [{name: all, meters: [{profile: p, per: flow}]}]}`
	plan := planOf(t, text, nil)
	reboots, accepted := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		seeds := marker.SeedsFrom(rapid.Uint64().Draw(t, "seed"))
		copied := *plan
		m, err := marker.NewMirror(&copied, seeds)
		if err != nil {
			t.Fatal(err)
		}
		flows := rapid.SampledFrom([]int{1, 3, 400}).Draw(t, "flows")
		moment := rapid.Uint64Range(1, 1e12).Draw(t, "start") // true time, ns
		offset := uint64(0)                                   // of the kernel's clock from it
		type passed struct{ at, bytes uint64 }
		through := map[int][]passed{}
		send := func(packets int) {
			for range packets {
				moment += rapid.Uint64Range(0, 1e9).Draw(t, "gap")
				flow, size := rapid.IntRange(0, flows-1).Draw(t, "flow"), rapid.IntRange(28, 1500).Draw(t, "size")
				if out := m.Packet(udp(uint16(flow), size), moment-offset); out.Color != marker.Red {
					through[flow] = append(through[flow], passed{moment, uint64(size)})
					accepted++
				}
			}
		}
		for range 3 {
			send(rapid.IntRange(0, 40).Draw(t, "packets"))
			now := moment - offset
			var file bytes.Buffer
			image := Image{Boot: "this", Now: now, Seeds: seeds, Plan: m.Plan()}
			if err := image.Write(&file, m.Sets()); err != nil {
				t.Fatal(err)
			}
			moment += rapid.Uint64Range(0, 1e12).Draw(t, "down")
			reboot := rapid.Bool().Draw(t, "reboot")
			if reboot {
				offset = moment - rapid.Uint64Range(1, min(moment, 1e11)).Draw(t, "uptime")
				reboots++
			}
			if m, err = restored(file.Bytes(), reboot, moment-offset); err != nil {
				t.Fatal(err)
			}
		}
		send(rapid.IntRange(0, 40).Draw(t, "packets"))
		for flow, all := range through {
			tokens, last := uint64(burst*marker.Nano), uint64(0)
			for _, p := range all {
				if last != 0 {
					tokens = min(burst*marker.Nano, tokens+min(p.at-last, 3e9)*rate)
				}
				last = p.at
				if tokens < p.bytes*marker.Nano {
					t.Fatalf("flow %d: %d bytes at %d ns, with tokens for %d: %v", flow, p.bytes, p.at, tokens/marker.Nano, all)
				}
				tokens -= p.bytes * marker.Nano
			}
		}
	})
	if reboots == 0 || accepted == 0 {
		t.Errorf("%d reboots, %d packets accepted: the test shows little", reboots, accepted)
	}
}

// resum gives a damaged file a checksum that fits.
func resum(file []byte) []byte {
	if len(file) < sha256.Size {
		return file
	}
	body := file[:len(file)-sha256.Size]
	sum := sha256.Sum256(body)
	return append(bytes.Clone(body), sum[:]...)
}

// useFile has a file be used as Restore uses it, and packets policed. What is taken must hold.
func useFile(tb testing.TB, file []byte) (taken bool) {
	tb.Helper()
	r, err := NewImageReader(bytes.NewReader(file))
	switch {
	case err == nil:
	case errors.Is(err, ErrImage), errors.Is(err, ErrLayout):
		return false
	default:
		tb.Fatalf("refused by another error: %v", err)
	}
	if r.Plan.Geometry.Sets > 1<<14 {
		return false // it would take long
	}
	m := newMirror(tb, r.Plan, r.Seeds)
	if err := r.Sets(m.Sets(), false, r.Now); err != nil {
		if !errors.Is(err, ErrImage) {
			tb.Fatalf("refused by another error: %v", err)
		}
		return false
	}
	sets := m.Sets()
	for i := range sets {
		if err := r.Plan.CheckSet(&r.Seeds, sets, uint32(i), r.Now); err != nil {
			tb.Fatal(err)
		}
		for at := range sets[i] {
			slot := &sets[i][at]
			if sets[i].Tag(at) == 0 || int(slot.Profile) >= len(r.Plan.Profiles) || r.Plan.Profiles[slot.Profile].Gone {
				continue
			}
			if p := &r.Plan.Profiles[slot.Profile]; slot.Bucket.Tc > p.CBS || slot.Bucket.Tx > p.XBS {
				tb.Fatalf("set %d, slot %d: %+v is beyond its bursts", i, at, slot.Bucket)
			}
		}
	}
	now := r.Now
	police(m, rand.New(rand.NewPCG(1, 1)), &now, 50)
	policy.Describe(r.Plan)
	return true
}

// sample is a small file of some buckets.
func sample(tb testing.TB) []byte {
	plan := planOf(tb, rich, nil)
	seeds := marker.SeedsFrom(1)
	m := newMirror(tb, plan, seeds)
	now := uint64(1e9)
	police(m, rand.New(rand.NewPCG(1, 1)), &now, 300)
	return saved(tb, m, seeds, now)
}

// A file is not trusted: whatever is in it, it is refused as such, or what it gives can be worked with.
func TestImageHostile(t *testing.T) {
	good := sample(t)
	if !useFile(t, good) {
		t.Fatal("a good file is refused")
	}
	for cut := range 200 {
		if useFile(t, good[:len(good)-1-cut*(len(good)-1)/200]) {
			t.Errorf("cut short by %d of 200 it is taken", cut)
		}
	}
	if useFile(t, append(bytes.Clone(good), 0)) {
		t.Error("with a byte more it is taken")
	}
	flipped := bytes.Clone(good)
	flipped[len(flipped)/2]++
	if useFile(t, flipped) {
		t.Error("with another byte, and the old checksum, it is taken")
	}
	random := rand.New(rand.NewPCG(testutils.Seed(t), 0))
	taken := 0
	const rounds = 1000
	for range rounds {
		bad := bytes.Clone(good)
		at := len(bad) - 1 - random.IntN(min(20*setBytes, len(bad)-1)) // among the sets
		if random.IntN(2) == 0 {
			at = len(imageMagic) + random.IntN(len(bad)-len(imageMagic))
		}
		at = min(at&^3, len(bad)-8)
		damage(random, bad[at:at+8])
		if useFile(t, resum(bad)) {
			taken++
		}
	}
	if taken == 0 || taken == rounds {
		t.Errorf("%d of %d damaged files are taken: the test shows little", taken, rounds)
	}
}

// Each way in which a bucket can be where none can be is refused.
func TestImageWrongBuckets(t *testing.T) {
	plan := planOf(t, rich, nil)
	seeds := marker.SeedsFrom(1)
	now := uint64(1e9)
	for name, spoil := range map[string]func(sets []marker.Set, i uint32){
		"last":       func(sets []marker.Set, i uint32) { sets[i][0].Bucket.Last = now + 1e12 },
		"profile":    func(sets []marker.Set, i uint32) { sets[i][0].Profile = plan.Geometry.Profiles },
		"generation": func(sets []marker.Set, i uint32) { sets[i][0].Generation++ },
		"key":        func(sets []marker.Set, i uint32) { sets[i][0].Key[0]++ },
		"tag":        func(sets []marker.Set, i uint32) { sets[i][0].Tags ^= 0x40 },
		"moved":      func(sets []marker.Set, i uint32) { sets[i], sets[i^1] = sets[i^1], sets[i] },
		"twice": func(sets []marker.Set, i uint32) {
			lock, tags, tag := sets[i][1].Lock, sets[i][1].Tags, sets[i][0].Tags&0xff
			sets[i][1] = sets[i][0]
			sets[i][1].Lock, sets[i][1].Tags = lock, tags
			sets[i][0].Tags = sets[i][0].Tags&^0xff00 | tag<<8
		},
		"reserved": func(sets []marker.Set, _ uint32) {
			for j := plan.Geometry.Reserved; int(j) < len(sets); j++ {
				if sets[j][0].Tags != 0 {
					sets[j][0].Tags |= 1 << 8
				}
			}
		},
		"forgot": func(sets []marker.Set, i uint32) { sets[i][1].Lock, sets[i][1].Tags = 0, 1<<30 },
	} {
		m := newMirror(t, plan, seeds)
		at := now
		police(m, rand.New(rand.NewPCG(1, 1)), &at, 300)
		used := uint32(0)
		for m.Sets()[used][0].Tags == 0 {
			used++
		}
		spoil(m.Sets(), used)
		if _, err := restored(saved(t, m, seeds, at), false, at); !errors.Is(err, ErrImage) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzImage(f *testing.F) {
	f.Add(sample(f))
	f.Add([]byte(imageMagic))
	f.Fuzz(func(t *testing.T, file []byte) {
		useFile(t, file)
		useFile(t, resum(file))
	})
}
