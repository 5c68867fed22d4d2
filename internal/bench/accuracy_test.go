package main

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/marker"
	"github.com/tricolor-policer/tricolor/pcaptest"
)

func TestRates(t *testing.T) {
	r := rates()
	if len(r) != 200 || r[0] != 1 || r[len(r)-1] != fastest {
		t.Fatalf("%d rates from %d to %d", len(r), r[0], r[len(r)-1])
	}
	for i := range r[1:] {
		if r[i+1] <= r[i] {
			t.Errorf("%d comes after %d", r[i+1], r[i])
		}
	}
}

func TestOursAreExact(t *testing.T) {
	f, err := metersErrors(rates(), 4_000_000)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range f {
		if e != 0 {
			t.Errorf("%d B/s: off by %g ppm", rates()[i], e)
		}
	}
}

// What the figure is worked out from sees a single nanobyte, either way.
func TestAccountSeesANanobyte(t *testing.T) {
	list := offered(1_000_003, rand.New(rand.NewPCG(1, 1)))
	for _, params := range overloads(1_000_003) {
		accounts, err := judge(params, list, 10_000)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range accounts {
			if a.earned < 100*marker.Nano {
				t.Errorf("%v: it earned as little as %d nanobytes", params.Meter, a.earned)
			}
			more, less := a, a
			more.left++
			less.spent--
			if a.off() != 0 || more.off() != 1 || less.off() != -1 || more.error() == 0 || less.error() == 0 {
				t.Errorf("%v: off by %d; with a nanobyte more by %d, less by %d", params.Meter, a.off(), more.off(), less.off())
			}
		}
	}
	// A bucket that fills loses what it earns: it shows.
	accounts, err := judge(marker.Params{Meter: marker.Token, CIR: fastest, CBS: 2_000}, list, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	if accounts[0].off() >= 0 {
		t.Errorf("a bucket that fills is off by %d", accounts[0].off())
	}
}

// The kernel's program keeps a rate to the nanobyte too, at a sample of the rates.
func TestKernelIsExact(t *testing.T) {
	testutils.RequireKernel(t)
	all := rates()
	for i := 0; i < len(all); i += 66 {
		list := offered(all[i], rand.New(rand.NewPCG(all[i], 2)))
		for _, params := range overloads(all[i]) {
			testKernelIsExact(t, params, list)
		}
	}
}

func testKernelIsExact(t *testing.T, params marker.Params, list *[4096]arrival) {
	t.Helper()
	plan, err := planOf(params, 64)
	if err != nil {
		t.Fatal(err)
	}
	k, err := pcaptest.NewKernel(plan, marker.SeedsFrom(1))
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	data := udpFrame()
	now := uint64(marker.Nano)
	// pass sends the list, and returns what it spent and the bucket afterwards.
	pass := func() (spent [marker.Colors]uint64, b marker.Bucket) {
		var got marker.Outcome
		for _, a := range list {
			now += a.gap
			length := uint32(a.cost / marker.Nano)
			binary.BigEndian.PutUint16(data[16:], uint16(length))
			got, err = k.Packet(&marker.Frame{Data: data, Length: max(length+14, 64)}, now)
			if err != nil {
				t.Fatal(err)
			}
			if got.Kind != marker.Metered || got.Cost != uint64(length) {
				t.Fatalf("a packet of %d bytes: %+v", length, got)
			}
			spent[got.Color] += a.cost
		}
		var set marker.Set
		if err := k.Set(got.Slots[0]/marker.SetSlots, &set); err != nil {
			t.Fatal(err)
		}
		return spent, set[got.Slots[0]%marker.SetSlots].Bucket
	}
	_, before := pass() // spends the bursts
	spent, after := pass()
	for _, a := range accounts(&plan.Profiles[0], before, after, spent) {
		if a.off() != 0 || a.earned < 100*marker.Nano || spent[marker.Red] == 0 {
			t.Errorf("%v, cir %d B/s: off by %d nanobytes: %+v", params.Meter, params.CIR, a.off(), a)
		}
	}
}

func TestNftListed(t *testing.T) {
	got, err := nftListed([]byte(`{"nftables": [{"metainfo": {"version": "1.0.6"}}, {"rule": {"family": "ip", "expr": [
		{"limit": {"rate": 123456789, "burst": 0, "burst_unit": "bytes", "rate_unit": "bytes", "per": "second"}}]}},
		{"rule": {"expr": [{"limit": {"rate": 3, "rate_unit": "mbytes", "per": "second"}}]}}]}`))
	if err != nil || !slices.Equal(got, []uint64{123456789, 3 << 20}) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := nftListed([]byte(`{"nftables": [{"rule": {"expr": [{"limit": {"rate": 3, "per": "day"}}]}}]}`)); err == nil {
		t.Errorf("a rate a day is read as %v", got)
	}
}

// 64 bytes at 10^10 bytes a second are 6.4 ns, of which nft charges 6; at 10^11 they are 0.64: it
// charges none.
func TestNftKept(t *testing.T) {
	if k := nftKept(10_000_000_000, 64); math.Abs(k.rate-64e9/6) > 1 {
		t.Errorf("%+v", k)
	}
	if k := nftKept(100_000_000_000, 64); !math.IsInf(k.rate, 1) {
		t.Errorf("%+v", k)
	}
}

// What Linux at 250 Hz says of a bucket at 1 MB/s.
func TestHashlimitKept(t *testing.T) {
	e, err := readHashlimit("14 0.0.0.0:0->127.0.0.1:0 4194304000 0 67107\n")
	if err != nil || e != (hashlimitEntry{4194304000, 67107}) {
		t.Fatalf("%+v, %v", e, err)
	}
	if k := hashlimitKept(e, e.credit, 0); math.Abs(k.rate-1_000_027) > 1 {
		t.Errorf("as stored %+v", k)
	}
	// 64 bytes cost five chunks of 16.
	if k := hashlimitKept(e, e.credit, 64); math.Abs(k.rate-800_022) > 1 {
		t.Errorf("as charged %+v", k)
	}
	if _, err := readHashlimit("none"); err == nil {
		t.Error("a line of no bucket is read")
	}
}

// Each peer that this machine has says of a rate what it is known to keep of it, or refuses it.
func TestPeers(t *testing.T) {
	const tooFast = fastest // for nft: 2^64 nanobytes a second are less
	for _, peer := range accuracyPeers {
		t.Run(peer.needs, func(t *testing.T) {
			all, err := peer.rates([]uint64{1_000_000, tooFast})
			if errors.Is(err, errLeftOut) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			stored := all[0].kept
			if stored[0].refused || math.Abs(stored[0].rate-1_000_000) > 100 {
				t.Errorf("1 MB/s: %+v", stored[0])
			}
			if peer.needs == "nft" && !stored[1].refused {
				t.Errorf("%d B/s is taken: %+v", tooFast, stored[1])
			}
		})
	}
}

func TestKeptErrors(t *testing.T) {
	f, refused, exact := keptErrors([]uint64{100, 200, 400, 800}, []kept{{rate: 100}, {refused: true}, {rate: 404}, {rate: math.Inf(1)}})
	if len(f) != 3 || f[0] != 0 || math.Abs(f[1]-10_000) > 1e-6 || !math.IsInf(f[2], 1) || refused != 1 || exact != 1 {
		t.Errorf("%v, %d refused, %d exact", f, refused, exact)
	}
}
