package loader

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/marker"
)

// hostCores names the variable that tells, in a virtual machine, how many of the host's cores run its CPUs.
const hostCores = "TRICOLOR_HOST_CORES"

const (
	overcommitRound  = 20_000 // packets of all CPUs at once
	overcommitRounds = 30     // at most
	overcommitEnough = 50     // contended packets: no more rounds
)

// Where a machine's CPUs are more than the cores they run on, the host stops one in the middle of a packet, with
// locks held, while others wait for them. Nothing is accepted beyond what was there and was earned, and every packet
// that is red for want of a lock is counted: here no bucket runs dry, so that every red one is.
func TestOvercommitted(t *testing.T) {
	testutils.RequireKernel(t)
	cpus := allowedCPUs(t, 16)
	cores, _ := strconv.Atoi(os.Getenv(hostCores)) // 0: not known
	on := ""
	if cores > 0 {
		on = fmt.Sprintf(" on %d of the host's cores", cores)
	}
	for _, c := range []struct{ name, meters string }{
		{"a bucket", "{ profile: p, per: flow }"},
		{"a chain", `{ profile: p, per: flow }, { profile: p, per: "src/24,56" }, { profile: p, per: interface }`},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan := planAfter(t, fmt.Sprintf(`version: 1
flows: 64
profiles:
  p: { meter: token, cir: 1kB/s, cbs: 2GB }
classes:
  - { name: all, meters: [ %s ] }
`, c.meters), nil)
			p, err := Load(plan, Options{Seeds: randomSeeds()})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { p.Close() })
			frame := contendedFrame(1)
			flatOut(t, p, frame, overcommitRound) // not full again for hours
			before := snapshot(t, p)

			var counters marker.ClassStats
			for range overcommitRounds {
				onEach(t, cpus, func(int) { flatOut(t, p, frame, overcommitRound/len(cpus)) })
				if counters = classStats(t, p, plan)[0]; counters.Contended >= overcommitEnough {
					break
				}
			}
			after := snapshot(t, p)
			settleUp(t, before, after, 1000)
			want := meteredAt(after, plan, 0)
			if want[marker.Red] != 0 {
				t.Errorf("a bucket is to have run dry: %d red packets", want[marker.Red])
			}
			want[marker.Red] = counters.Contended
			if diff := cmp.Diff(want, counters.Packets); diff != "" {
				t.Errorf("the class's packets by color (-buckets' and contended +class's):\n%s", diff)
			}
			accepted, red := counters.Packets[marker.Green], counters.Packets[marker.Red]
			t.Logf("figures: %s, %d CPUs%s: %d packets, %d of them contended", c.name, len(cpus), on, accepted+red, red)
			if cores > 0 && len(cpus) > cores && counters.Contended == 0 {
				t.Errorf("no holder of a lock was stopped in %d packets: this proves little", accepted)
			}
		})
	}
}
