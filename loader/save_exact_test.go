package loader

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/maps"
	"github.com/tricolor-policer/tricolor/marker"
)

// Within one boot the kernel program that is restored goes on as a mirror does that never stopped: every packet,
// and in the end every byte of every bucket, in a table that is full.
func TestRestoreExact(t *testing.T) {
	testutils.RequireKernel(t)
	plan := policyPlan(t, `
version: 1
flows: 64
profiles:
  bronze: { meter: srtcm, cir: 1kB/s, cbs: 3000B, ebs: 3000B }
  tenant: { meter: rfc4115, cir: 1MB/s, cbs: 30kB, eir: 1MB/s, ebs: 10kB, coupling: true }
  link:   { meter: trtcm, cir: 20MB/s, cbs: 100kB, pir: 30MB/s, pbs: 100kB }
classes:
  - name: all
    meters: [ { profile: bronze, per: flow }, { profile: tenant, per: "src/24,56" }, { profile: link, per: interface } ]
`)
	seeds := randomSeeds()
	random := rand.New(rand.NewPCG(testutils.Seed(t), 0))
	mirror, err := marker.NewMirror(plan, seeds)
	if err != nil {
		t.Fatal(err)
	}
	program, err := Load(plan, Options{Seeds: seeds, Replay: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { program.Close() }()
	now := uint64(1e9)
	for range 4 {
		runner := NewRunner(program)
		for range 1500 {
			now += random.Uint64N(2_000_000)
			data := make([]byte, 14+64+random.IntN(1200))
			copy(data[12:], []byte{8, 0, 0x45, 0})
			binary.BigEndian.PutUint16(data[16:], uint16(len(data)-14))
			copy(data[22:], []byte{64, 17, 0, 0, 10, 1, byte(random.IntN(40)), 1, 192, 0, 2, 2, byte(random.IntN(4))})
			frame := func() *marker.Frame { return &marker.Frame{Data: bytes.Clone(data), Length: uint32(len(data))} }
			got, err := runner.Run(frame(), now)
			if err != nil {
				t.Fatal(err)
			}
			if want := mirror.Packet(frame(), now); got != want {
				t.Fatalf("at %d ns: %+v, the mirror %+v", now, got, want)
			}
		}
		program = throughFile(t, program, seeds, now)
	}
	if mirror.Stats().Classes[0].Overflow == 0 {
		t.Error("the table never was full: the test shows little")
	}
	err = program.Maps.Memory(func(sets []marker.Set) error {
		for i, want := range mirror.Sets() {
			got := sets[i]
			got[0].Lock = 0
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("set %d (-mirror +kernel):\n%s", i, diff)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	got, err := program.Maps.AllStats()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(mirror.Stats().Classes[0], got.Classes[plan.Classes[0].Stats]); diff != "" {
		t.Errorf("counters (-mirror +kernel):\n%s", diff)
	}
}

// throughFile returns a program that goes on where one ends.
func throughFile(tb testing.TB, old *Program, seeds marker.Seeds, now uint64) *Program {
	tb.Helper()
	plan, _, err := InForce(old.Maps, now)
	if err != nil {
		tb.Fatal(err)
	}
	stats, err := old.Maps.AllStats()
	if err != nil {
		tb.Fatal(err)
	}
	image := maps.Image{Now: now, Seeds: seeds, Plan: plan, Stats: stats}
	var file bytes.Buffer
	if err := old.Maps.Memory(func(sets []marker.Set) error { return image.Write(&file, sets) }); err != nil {
		tb.Fatal(err)
	}
	r, err := maps.NewImageReader(&file)
	if err != nil {
		tb.Fatal(err)
	}
	next, err := Load(r.Plan, Options{Seeds: r.Seeds, Replay: true})
	if err != nil {
		tb.Fatal(err)
	}
	err = errors.Join(
		next.Maps.Memory(func(sets []marker.Set) error { return r.Sets(sets, false, now) }),
		next.Maps.WriteStats(&r.Stats),
		old.Close(),
	)
	if err != nil {
		tb.Fatal(err)
	}
	return next
}
