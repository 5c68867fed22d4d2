package main

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/maps"
	"github.com/tricolor-policer/tricolor/marker"
)

// A test run does not reset the packet: the driver puts back what marking changed, before the next.
func TestDriverRestores(t *testing.T) {
	testutils.RequireKernel(t)
	nothing, err := empty()
	if err != nil {
		t.Fatal(err)
	}
	defer nothing.Close()
	for name, packets := range map[string]stream{"IPv4": udp4(1), "IPv6": udp6(1)} {
		packets.first = 0x01020304
		d, err := newDriver(nothing, packets)
		if err != nil {
			t.Fatal(err)
		}
		want := bytes.Clone(packets.frame)
		binary.BigEndian.PutUint32(want[packets.source:], packets.first)
		marked := bytes.Clone(packets.frame)
		marked[ipHeader] |= 2
		marked[ipHeader+1] ^= 0xb8
		if packets.checksum != 0 {
			marked[packets.checksum] ^= 0xb8
		}
		_, got, err := d.Test(marked)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s:\n%x, not\n%x", name, got, want)
		}
		d.Close()
	}
}

// What is timed as marking really marks, packet by packet, and the checksum stays right.
func TestBenchMarks(t *testing.T) {
	testutils.RequireKernel(t)
	arms, closeAll, err := armsOf(udp4(1), oneBucket(64, profileGreen, markGreen), threeBuckets(64, profileGreen, markGreen))
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll()
	for _, a := range arms {
		_, got, err := a.driver.Test(a.stream.frame)
		if err != nil {
			t.Fatal(err)
		}
		sum := uint32(0)
		for i := 0; i < 20; i += 2 {
			sum += uint32(binary.BigEndian.Uint16(got[ipHeader+i:]))
		}
		if got[ipHeader+1] != 10<<2 || sum>>16+sum&0xffff != 0xffff {
			t.Errorf("marked: %x", got)
		}
		if err := a.wantColor(marker.Green); err != nil {
			t.Error(err)
		}
		if err := a.wantColor(marker.Red); err == nil {
			t.Error("green packets pass for red ones")
		}
	}
}

// Every flow has a packet before anything is timed.
func TestFillHasEveryFlow(t *testing.T) {
	testutils.RequireKernel(t)
	const flows = 1000
	arms, closeAll, err := armsOf(udp4(flows), oneBucket(1<<13, profileInUse))
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll()
	b, err := maps.OpenBuckets(arms[0].policer.Maps.Buckets)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	torn, n := 0, 0
	for range b.All(&torn) {
		n++
	}
	if n != flows {
		t.Errorf("%d buckets, not %d", n, flows)
	}
}

// A nanobyte that is missing is seen, or one too many; also where the sums go over 2^64.
func TestUnaccounted(t *testing.T) {
	var before, after marker.Slot
	before.Bucket = marker.Bucket{Last: 5, Tc: 7e18, Tx: 9e18}
	after.Bucket = marker.Bucket{Last: 5 + 1000, Tc: 6e18, Tx: 9e18 + 3000}
	after.Bytes = [marker.Colors]uint64{4e8, 6e8, 1e9}
	if got := unaccounted(&before, &after, 3); got != 0 {
		t.Errorf("%v of a right bucket", got)
	}
	after.Bucket.Tc--
	if got := unaccounted(&before, &after, 3); got != 1 {
		t.Errorf("%v where one was lost", got)
	}
	after.Bucket.Tc += 3
	if got := unaccounted(&before, &after, 3); got != -2 {
		t.Errorf("%v where two were given", got)
	}
}

// The chosen pairs are other keys, of one hash where there is no secret beyond the first state.
func TestChosenPairs(t *testing.T) {
	k := marker.Key{1, 2, 3, 4, 5}
	for _, h := range hashers {
		changed := colliding(h.name, k)
		if changed == k {
			t.Errorf("%s: the same key", h.name)
		}
		weak := h.name == "xxh64, word by word" || h.name == "multiply and shift"
		for seed := range uint64(100) {
			hash := h.seed(seed)
			if same := hash(&k) == hash(&changed); same != weak {
				t.Fatalf("%s, seed %d: the same hash: %v", h.name, seed, same)
			}
		}
	}
}

// Shares worked out by hand, and simulation and mirror side by side.
func TestOverflowByShape(t *testing.T) {
	keys := keysOf(1, 6, 0)
	same := func(*marker.Key) uint64 { return 0 }
	for _, c := range []struct {
		shape shape
		want  float64
	}{
		{shape{"", 4, 1}, 2. / 6}, {shape{"", 2, 2}, 2. / 6}, {shape{"", 4, 2}, 0}, {shape{"", 1, 2}, 4. / 6},
	} {
		if got := c.shape.overflow(keys, 64, same); got != c.want {
			t.Errorf("%d sets of %d: %v, not %v", c.shape.choice, c.shape.width, got, c.want)
		}
	}
	const slots = 1 << 12
	n := slots * 9 / 10
	simulated := shape{"", 4, 2}.overflow(keysOf(0, n, 3), slots, hashers[0].seed(3))
	mirrored, err := mirrorOverflow(n, slots, 3)
	if err != nil {
		t.Fatal(err)
	}
	// Their keys' last words differ: each is a sample of its own.
	if math.Abs(simulated-mirrored) > .02 || mirrored < .01 {
		t.Errorf("%v simulated, %v by the mirror", simulated, mirrored)
	}
}
