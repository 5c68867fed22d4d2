package maps

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/tricolor-policer/tricolor/bpf"
	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/marker"
	"github.com/tricolor-policer/tricolor/policy"
)

// damage changes some bytes of a map's value: a few, a word that means something, or all.
func damage(r *rand.Rand, value []byte) {
	words := []uint32{0, 1, 2, 3, 63, 64, 65, 127, 128, 255, 256, 257, 383, 384, 512, 0x7fff, 0xffff, 1 << 30, 1<<31 - 1, 1 << 31, 1<<32 - 2, 1<<32 - 1}
	switch r.IntN(8) {
	case 0:
		for i := range value {
			value[i] = byte(r.Uint32())
		}
	case 1, 2, 3:
		for range 1 + r.IntN(4) {
			value[r.IntN(len(value))] = byte(words[r.IntN(len(words))])
		}
	default:
		for range 1 + r.IntN(3) {
			at := r.IntN(len(value)/4) * 4
			binary.NativeEndian.PutUint32(value[at:], words[r.IntN(len(words))])
		}
	}
}

// use does with maps what commands do.
func use(m *Maps) error {
	plan, err := m.ReadPlan()
	if _, other := m.ReadCopy(0); other != nil && !errors.Is(other, ErrLayout) {
		return other
	}
	if _, about := m.ReadAbout(); about != nil {
		return about
	}
	if err != nil {
		return err
	}
	if err := plan.Check(); err != nil {
		return errors.Join(errors.New("a plan was read that breaks its bounds"), err)
	}
	for _, set := range plan.Sets {
		for _, e := range set.Entries {
			if !e.Prefix.IsValid() {
				return fmt.Errorf("%s: a prefix was read that is none", set.Name)
			}
		}
	}
	if _, err := m.Stats(plan); err != nil {
		return err
	}
	policy.Describe(plan)
	policy.Diff(plan, plan)
	mirror, err := marker.NewMirror(plan, marker.SeedsFrom(1))
	if err != nil {
		return err
	}
	frame := make([]byte, 14+128)
	copy(frame[12:], []byte{8, 0, 0x45, 0, 0, 128})
	copy(frame[22:], []byte{64, 17, 0, 0, 10, 1, 2, 1, 192, 0, 2, 2, 1, 1, 1, 0xbb})
	long := make([]byte, 14+60)
	copy(long[12:], []byte{0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, 17, 64, 0x20, 1, 0xd, 0xb8})
	for now := range uint64(20) {
		mirror.Packet(&marker.Frame{Data: frame, Length: uint32(len(frame))}, now<<30)
		mirror.Packet(&marker.Frame{Data: long, Length: uint32(len(long))}, now<<30)
		mirror.Packet(&marker.Frame{Data: frame[:14], Length: 14, Link: marker.LinkOther}, now<<30)
	}
	return nil
}

// Maps are not trusted: whatever they hold, reading them is an error that says so, or a plan that can be
// worked with.
func TestHostile(t *testing.T) {
	seed := testutils.Seed(t)
	r := rand.New(rand.NewPCG(seed, 0))
	first := planOf(t, rich, nil)
	m := newMaps(t, first)
	write(t, m, planOf(t, plain, first))
	parity := first.Generation & 1
	if err := use(m); err != nil {
		t.Fatalf("undamaged: %v", err)
	}

	targets := []struct {
		name   string
		target *ebpf.Map
		index  func() uint32
	}{
		{"policies", m.Policies, func() uint32 { return parity }},
		{"policies", m.Policies, func() uint32 { return parity }},
		{"profiles", m.Profiles, func() uint32 { return parity*first.Geometry.Profiles + r.Uint32N(20) }},
		{"control", m.Control, func() uint32 { return 0 }},
		{"table", m.Table, func() uint32 { return 0 }},
		{"about", m.About, func() uint32 { return 0 }},
	}
	var taken, refused int
	try := func(name string) {
		t.Helper()
		done := make(chan struct{})
		go func() {
			select {
			case <-done:
			case <-time.After(time.Minute):
				panic("reading hostile maps does not end")
			}
		}()
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				t.Fatalf("%s: %v", name, p)
			}
		}()
		switch err := use(m); {
		case err == nil:
			taken++
		case errors.Is(err, ErrLayout):
			refused++
		default:
			t.Errorf("%s: %v", name, err)
		}
	}
	rounds := 3000
	if testing.Short() {
		rounds = 300
	}
	for range rounds {
		if c := targets[r.IntN(len(targets))]; r.IntN(8) > 0 {
			index := c.index()
			value := make([]byte, c.target.ValueSize())
			if err := c.target.Lookup(index, &value); err != nil {
				t.Fatal(err)
			}
			bad := append([]byte(nil), value...)
			damage(r, bad)
			if err := c.target.Put(index, bad); err != nil {
				t.Fatal(err)
			}
			try(c.name)
			if err := c.target.Put(index, value); err != nil {
				t.Fatal(err)
			}
			continue
		}
		k := bpf.PolicerPrefixKey{Length: r.Uint32N(161), Set: parity<<prefixCopyShift | r.Uint32N(8)}
		if r.IntN(4) == 0 {
			k.Set = parity<<prefixCopyShift | r.Uint32()>>1
		}
		binary.NativeEndian.PutUint64(k.Address[:], r.Uint64())
		profile := r.Uint32N(400)
		if err := m.Prefixes.Put(&k, profile); err != nil {
			t.Fatal(err)
		}
		try("prefixes")
		if err := m.Prefixes.Delete(&k); err != nil {
			t.Fatal(err)
		}
	}
	if taken < rounds/50 || refused < rounds/50 {
		t.Errorf("%d rounds: %d plans taken, %d refused: the test shows little", rounds, taken, refused)
	}
	if err := use(m); err != nil {
		t.Errorf("undamaged again: %v", err)
	}
}
